"""`LongSeries`: a series on disk, of which only stretches are ever in memory."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nmax.data._series import Series, check_size, check_spread, deviation, ends, make_series
from nmax.data._source import Source
from nmax.data._windows import check_countable

PASS = 262_144  # rows read at a time in the pass over the whole series
ALIGNED = 1_024  # gaps are bridged within stretches of so many rows, so that a row looks the same from everywhere


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What one pass over a series finds out.

    Attributes:
        rows: T + 1.
        centre: mean of each column over its real entries.
        scale: standard deviation of each column, 1 for a constant one.
        input_centre: mean of each input.
        input_scale: standard deviation of each input, 1 for a constant one.
        input_ends: the smallest and the largest entry of each input.
        seen: real entries by column.
        seen_rows: rows with a real entry.
        partial: whether some row misses some of its columns but not all.
        extremes: rows of the smallest and largest entry of each column.
        first_seen: for each stretch of `ALIGNED` rows and column, the first real entry in or after it; `rows` if none.
        sha256: of the observations and the inputs, in single precision.
    """

    rows: int
    centre: np.ndarray
    scale: np.ndarray
    input_centre: np.ndarray
    input_scale: np.ndarray
    input_ends: np.ndarray
    seen: np.ndarray
    seen_rows: int
    partial: bool
    extremes: np.ndarray
    first_seen: np.ndarray
    sha256: str


def statistics_of(source: Source, told: Callable[[int, int], object] = lambda done, rows: None) -> Statistics:
    """One pass over a series; infinite values and missing inputs are refused, with the row.

    Args:
        source: the series.
        told: called with the rows done and the rows in all.
    """
    rows, columns, width = source.rows, len(source.columns), len(source.input_columns)
    if rows < 2:
        raise ValueError(f"`y` must have at least two rows, y_0 and y_1; {source.place} has {rows}.")
    check_countable(rows)  # before a pass of hours
    count, total, square = np.zeros(columns), np.zeros(columns), np.zeros(columns)
    sums, input_ends = np.zeros((2, width)), np.stack([np.full(width, np.inf), np.full(width, -np.inf)])
    low, high, extremes = np.full(columns, np.inf), np.full(columns, -np.inf), np.zeros((2, columns), np.int64)
    shift: Any = None
    seen_rows, partial, firsts, digest = 0, False, [], hashlib.sha256()
    for start in range(0, rows, PASS):
        stop = min(start + PASS, rows)
        y, inputs = source.read(start, stop)
        _check_finite(source, y, inputs, start)
        observed = ~np.isnan(y)
        if shift is None:  # sums about a value near the mean lose no digits
            shift = np.where(observed, y, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
            input_shift = inputs.mean(axis=0) if width else np.zeros(0)
        away = np.where(observed, y - shift, 0.0)
        count, total, square = count + observed.sum(axis=0), total + away.sum(axis=0), square + (away**2).sum(axis=0)
        sums += np.stack([(inputs - input_shift).sum(axis=0), ((inputs - input_shift) ** 2).sum(axis=0)])
        least, most = ends(inputs, np.ones(inputs.shape, bool))
        input_ends = np.stack([np.minimum(input_ends[0], least), np.maximum(input_ends[1], most)])
        some, all_of = observed.any(axis=1), observed.all(axis=1)
        seen_rows, partial = seen_rows + int(some.sum()), partial or bool((some & ~all_of).any())
        for k, (least, most) in enumerate(((np.where(observed, y, np.inf), low), (np.where(observed, -y, np.inf), -high))):
            best = least.argmin(axis=0)
            better = least[best, np.arange(columns)] < most
            extremes[k] = np.where(better, start + best, extremes[k])
        low = np.minimum(low, np.where(observed, y, np.inf).min(axis=0))
        high = np.maximum(high, np.where(observed, y, -np.inf).max(axis=0))
        firsts.append(_first_seen(observed, start))
        digest.update(y.astype(np.float32).tobytes())
        digest.update(inputs.astype(np.float32).tobytes())
        told(stop, rows)
    if not count.any():
        raise ValueError(f"`y` must hold at least one observation; {source.place} holds only NaN.")
    first = np.concatenate(firsts)
    first = np.minimum.accumulate(np.where(first < 0, rows, first)[::-1])[::-1]
    centre, scale = _moments(shift, np.maximum(count, 1), total, square, low, high)
    input_centre, input_scale = _moments(input_shift, np.full(width, rows), *sums, *input_ends)
    check_spread("y", scale, f" in {source.place}")
    check_spread("inputs", input_scale, f" in {source.place}")
    facts = count.astype(np.int64), seen_rows, partial, extremes, first, digest.hexdigest()
    return Statistics(rows, centre, scale, input_centre, input_scale, input_ends, *facts)


class LongSeries:
    """A series on disk with the statistics of a pass over it; rows are read when they are needed.

    It has what a `Series` says of itself, but for the arrays, which `view`, `views` and `sampled` read from the disk.
    """

    def __init__(self, source: Source, statistics: Statistics):
        check_countable(statistics.rows)
        self.source, self.statistics = source, statistics
        self.length, self.columns = statistics.rows - 1, len(source.columns)
        self.rows, self.lengths, self.extremes = statistics.rows, (self.length,), statistics.extremes
        self.complete = bool((statistics.seen == statistics.rows).all())
        self.partial = statistics.partial
        self.always_seen = tuple(bool(n == statistics.rows) for n in statistics.seen)
        self.typical_gap = np.float32(statistics.rows / max(statistics.seen_rows, 1))
        self.centre, self.scale = statistics.centre.astype(np.float32), statistics.scale.astype(np.float32)
        self.input_columns = len(source.input_columns)
        row = self.arrays(0, 1)
        self.start = row["values"][0], row["observed"][0], row["inputs"][0]

    @property
    def has_inputs(self) -> bool:
        """Whether the model's functions take a third argument."""
        return self.input_columns > 0

    def view(self, start: int, rows: int) -> Series:
        """The stretch of `rows` rows from `start` on, moved so that it lies within the series."""
        return jax.tree.map(lambda a: a[0], self.views([start], rows))

    def views(self, starts: Sequence[int] | np.ndarray, rows: int) -> Series:
        """Several stretches, stacked along a leading axis."""
        first = np.clip(np.asarray(starts, np.int64), 0, max(self.length + 1 - rows, 0))
        parts = [self.arrays(int(at), min(int(at) + rows, self.length + 1)) for at in first]
        return self._series({name: np.stack([part[name] for part in parts]) for name in parts[0]}, first)

    def sampled(self, rows: np.ndarray) -> Series:
        """Some rows as a short series of their own, numbered anew."""
        parts = [self.arrays(int(row), int(row) + 1) for row in rows]
        joined = self._series({name: np.concatenate([part[name] for part in parts])[None] for name in parts[0]}, np.zeros(1))
        return dataclasses.replace(jax.tree.map(lambda a: a[0], joined), length=len(rows) - 1)

    def beginning(self, rows: int) -> Series:
        """So many rows from the first observation on as a short series of their own."""
        first = int(min(self.statistics.first_seen[0].min(), self.length - 1))
        y, inputs = self.source.read(first, min(first + rows, self.length + 1))
        return make_series(y, inputs if self.has_inputs else None)

    def _series(self, rows: dict[str, np.ndarray], first: np.ndarray) -> Series:
        """Stacked rows, whose first ones have these numbers, as a `Series`."""
        s = self.statistics

        def stacked(array):
            return jnp.asarray(np.broadcast_to(np.asarray(array, np.float32), (len(first), *np.shape(array))))

        values, observed, inputs = self.start
        start = stacked(values), jnp.asarray(np.broadcast_to(observed, (len(first), *observed.shape))), stacked(inputs)
        return Series(
            **{name: jnp.asarray(array) for name, array in rows.items()},
            centre=stacked(self.centre),
            scale=stacked(self.scale),
            input_centre=stacked(s.input_centre),
            input_scale=stacked(s.input_scale),
            first=jnp.asarray(first, jnp.int32),
            start=start,
            typical_gap=stacked(self.typical_gap),
            complete=self.complete,
            partial=self.partial,
            length=self.length,
        )

    def arrays(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The arrays of a `Series` for rows `start, ..., stop - 1`."""
        if self.complete:
            y, inputs = self.source.read(start, stop)
            number = np.broadcast_to(np.arange(start, stop, dtype=np.int32)[:, None], y.shape)
            values = y.astype(np.float32)
            return _named(values, np.ones(y.shape, bool), number, values, inputs)
        low, high = start // ALIGNED * ALIGNED, min(-(-stop // ALIGNED) * ALIGNED, self.length + 1)
        y, inputs = self.source.read(low, high)
        filled = [
            _filled(y[k : k + ALIGNED], low + k, self.statistics.first_seen[(low + k) // ALIGNED + 1 :][:1], self.length + 1)
            for k in range(0, high - low, ALIGNED)
        ]
        values, following, next_value = (np.concatenate(part) for part in zip(*filled, strict=True))
        cut = slice(start - low, stop - low)
        beyond = np.isnan(next_value) & (following <= self.length)  # the next entry lies in another stretch
        beyond[: cut.start], beyond[cut.stop :] = False, False
        for at in np.unique(following[beyond]):  # a gap of many rows has one end
            rows, columns = np.nonzero(beyond & (following == at))
            next_value[rows, columns] = self.source.read(int(at), int(at) + 1)[0][0, columns]
        next_value = np.where(np.isnan(next_value), values, next_value)
        return _named(values[cut], ~np.isnan(y[cut]), following[cut], next_value[cut], inputs[cut])


def _named(values, observed, following, next_value, inputs) -> dict[str, np.ndarray]:
    return {
        "values": np.asarray(values, np.float32),
        "observed": observed,
        "next_observed": np.asarray(following, np.int32),
        "next_value": np.asarray(next_value, np.float32),
        "inputs": inputs.astype(np.float32),
    }


def _filled(y: np.ndarray, start: int, later: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values with gaps bridged within a stretch, the next real entry's row, and its value if it lies in the stretch."""
    observed = ~np.isnan(y)
    after = np.full((1, y.shape[1]), rows) if not len(later) else later
    number = np.arange(start, start + len(y))[:, None]
    following = np.minimum.accumulate(np.concatenate([np.where(observed, number, rows), after])[::-1])[::-1][:-1]
    values, places = np.empty_like(y), np.arange(len(y))
    for k in range(y.shape[1]):
        known = np.flatnonzero(observed[:, k])
        values[:, k] = np.interp(places, known, y[known, k]) if len(known) else 0.5
    inside = following < start + len(y)
    at = np.where(inside, following - start, 0)
    return values, following, np.where(inside, np.take_along_axis(y, at, axis=0), np.nan)


def _first_seen(observed: np.ndarray, start: int) -> np.ndarray:
    """The first real entry of each stretch by column; -1 where there is none."""
    out = []
    for k in range(0, len(observed), ALIGNED):
        part = observed[k : k + ALIGNED]
        out.append(np.where(part.any(axis=0), start + k + part.argmax(axis=0), -1))
    return np.stack(out)


def _moments(shift, count, total, square, low, high) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation from sums about a shift; 1 in place of that of a constant column."""
    mean = total / count
    variance = np.maximum(square / count - mean**2, 0.0)
    return shift + mean, deviation(variance, low, high)


def _check_finite(source: Source, y: np.ndarray, inputs: np.ndarray, start: int) -> None:
    if np.isinf(y).any():
        row = start + int(np.isinf(y).any(axis=1).argmax())
        raise ValueError(f"`y` must be finite, or NaN where nothing was observed; {source.place} is infinite at row {row}.")
    if not np.isfinite(inputs).all():
        row = start + int((~np.isfinite(inputs)).any(axis=1).argmax())
        raise ValueError(f"`inputs` must be finite at every step; those of {source.place} are not at row {row}.")
    where = f" in {source.place}, in or after row {start}"
    check_size("y", y, where)
    check_size("inputs", inputs, where)
