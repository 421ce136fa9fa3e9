"""Where a long series lies: rows are read from a file when they are needed, and never all at once."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any

import numpy as np


class SourceChangedError(RuntimeError):
    """A file was changed or removed while a fit was reading it: what was read before and after are not one series."""


class Source(abc.ABC):
    """Rows of observations and inputs, read a stretch at a time.

    Attributes:
        rows: T + 1.
        columns: names of the columns of y.
        input_columns: names of the inputs.
        place: the file or folder, for messages; None where there is none.
    """

    rows: int
    columns: tuple[str, ...]
    input_columns: tuple[str, ...] = ()
    place: Path | None = None

    @abc.abstractmethod
    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Observations and inputs of rows `start, ..., stop - 1`, shapes (rows, d_y) and (rows, k), NaN where missing."""


class FileSource(Source):
    """A source in one file, which must not change while it is read."""

    def __init__(self, place: str | os.PathLike[str]):
        self.place = Path(place)
        self.stamp = self._stamp()

    def check_unchanged(self) -> None:
        """Refuse to go on with a file that is not the one that was opened."""
        try:
            now = self._stamp()
        except OSError as error:
            raise SourceChangedError(
                f"{self.place} must stay where it is while it is read; it is gone ({error.strerror}). Put it back and go on "
                "from the last checkpoint."
            ) from error
        if now != self.stamp:
            raise SourceChangedError(
                f"{self.place} must not change while it is read; its size or time of change is another. Put the old file "
                "back and go on from the last checkpoint, or begin a new run."
            )

    def _stamp(self) -> tuple[int, int, int]:
        found = os.stat(self.place)  # pyright: ignore[reportArgumentType]
        return found.st_size, found.st_mtime_ns, found.st_ino


class ArraySource(FileSource):
    """A `.npy` file, mapped into memory: the system reads pages of it when they are looked at, and forgets them again.

    The file is opened anew for each stretch, lest pages that were looked at count as memory of this process.
    """

    def __init__(self, place: str | os.PathLike[str], *, inputs: int = 0):
        super().__init__(place)
        array = self._open()
        if array.ndim not in (1, 2) or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise ValueError(
                f"{place} must hold numbers of shape (rows, columns) or (rows,); got {array.dtype}, {array.shape}."
            )
        if np.issubdtype(array.dtype, np.complexfloating):
            raise ValueError(f"{place} must hold real numbers; got {array.dtype}.")
        width = 1 if array.ndim == 1 else array.shape[1]
        if not 0 <= inputs < width:
            raise ValueError(f"`inputs` must leave at least one of the {width} columns for y; got {inputs}.")
        self.rows, seen = len(array), width - inputs
        self.columns = ("y",) if seen == 1 else tuple(f"y{k}" for k in range(seen))
        self.input_columns = ("u",) if inputs == 1 else tuple(f"u{k}" for k in range(inputs))

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Source.read`; the last columns are the inputs, where there are some."""
        self.check_unchanged()
        rows = np.array(self._open()[start:stop], np.float64)
        rows = rows[:, None] if rows.ndim == 1 else rows
        seen = len(self.columns)
        return rows[:, :seen], rows[:, seen:]

    def _open(self) -> np.ndarray:
        return np.load(self.place, mmap_mode="r", allow_pickle=False)  # pyright: ignore[reportArgumentType]


class ZarrSource(Source):
    """A Zarr array of shape (rows, columns) or (rows,), or a group with one such array called `y` and perhaps `inputs`."""

    def __init__(self, place: str | os.PathLike[str]):
        import zarr

        self.place = Path(place)
        opened: Any = zarr.open(str(place), mode="r")
        is_group = hasattr(opened, "keys")
        if is_group and "y" not in opened:
            raise ValueError(f"{place} must be a Zarr array, or a group with an array `y`; it has {sorted(opened.keys())}.")
        self._y: Any = opened["y"] if is_group else opened
        self._inputs: Any = opened["inputs"] if is_group and "inputs" in opened else None
        self.rows = self._y.shape[0]
        self.columns, self.input_columns = _names("y", self._y), () if self._inputs is None else _names("u", self._inputs)
        if self._inputs is not None and self._inputs.shape[0] != self.rows:
            raise ValueError(f"`inputs` of {place} must have the {self.rows} rows of `y`; it has {self._inputs.shape[0]}.")

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Source.read`."""
        y = np.asarray(self._y[start:stop], np.float64).reshape(stop - start, -1)
        nothing = np.zeros((stop - start, 0))
        return y, nothing if self._inputs is None else np.asarray(self._inputs[start:stop], np.float64).reshape(len(y), -1)


class ParquetSource(FileSource):
    """A Parquet file, read by row groups; write it with groups of some 100,000 rows, or each read takes long."""

    def __init__(self, place: str | os.PathLike[str], *, columns: list[str] | None = None, inputs: list[str] | None = None):
        import pyarrow.parquet as parquet

        super().__init__(place)
        self._file: Any = parquet.ParquetFile(place)
        names = self._file.schema_arrow.names
        self.input_columns = tuple(inputs or ())
        self.columns = tuple(columns or (name for name in names if name not in self.input_columns))
        if missing := [name for name in (*self.columns, *self.input_columns) if name not in names]:
            raise ValueError(f"{place} must have the columns {missing}; it has {names}.")
        counts = [self._file.metadata.row_group(k).num_rows for k in range(self._file.num_row_groups)]
        self._edges = np.concatenate([[0], np.cumsum(counts)])
        self.rows = int(self._edges[-1])
        self._last: tuple[int, np.ndarray] | None = None

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Source.read`; the last group that was read is kept."""
        self.check_unchanged()
        first, last = np.searchsorted(self._edges, [start, stop - 1], side="right") - 1
        parts = []
        for group in range(first, last + 1):
            low, high = max(start, self._edges[group]), min(stop, self._edges[group + 1])
            parts.append(self._group(group)[low - self._edges[group] : high - self._edges[group]])
        rows = np.concatenate(parts)
        return rows[:, : len(self.columns)], rows[:, len(self.columns) :]

    def _group(self, number: int) -> np.ndarray:
        if self._last is None or self._last[0] != number:
            table = self._file.read_row_group(number, columns=[*self.columns, *self.input_columns])
            columns = [table.column(name).to_numpy(zero_copy_only=False) for name in (*self.columns, *self.input_columns)]
            self._last = number, np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
        return self._last[1]


def source(place: str | os.PathLike[str], **options: Any) -> Source:
    """A series on disk that is too long for memory: a `.npy` or `.parquet` file, or a Zarr folder.

    Args:
        place: the file or folder. Rows are steps of the model's grid; NaN marks what is missing.
        options: `inputs`, how many of the last columns of a `.npy` file are inputs, or their names in a Parquet file;
            `columns`, names of the observed columns of a Parquet file.
    """
    path = Path(place)
    kinds = {".npy": ArraySource, ".parquet": ParquetSource, ".zarr": ZarrSource}
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}.")
    if path.suffix not in kinds:
        raise ValueError(f"A series on disk must be one of {', '.join(kinds)}; got {path}.")
    return kinds[path.suffix](path, **options)


def _names(letter: str, array: Any) -> tuple[str, ...]:
    count = 1 if array.ndim == 1 else array.shape[1]
    return (letter,) if count == 1 else tuple(f"{letter}{k}" for k in range(count))
