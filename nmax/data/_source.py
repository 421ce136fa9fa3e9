"""Where a long series lies: rows are read from a file when they are needed, and never all at once."""

from __future__ import annotations

import abc
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

OFTEN, SELDOM = 1.0, 50  # seconds between two looks at all files of a Zarr folder, and how many times as long as one takes


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

    def check_unchanged(self) -> None:  # noqa: B027  by default nothing can be told
        """Raise `SourceChangedError` if the rows are not those that they were at first, as far as that can be told."""


class StampedSource(Source):
    """A source in one place, which must not change while it is read."""

    place: Path
    stamp: tuple[int, ...]

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
        self._compare(now)

    def _compare(self, now: tuple[int, ...]) -> None:
        if now != self.stamp:
            raise SourceChangedError(
                f"{self.place} must not change while it is read; its size or time of change is another. Put the old one "
                "back and go on from the last checkpoint, or begin a new run."
            )

    @abc.abstractmethod
    def _stamp(self) -> tuple[int, ...]:
        """Numbers that a change of the rows changes, the size in bytes and the time first."""


class FileSource(StampedSource):
    """A source in one file."""

    def _stamp(self) -> tuple[int, ...]:
        return _stamp_of(os.stat(self.place))


class ArraySource(FileSource):
    """A `.npy` file, read a stretch at a time.

    It is not mapped into memory: that a mapped file is cut short, or that its disk fails, ends the process without a word.
    """

    def __init__(self, place: str | os.PathLike[str], *, inputs: int = 0):
        super().__init__(place)
        try:
            array = np.load(self.place, mmap_mode="r", allow_pickle=False)  # for the header alone; no row is looked at
        except (ValueError, EOFError) as error:
            raise ValueError(
                f"{place} must be a whole .npy file of numbers; NumPy cannot read it: {error}. Write it again."
            ) from error
        if array.ndim not in (1, 2) or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise ValueError(
                f"{place} must hold numbers of shape (rows, columns) or (rows,); got {array.dtype}, {array.shape}."
            )
        if np.issubdtype(array.dtype, np.complexfloating):
            raise ValueError(f"{place} must hold real numbers; got {array.dtype}.")
        self._width = 1 if array.ndim == 1 else array.shape[1]
        if not 0 <= inputs < self._width:
            raise ValueError(f"`inputs` must leave at least one of the {self._width} columns for y; got {inputs}.")
        self._dtype, self._begins = array.dtype, array.offset  # pyright: ignore[reportAttributeAccessIssue]
        self._by_column = self._width > 1 and not array.flags.c_contiguous
        self.rows, seen = len(array), self._width - inputs
        self.columns = ("y",) if seen == 1 else tuple(f"y{k}" for k in range(seen))
        self.input_columns = ("u",) if inputs == 1 else tuple(f"u{k}" for k in range(inputs))

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Source.read`; the last columns are the inputs, where there are some."""
        self.check_unchanged()
        with open(self.place, "rb", buffering=0) as file:
            if self._by_column:
                columns = [self._numbers(file, k * self.rows + start, stop - start) for k in range(self._width)]
                rows = np.stack(columns, axis=1)
            else:
                rows = self._numbers(file, start * self._width, (stop - start) * self._width).reshape(-1, self._width)
            self._compare(_stamp_of(os.fstat(file.fileno())))  # nor may it have changed meanwhile
        seen = len(self.columns)
        return rows[:, :seen].astype(np.float64), rows[:, seen:].astype(np.float64)

    def _numbers(self, file: Any, first: int, count: int) -> np.ndarray:
        """So many numbers of the file from the `first` on."""
        size = self._dtype.itemsize
        content: Any = np.empty(count * size, np.uint8)
        file.seek(self._begins + first * size)
        left = memoryview(content)
        while len(left):
            got = file.readinto(left)
            if not got:
                self._compare(())
            left = left[got:]
        return content.view(self._dtype)


class ZarrSource(StampedSource):
    """A Zarr array of shape (rows, columns) or (rows,), or a group with one such array called `y` and perhaps `inputs`.

    A chunk that is not there reads as missing values, so all files are looked at for changes, as often as takes no time.
    """

    def __init__(self, place: str | os.PathLike[str]):
        import zarr

        super().__init__(place)
        self._looked, self._took = time.monotonic(), 0.0
        opened: Any = zarr.open(str(place), mode="r")
        is_group = hasattr(opened, "keys")
        if is_group and "y" not in opened:
            raise ValueError(f"{place} must be a Zarr array, or a group with an array `y`; it has {sorted(opened.keys())}.")
        self._y: Any = opened["y"] if is_group else opened
        self._inputs: Any = opened["inputs"] if is_group and "inputs" in opened else None
        for array in (one for one in (self._y, self._inputs) if one is not None):
            numbers = np.issubdtype(array.dtype, np.number) and not np.issubdtype(array.dtype, np.complexfloating)
            if array.ndim not in (1, 2) or not (numbers or array.dtype == bool):
                raise ValueError(
                    f"{place} must hold real numbers of shape (rows, columns) or (rows,); got {array.dtype}, {array.shape}."
                )
        self.rows = self._y.shape[0]
        self.columns, self.input_columns = _names("y", self._y), () if self._inputs is None else _names("u", self._inputs)
        if self._inputs is not None and self._inputs.shape[0] != self.rows:
            raise ValueError(f"`inputs` of {place} must have the {self.rows} rows of `y`; it has {self._inputs.shape[0]}.")

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Source.read`."""
        if time.monotonic() - self._looked > max(OFTEN, SELDOM * self._took):
            self.check_unchanged()
        y = np.asarray(self._y[start:stop], np.float64).reshape(stop - start, -1)
        nothing = np.zeros((stop - start, 0))
        return y, nothing if self._inputs is None else np.asarray(self._inputs[start:stop], np.float64).reshape(len(y), -1)

    def _stamp(self) -> tuple[int, ...]:
        begun = time.monotonic()
        os.stat(self.place)
        found = [os.stat(Path(at, name)) for at, _, names in os.walk(self.place) for name in names]
        self._looked, self._took = time.monotonic(), time.monotonic() - begun
        times = [one.st_mtime_ns for one in found]
        return sum(one.st_size for one in found), max(times, default=0), len(found), sum(times)


class ParquetSource(FileSource):
    """A Parquet file, read by row groups; write it with groups of some 100,000 rows, or each read takes long."""

    def __init__(self, place: str | os.PathLike[str], *, columns: list[str] | None = None, inputs: list[str] | None = None):
        import pyarrow.parquet as parquet

        super().__init__(place)
        try:
            self._file: Any = parquet.ParquetFile(place)
        except (ValueError, OSError) as error:
            raise ValueError(
                f"{place} must be a whole Parquet file; Arrow cannot read it: {error}. Write it again."
            ) from error
        names = self._file.schema_arrow.names
        self.input_columns = tuple(inputs or ())
        self.columns = tuple(columns or (name for name in names if name not in self.input_columns))
        if missing := [name for name in (*self.columns, *self.input_columns) if name not in names]:
            raise ValueError(f"{place} must have the columns {missing}; it has {names}.")
        kinds = {name: self._file.schema_arrow.field(name).type for name in (*self.columns, *self.input_columns)}
        if others := [f"`{name}` {kind}" for name, kind in kinds.items() if not _is_number(kind)]:
            raise ValueError(
                f"{place} must hold numbers in all columns that are read; it holds {', '.join(others)}. Name those to be "
                "read: `nmax.source(place, columns=[...])`, or `--columns` of a command. Times are not read, since rows on "
                "the disk must be the steps of the model."
            )
        counts = [self._file.metadata.row_group(k).num_rows for k in range(self._file.num_row_groups)]
        self._edges = np.concatenate([[0], np.cumsum(counts)])
        self.rows = int(self._edges[-1])
        self._last: tuple[int, np.ndarray] | None = None
        self._alone = threading.Lock()  # rows are read ahead by a thread

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
        names = [*self.columns, *self.input_columns]
        with self._alone:
            if self._last is None or self._last[0] != number:
                table = self._file.read_row_group(number, columns=names)
                columns = [table.column(name).to_numpy(zero_copy_only=False) for name in names]
                self._last = number, np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
            return self._last[1]


def source(place: str | os.PathLike[str], **options: Any) -> Source:
    """A series on disk that is too long for memory: a `.npy` or `.parquet` file, or a Zarr folder.

    Args:
        place: the file or folder. Rows are steps of the model's grid; NaN marks what is missing.
        options: `inputs`, how many of the last columns of a `.npy` file are inputs, or their names in a Parquet file;
            `columns`, names of the observed columns of a Parquet file, by default all others, which must be numbers.
    """
    path = Path(place)
    kinds = {".npy": ArraySource, ".parquet": ParquetSource, ".zarr": ZarrSource}
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}.")
    if path.suffix not in kinds:
        raise ValueError(f"A series on disk must be one of {', '.join(kinds)}; got {path}.")
    return kinds[path.suffix](path, **options)


def _stamp_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns  # some file systems give a file another number each time it is looked at


def _is_number(kind: Any) -> bool:
    """Of a column of Arrow: dates and texts of digits would become numbers without a word."""
    from pyarrow import types

    return any(holds(kind) for holds in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _names(letter: str, array: Any) -> tuple[str, ...]:
    count = 1 if array.ndim == 1 else array.shape[1]
    return (letter,) if count == 1 else tuple(f"{letter}{k}" for k in range(count))
