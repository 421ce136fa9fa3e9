"""How much was observed, and where nothing was: found in one pass over the rows, which may lie on a disk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

LONGER = 4.0  # times the usual distance between observations beyond which rows without any are a gap
MOST = 200  # gaps that are kept, the longest
COUNTED = 4_096  # rows between two observations up to which their usual number is exact


class Gap(NamedTuple):
    """Rows `start, ..., stop - 1`, at none of which anything was observed."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many rows."""
        return self.stop - self.start


class Seen(NamedTuple):
    """What a pass over the rows finds.

    Attributes:
        rows: share of the rows at which something was observed.
        entries: share of all entries that are real.
        gaps: stretches without any observation that are longer than usual, the longest first.
    """

    rows: float
    entries: float
    gaps: tuple[Gap, ...]


def seen(parts: Iterable[Bool[np.ndarray, "time obs"]]) -> Seen:
    """From the rows one part after the other: which entries are real."""
    rows = some_rows = entries = real = 0
    last = -1  # the row before, or the last one with an observation
    between, longest = np.zeros(COUNTED + 1, np.int64), np.zeros((0, 2), np.int64)
    for observed in parts:
        some = np.flatnonzero(observed.any(axis=1)) + rows
        edges = np.concatenate([[last], some])
        empty = np.diff(edges) - 1
        inner = empty if last >= 0 else empty[1:]
        between += np.bincount(np.minimum(inner, COUNTED), minlength=COUNTED + 1)
        longest = _longest(longest, edges[:-1] + 1, edges[1:])
        last = int(edges[-1])
        rows, entries = rows + len(observed), entries + observed.size
        some_rows, real = some_rows + len(some), real + int(observed.sum())
    longest = _longest(longest, np.array([last + 1]), np.array([rows]))
    usual = _median(between)
    notable = [Gap(int(a), int(b)) for a, b in longest if b - a > max(LONGER * usual, 1)]
    return Seen(some_rows / rows, real / entries, tuple(notable))


def _longest(found: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """The longest of those found before and of these, earlier ones first where they are as long."""
    wide = stop - start > 1
    both = np.concatenate([found, np.stack([start[wide], stop[wide]], axis=1)])
    return both[np.argsort(both[:, 0] - both[:, 1], kind="stable")[:MOST]]


def _median(counts: np.ndarray) -> float:
    if not counts.sum():
        return 0.0
    return float(np.searchsorted(np.cumsum(counts), 0.5 * counts.sum()))
