"""`Table`: the rows of a series on its grid, with the names of their columns and the times that they belong to."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Table:
    """Observations and inputs, one row a step of the model, and what their columns and rows are called.

    Attributes:
        y: observations, shape (rows, columns), NaN where nothing was observed.
        inputs: exogenous inputs, shape (rows, k), or None.
        columns: names of the columns of `y`.
        input_columns: names of the inputs.
        times: of the rows, evenly spaced: numbers, or `datetime64`; None where rows are only counted.
        time_name: what the times are called.
        notes: how rows were put on the grid, in sentences.
    """

    y: np.ndarray
    inputs: np.ndarray | None
    columns: tuple[str, ...]
    input_columns: tuple[str, ...] = ()
    times: np.ndarray | None = None
    time_name: str = "time"
    notes: tuple[str, ...] = ()

    @property
    def index(self) -> np.ndarray:
        """The times of the rows, or their numbers."""
        return np.arange(len(self.y)) if self.times is None else self.times

    def ahead(self, steps: int) -> np.ndarray:
        """The times, or the numbers, of the `steps` rows that would follow."""
        last, before = self.index[-1], self.index[-2]
        return last + (last - before) * np.arange(1, steps + 1)


def as_table(y: Any, inputs: Any = None) -> Table:
    """A `Table` as it is, or plain arrays as one."""
    if isinstance(y, Table):
        return y
    y = np.asarray(y)
    y = y[:, None] if y.ndim == 1 else y
    if inputs is not None:
        inputs = np.asarray(inputs)
        inputs = inputs[:, None] if inputs.ndim == 1 else inputs
    return Table(y, inputs, _numbered("y", y), () if inputs is None else _numbered("u", inputs))


def _numbered(letter: str, array: np.ndarray) -> tuple[str, ...]:
    count = array.shape[1] if array.ndim == 2 else 0
    return (letter,) if count == 1 else tuple(f"{letter}{k}" for k in range(count))
