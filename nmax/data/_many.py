"""`ManySeries`: independent series of one model, read in stretches that may lie in different ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nmax.data._long import PASS, LongSeries
from nmax.data._series import Series, deviation, ends
from nmax.data._windows import Windows, check_countable

ROWS = ("values", "observed", "next_observed", "next_value", "inputs")  # what a series has a row of for every step


class ManySeries:
    """Several series, in memory or on disk, each with a start of its own.

    It has what a `LongSeries` has. Stretches are stacked in lanes, each of which knows the rows, the start and the T of its
    own series; means, scales and the typical gap are those of all of them together, so that one guide serves them all.

    Attributes:
        members: the series, with those means and scales.
        own: the series as they came, each with its own.
        lengths: the T of each.
        length: the longest of these.
        rows: of all series, which are numbered one after the other where rows are picked (`sampled`).
        extremes: numbers of the rows with the smallest and largest entries of the columns of each series.
    """

    def __init__(self, members: Sequence[Series | LongSeries]):
        self.lengths = tuple(one.length for one in members)
        self.length, self.columns, self.input_columns = max(self.lengths), members[0].columns, members[0].input_columns
        counts = np.array(self.lengths) + 1
        self.rows, self._first = int(counts.sum()), np.cumsum(counts) - counts
        check_countable(self.rows)
        self.complete, self.partial = all(one.complete for one in members), any(one.partial for one in members)
        self.always_seen = tuple(bool(seen) for seen in np.all([_always_seen(one) for one in members], axis=0))
        self.own, self.members = tuple(members), _alike(members)
        self._arrays = [_in_memory(one) for one in self.members]
        self._starts = [np.stack([np.asarray(one.start[part]) for one in self.members]) for part in range(3)]
        one = self.members[0]
        self.start, self.typical_gap, self.centre, self.scale = one.start, one.typical_gap, one.centre, one.scale

    @property
    def has_inputs(self) -> bool:
        """Whether the model's functions take a third argument."""
        return self.input_columns > 0

    @property
    def extremes(self) -> np.ndarray:
        """Numbers of the rows with the smallest and largest entries of each column of each series."""
        return np.concatenate([first + _extremes(one) for first, one in zip(self._first, self.members, strict=True)])

    @property
    def firsts(self) -> np.ndarray:
        """The first row of y of every series, NaN where nothing was observed."""
        values, seen, _ = self._starts
        return np.where(seen, values, np.nan)

    def views(self, starts: Sequence[int] | np.ndarray, rows: int, which: Sequence[int] | np.ndarray) -> Series:
        """Stretches of `rows` rows of the series `which`, moved so that they lie within them, stacked along a leading axis.

        A series with fewer rows is filled up with its last one, which nobody looks at: `Series.at` ends there.
        """
        own = np.array(self.lengths)[np.asarray(which)]
        count = min(rows, self.length + 1)
        first = np.clip(np.asarray(starts, np.int64), 0, np.maximum(own + 1 - count, 0))
        parts = [self._read(int(k), int(at), int(at) + count) for k, at in zip(which, first, strict=True)]
        return self._series({name: np.stack([part[name] for part in parts]) for name in ROWS}, first, np.asarray(which))

    def sampled(self, rows: np.ndarray) -> Series:
        """Some rows, numbered through all series, as a short series of their own, numbered anew."""
        places = list(self.places(rows))
        parts = [self._read(k, at, at + 1) for k, at in places]
        joined = {name: np.concatenate([part[name] for part in parts])[None] for name in ROWS}
        one = jax.tree.map(lambda a: a[0], self._series(joined, np.zeros(1), np.array([places[0][0]])))
        return dataclasses.replace(one, length=len(places) - 1, ends=None)

    def places(self, rows: np.ndarray) -> Iterator[tuple[int, int]]:
        """The series and the row in it of rows that are numbered through all series."""
        which = np.searchsorted(self._first, rows, side="right") - 1
        return ((int(k), int(row - self._first[k])) for k, row in zip(which, rows, strict=True))

    def beginning(self, rows: int) -> Series:
        """Rows of the longest series: those from its first observation on, or all, where it is in memory."""
        longest = self.members[int(np.argmax(self.lengths))]
        return longest.beginning(rows) if isinstance(longest, LongSeries) else longest

    def _read(self, which: int, start: int, stop: int) -> dict[str, np.ndarray]:
        """The arrays of one series for rows `start, ..., stop - 1`, its last row repeated where it has fewer."""
        member, kept, last = self.members[which], self._arrays[which], self.lengths[which] + 1
        end = min(stop, last)
        if isinstance(member, LongSeries):
            found = member.arrays(start, end)
        else:
            found = {name: kept[name][start:end] for name in ROWS}
        short = ((0, stop - end), (0, 0))
        return found if stop == end else {name: np.pad(array, short, mode="edge") for name, array in found.items()}

    def _series(self, rows: dict[str, np.ndarray], first: np.ndarray, which: np.ndarray) -> Series:
        """Stacked rows, whose first ones have these numbers in the series `which`, as a `Series`."""
        one = self.members[0]
        shared = one.typical_gap, one.centre, one.scale, *_of_inputs(one)
        gap, centre, scale, input_centre, input_scale = (
            jnp.asarray(np.broadcast_to(np.asarray(a, np.float32), (len(first), *np.shape(a)))) for a in shared
        )
        values, observed, inputs = (part[which] for part in self._starts)
        return Series(
            **{name: jnp.asarray(array) for name, array in rows.items()},
            centre=centre,
            scale=scale,
            input_centre=input_centre,
            input_scale=input_scale,
            first=jnp.asarray(first, jnp.int32),
            start=(jnp.asarray(values, jnp.float32), jnp.asarray(observed, bool), jnp.asarray(inputs, jnp.float32)),
            typical_gap=gap,
            complete=self.complete,
            partial=self.partial,
            length=self.length,
            ends=jnp.asarray(np.array(self.lengths)[which], jnp.int32),
        )


def windows_over(series: Series | LongSeries | ManySeries, width: int) -> Windows:
    """The windows of a series, or of several."""
    if isinstance(series, ManySeries):
        return Windows(sum(series.lengths), width, series.lengths)
    return Windows(series.length, width)


def same_data(one: Series | LongSeries | ManySeries, other: Series | LongSeries | ManySeries) -> bool:
    """Whether two hold the same observations and inputs, wherever they are; of two on disk their checksums say it."""
    if one.lengths != other.lengths or (one.columns, one.input_columns) != (other.columns, other.input_columns):
        return False
    if isinstance(one, ManySeries) and isinstance(other, ManySeries):
        return all(map(same_data, one.members, other.members))
    if isinstance(one, ManySeries) or isinstance(other, ManySeries):
        return False
    if isinstance(one, LongSeries) and isinstance(other, LongSeries):
        return one.statistics.sha256 == other.statistics.sha256
    pieces = [(start, min(start + PASS, one.length + 1)) for start in range(0, one.length + 1, PASS)]
    pairs = (zip(_observed(one, *piece), _observed(other, *piece), strict=True) for piece in pieces)
    return all(np.array_equal(*pair, equal_nan=True) for piece in pairs for pair in piece)


def _observed(one: Series | LongSeries, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations and inputs of rows `start, ..., stop - 1` in single precision, NaN where nothing was observed."""
    if isinstance(one, LongSeries):
        y, inputs = one.source.read(start, stop)
        return y.astype(np.float32), inputs.astype(np.float32)
    rows = slice(start, stop)
    return np.where(np.asarray(one.observed[rows]), np.asarray(one.values[rows]), np.nan), np.asarray(one.inputs[rows])


def _alike(members: Sequence[Series | LongSeries]) -> tuple[Series | LongSeries, ...]:
    """The series with means, scales and typical gaps of all of them together."""
    rows = np.array([one.length + 1 for one in members], float)
    seen = np.stack([_seen(one) for one in members])
    centres, scales = (np.stack([np.asarray(getattr(one, name), float) for one in members]) for name in ("centre", "scale"))
    centre, scale = _pooled(seen, centres, scales, np.stack([_ends(one) for one in members]))
    centres, scales = (np.stack([np.asarray(_of_inputs(one)[k], float) for one in members]) for k in (0, 1))
    every = np.broadcast_to(rows[:, None], centres.shape)
    input_centre, input_scale = _pooled(every, centres, scales, np.stack([_input_ends(one) for one in members]))
    gap = rows.sum() / (rows / np.array([float(one.typical_gap) for one in members])).sum()
    return tuple(_with(one, centre, scale, input_centre, input_scale, gap) for one in members)


def _pooled(count: np.ndarray, mean: np.ndarray, sd: np.ndarray, between: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of several samples together, by column; 1 in place of that of a constant column.

    The values lie between these, shape (samples, 2, columns), which says of which the standard deviation of 1 is none.
    """
    low, high = between[:, 0], between[:, 1]
    total = np.maximum(count.sum(axis=0), 1)
    centre = (count * mean).sum(axis=0) / total
    variance = (count * (np.where(low < high, sd, 0.0) ** 2 + (mean - centre[None]) ** 2)).sum(axis=0) / total
    return centre, deviation(variance, low.min(axis=0), high.max(axis=0))


def _with(one: Any, centre: Any, scale: Any, input_centre: Any, input_scale: Any, gap: float) -> Series | LongSeries:
    """A series with these means, scales and typical gap in place of its own."""
    if isinstance(one, LongSeries):
        parts = {"centre": centre, "scale": scale, "input_centre": input_centre, "input_scale": input_scale}
        changed = LongSeries(one.source, dataclasses.replace(one.statistics, **parts))
        changed.typical_gap = np.float32(gap)
        return changed
    parts = {"centre": centre, "scale": scale, "input_centre": input_centre, "input_scale": input_scale, "typical_gap": gap}
    return dataclasses.replace(one, **{name: jnp.asarray(part, jnp.float32) for name, part in parts.items()})


def _in_memory(one: Series | LongSeries) -> dict[str, np.ndarray]:
    return {} if isinstance(one, LongSeries) else {name: np.asarray(getattr(one, name)) for name in ROWS}


def _of_inputs(one: Series | LongSeries) -> tuple[Any, Any]:
    """Mean and scale of the inputs."""
    known = one.statistics if isinstance(one, LongSeries) else one
    return known.input_centre, known.input_scale


def _seen(one: Series | LongSeries) -> np.ndarray:
    """Real entries by column."""
    return one.statistics.seen if isinstance(one, LongSeries) else np.asarray(one.observed).sum(axis=0)


def _always_seen(one: Series | LongSeries) -> np.ndarray:
    """Which columns are observed on every row."""
    return np.array(one.always_seen if isinstance(one, LongSeries) else np.asarray(one.observed).all(axis=0))


def _extremes(one: Series | LongSeries) -> np.ndarray:
    """Rows of the smallest and the largest entry of each column, shape (2, columns)."""
    if isinstance(one, LongSeries):
        return one.extremes
    values, observed = np.asarray(one.values), np.asarray(one.observed)
    return np.stack([np.where(observed, values, np.inf).argmin(axis=0), np.where(observed, values, -np.inf).argmax(axis=0)])


def _ends(one: Series | LongSeries) -> np.ndarray:
    """The smallest and the largest real entry of each column, shape (2, columns); ∞ and −∞ where there is none."""
    if not isinstance(one, LongSeries):
        return ends(np.asarray(one.values), np.asarray(one.observed))
    found = [[one.source.read(int(row), int(row) + 1)[0][0, k] for k, row in enumerate(rows)] for rows in one.extremes]
    return np.where(one.statistics.seen > 0, np.array(found), [[np.inf], [-np.inf]])


def _input_ends(one: Series | LongSeries) -> np.ndarray:
    """The same of the inputs."""
    if isinstance(one, LongSeries):
        return one.statistics.input_ends
    return ends(np.asarray(one.inputs), np.ones(one.inputs.shape, bool))
