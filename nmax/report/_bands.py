"""Bands of the path, and of what it makes the model expect to observe, along the whole series and on stretches of it."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from nmax.report._bins import Bins, finite
from nmax.report._expected import Expectation
from nmax.report._subject import Subject, stacked

DRAWS = 39  # at a time: the 5 %, 50 % and 95 % points of so many are draws themselves
TIMES = 5  # as many, so that one compiled program serves all
LONG = 20_000  # rows beyond which bands of the whole series rest on the first of them only
VERY_LONG = 2_000_000  # rows beyond which they are drawn on stretches spread over it only
CHUNK = 8_192  # rows in memory at a time
PIECE, PIECES = 512, 1_000  # rows of such a stretch, and how many there are
LEVELS = (0.05, 0.5, 0.95)
VALUES = 600_000  # numbers that the page may hold of the whole series
PART = 10  # of the page's keys, the first of as many as there are batches


@dataclasses.dataclass(frozen=True)
class Track:
    """One line of the figure of the path: a state component or a column, its bands, and what was observed of it.

    Attributes:
        name: of the component or the column.
        state: the component, if it is one.
        column: the column that shows it, or that it is.
        exact: whether the column shows the component without error.
        track: number of its bands; None where it has none.
    """

    name: str
    state: int | None
    column: int | None
    exact: bool
    track: int | None


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Bands and observations of rows `start, ...` in bins of `width` rows.

    Attributes:
        start: first row.
        rows: how many.
        width: rows of a bin.
        band: smallest lower and largest upper limit of the 90 % bands within each bin.
        middle: smallest and largest median.
        observed: smallest and largest observation.
        draws: behind the bands.
        pieces: rows of the stretches on which the bands were drawn, where that was not everywhere.
    """

    start: int
    rows: int
    width: int
    band: Bins
    middle: Bins
    observed: Bins
    draws: int
    pieces: int | None = None


class Painter:
    """Draws the bands of a posterior, stretch by stretch.

    Attributes:
        tracks: what there is to draw.
    """

    def __init__(self, subject: Subject):
        self.subject = subject
        model, table = subject.model, subject.table
        probe = self._probe()
        self._expectation = Expectation(model, len(table.columns), probe)
        self.tracks = _tracks(model.state_names, table.columns, model.exactly_observed, self._expectation, probe)
        self._expects = any(track.state is None and track.track is not None for track in self.tracks)
        self._thetas: dict[int, dict] = {}  # by the part of the page's keys

    @property
    def size(self) -> int:
        """Numbers of bands a row."""
        return self.subject.model.state_size + (len(self._expectation.columns) if self._expects else 0)

    def stretch(self, start: int, stop: int) -> Stretch:
        """Every row of a stretch, by many draws."""
        return self._filled(start, stop - start, 1, TIMES, [(start, stop)])

    def whole(self) -> Stretch:
        """The whole series, in as many bins as the page may hold."""
        rows, columns = self.subject.rows, len(self.subject.table.columns)
        width = 1 if rows * (3 * self.size + columns) <= VALUES else -(-rows * (5 * self.size + 2 * columns) // VALUES)
        batches = TIMES if rows <= LONG else 1
        if rows <= VERY_LONG:
            return self._filled(0, rows, width, batches, [(0, rows)])
        firsts = np.unique(np.linspace(0, (rows - PIECE) // PIECE, PIECES).astype(np.int64)) * PIECE
        parts = [(int(first), int(first) + PIECE) for first in firsts]
        return dataclasses.replace(self._filled(0, rows, width, batches, parts), pieces=PIECE)

    def _filled(self, start: int, rows: int, width: int, batches: int, parts: list[tuple[int, int]]) -> Stretch:
        band, middle = Bins(rows, width, self.size), Bins(rows, width, self.size)
        for first, last in parts:
            for low in range(first, last, CHUNK):
                lower, median, upper = points(self._drawn(batches, low, min(low + CHUNK, last)))
                band.add(low - start, lower, upper)
                middle.add(low - start, median, median)
        observed = Bins(rows, width, len(self.subject.table.columns))
        for low in range(start, start + rows, CHUNK):
            y = finite(self.subject.y(low, min(low + CHUNK, start + rows)))
            observed.add(low - start, y, y)
        return Stretch(start, rows, width, band, middle, observed, DRAWS * batches)

    def _drawn(self, batches: int, start: int, stop: int) -> Float[np.ndarray, "draw time track"]:
        """Draws of the states, and of what they make the model expect."""
        parts = []
        for part in range(PART, PART + batches):
            x = self.subject.path(DRAWS, start, stop, part)
            if self._expects:
                if part not in self._thetas:
                    self._thetas[part] = stacked(self.subject.theta(DRAWS, part))
                x = np.concatenate([x, self._expectation(x, self._thetas[part], self.subject.inputs(start, stop))], axis=2)
            parts.append(x)
        return np.concatenate(parts)

    def _probe(self):
        """Draws of θ, states at rows in the middle of the series, and inputs there."""
        subject = self.subject
        theta = stacked(subject.theta(DRAWS, PART))
        start = max((subject.rows - DRAWS) // 2, 0)
        stop = min(start + DRAWS, subject.rows)
        x = subject.path(DRAWS, start, stop, PART)
        at = np.arange(DRAWS) % (stop - start)
        return theta, jnp.asarray(x[np.arange(DRAWS), at]), jnp.asarray(subject.inputs(start, stop)[at])


def points(draws: Float[np.ndarray, "draw time track"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 5 %, 50 % and 95 % points. Of n draws, the k-th smallest is the k / (n + 1) point: no draw to come is below it
    with a greater probability.
    """  # noqa: D205
    ranks = [round((len(draws) + 1) * level) - 1 for level in LEVELS]
    ordered = np.partition(draws, ranks, axis=0)[ranks]
    whole = np.isfinite(draws).all(axis=0, keepdims=True)
    low, middle, high = np.where(whole, ordered, np.nan)
    return low, middle, high


def _tracks(names, columns, exactly_observed, expectation: Expectation, probe) -> tuple[Track, ...]:
    """A line for each state, with the column that shows it; then one for each column that shows none."""
    shown = {component: column for column, component in expectation.shown(probe).items()} | dict(exactly_observed)
    tracks = [
        Track(name, k, shown.get(k), exact=k in exactly_observed, track=k) for k, name in enumerate(names)
    ]  # exactly observed where it was observed: where it was not, it is drawn
    for k, name in enumerate(columns):
        if k not in shown.values():
            place = expectation.columns.index(k) if k in expectation.columns else None
            tracks.append(Track(name, None, k, exact=False, track=None if place is None else len(names) + place))
    return tuple(tracks)
