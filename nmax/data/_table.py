"""`Table`: the rows of a series on its grid, with the names of their columns and the times that they belong to."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Table:
    """Observations and inputs, one row a step of the model, and what their columns and rows are called.

    Attributes:
        y: observations, shape (rows, columns), NaN where nothing was observed; an array, or rows that are read from a disk.
        inputs: exogenous inputs, shape (rows, k), or None.
        columns: names of the columns of `y`.
        input_columns: names of the inputs.
        times: of the rows, evenly spaced: numbers, or `datetime64`, in months where rows are months, quarters or years; None
            where rows are only counted.
        time_name: what the times are called.
        notes: how rows were put on the grid, in sentences.
    """

    y: Any
    inputs: Any
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
        if self.times is None:
            return np.arange(len(self.y), len(self.y) + steps)
        last, before = self.times[-1], self.times[-2]
        return last + (last - before) * np.arange(1, steps + 1)
