"""A long series in few bins, without losing its extremes: the smallest and the largest number of each, and the mean."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Float


class Bins:
    """Smallest and largest number of each bin of `width` rows, filled stretch by stretch; NaN where a bin has none.

    Attributes:
        width: rows of a bin; the last one may have fewer.
        low: smallest numbers.
        high: largest numbers.
        mean: of what lies halfway between the two of each row.
    """

    def __init__(self, rows: int, width: int, columns: int):
        self.width = width
        count = -(-rows // width)
        self.low = np.full((count, columns), np.nan, np.float32)
        self.high = np.full((count, columns), np.nan, np.float32)
        self._total, self._count = np.zeros((count, columns)), np.zeros((count, columns))

    def add(self, start: int, low: Float[np.ndarray, "time column"], high: Float[np.ndarray, "time column"]) -> None:
        """Rows `start, ...`, each with a smallest and a largest number, which may be the same."""
        if not len(low):
            return
        first, last = start // self.width, (start + len(low) - 1) // self.width
        cuts = np.maximum(np.arange(first, last + 1) * self.width - start, 0)
        here = slice(first, last + 1)
        self.low[here] = np.fmin(self.low[here], np.fmin.reduceat(low, cuts, axis=0))
        self.high[here] = np.fmax(self.high[here], np.fmax.reduceat(high, cuts, axis=0))
        middle = 0.5 * (low.astype(np.float64) + high)
        self._total[here] += np.add.reduceat(np.nan_to_num(middle), cuts, axis=0)
        self._count[here] += np.add.reduceat(np.isfinite(middle), cuts, axis=0, dtype=np.float64)

    @property
    def mean(self) -> Float[np.ndarray, "bin column"]:
        """Of each bin; NaN where it has nothing."""
        return np.where(self._count > 0, self._total / np.maximum(self._count, 1.0), np.nan).astype(np.float32)

    def part(self, start: int, stop: int) -> Bins:
        """Some of the rows of bins of one row each."""
        own = Bins(stop - start, 1, self.low.shape[1])
        own.add(0, self.low[start:stop], self.high[start:stop])
        return own


def binned(values: Float[np.ndarray, "time column"], width: int) -> Bins:
    """All of a series at once."""
    bins = Bins(len(values), width, values.shape[1])
    values = finite(values)
    bins.add(0, values, values)
    return bins


def coarser(low: np.ndarray, high: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """Every `group` bins as one."""
    if group <= 1 or not len(low):
        return low, high
    cuts = np.arange(0, len(low), group)
    return np.fmin.reduceat(low, cuts, axis=0), np.fmax.reduceat(high, cuts, axis=0)


def coarser_mean(mean: np.ndarray, group: int) -> np.ndarray:
    """The mean of every `group` bins."""
    if group <= 1 or not len(mean):
        return mean
    cuts = np.arange(0, len(mean), group)
    total = np.add.reduceat(np.nan_to_num(mean.astype(np.float64)), cuts, axis=0)
    count = np.add.reduceat(np.isfinite(mean), cuts, axis=0, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def middles(count: int, width: int) -> np.ndarray:
    """Row numbers in the middle of bins of so many rows."""
    return np.arange(count) * float(width) + 0.5 * (width - 1)


def finite(values: np.ndarray) -> np.ndarray:
    """In single precision, NaN for whatever is not a number there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what overflows becomes NaN below
        values = np.asarray(values).astype(np.float32)
    return np.where(np.isfinite(values), values, np.float32(np.nan))
