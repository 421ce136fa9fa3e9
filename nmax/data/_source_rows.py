"""The rows of a source as something like an array: slices are read, the whole is refused where it is too long."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax.data._source import Source
from nmax.data._table import Table

MOST = 20_000_000  # numbers that are read into memory when somebody asks for all rows


class SourceRows:
    """Observations, or inputs, of a source: has a shape and a length, and reads what is asked for."""

    def __init__(self, source: Source, which: int):
        self.source, self.which = source, which
        self.shape = (source.rows, len((source.columns, source.input_columns)[which]))
        self.ndim, self.dtype = 2, np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        rows, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            found = self._read(start, stop)[::step] if step > 0 else self._read(stop + 1, start + 1)[::step]
        elif np.ndim(rows) == 0:
            row = range(len(self))[int(rows)]
            found = self._read(row, row + 1)[0]
            return found[rest] if rest else found
        else:
            chosen = np.asarray(rows)
            chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
            found = np.stack([self._read(int(row), int(row) + 1)[0] for row in chosen]) if len(chosen) else self._read(0, 0)
        return found[(slice(None), *rest)] if rest else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        if self.shape[0] * max(self.shape[1], 1) > MOST:
            raise MemoryError(
                f"{self.source.place} has {self.shape[0]:,} rows, too many to read at once. Read a stretch of them: "
                "`table.y[start:stop]`."
            )
        return np.asarray(self._read(0, len(self)), dtype)

    def _read(self, start: int, stop: int) -> np.ndarray:
        if stop <= start:
            return np.zeros((0, self.shape[1]))
        return self.source.read(start, stop)[self.which]


def source_table(source: Source) -> Table:
    """A table whose rows stay on the disk."""
    rows: Any = SourceRows(source, 0)
    inputs: Any = SourceRows(source, 1) if source.input_columns else None
    return Table(
        rows, inputs, source.columns, source.input_columns, notes=(f"{source.rows:,} rows are read from the disk.",)
    )


def source_of(table: Table) -> Source | None:
    """The source of a table whose rows are on the disk."""
    return table.y.source if isinstance(table.y, SourceRows) else None
