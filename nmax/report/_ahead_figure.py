"""The figure of forecasts one observation ahead, and what was then observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from nmax.checks import Residuals
from nmax.report._draw import Frame, area, dots, figure, gutter_of, line, panel
from nmax.report._html import Markup, tag
from nmax.report._numbers import count, plural
from nmax.report._path_panels import row_scale
from nmax.report._scale import limits
from nmax.report._times import TimeAxis

SHOWN = 400  # rows at the most
NARROW = 0.12  # share of the range: intervals narrower than that are shown without what was forecast


class Ahead(NamedTuple):
    """Forecasts and observations of some rows of a column.

    Attributes:
        low: 5 % points.
        middle: medians.
        high: 95 % points.
        seen: what was observed.
        outside: whether that lies outside the interval.
        centred: whether the medians have been taken off all of them.
    """

    low: Float[np.ndarray, " time"]
    middle: Float[np.ndarray, " time"]
    high: Float[np.ndarray, " time"]
    seen: Float[np.ndarray, " time"]
    outside: np.ndarray
    centred: bool


def ahead_figure(
    found: Residuals, y: np.ndarray, names: Sequence[str], shown: Sequence[int], times: TimeAxis
) -> Markup | None:
    """The last rows that were forecast, column by column; `y` are the observations of all that were."""
    if found.forecast is None or not len(found.index):
        return None
    last = found.index[-SHOWN:]
    last = last[len(last) - _run_length(last) :]
    at = np.searchsorted(found.index, last)
    columns = {k: _ahead(found.forecast[at, :, k], y[at, k], found.pit[at, k]) for k in shown}
    scales = {k: limits(one.low, one.high, one.seen) for k, one in columns.items()}
    gutter = gutter_of(*(scale.ticks(4) for scale in scales.values()))
    panels = []
    for k, one in columns.items():
        frame = Frame(row_scale(int(last[0]), len(last)), scales[k])
        said = f"{plural(int(one.outside.sum()), 'observation')} of {count(int(np.isfinite(one.seen).sum()))} outside"
        panels.append(
            panel(
                frame,
                _shapes(frame, last, one),
                label=f"Observations of {names[k]} and 90 % intervals of forecasts one observation ahead: {said}.",
                x_ticks=times.ticks(frame.x.low, frame.x.high),
                y_ticks=frame.y.ticks(4),
                x_title=times.title if k == shown[-1] else "",
                title=f"{names[k]} minus its median forecast" if one.centred else names[k],
                aside=tag("span", said, class_="panel-aside"),
                height=140,
                gutter=gutter,
            )
        )
    caption = (
        f"One observation ahead, the last {plural(len(last), 'row')} that were forecast: 90 % intervals and medians, what "
        "was then observed, and highlighted what lies outside, as one in ten should."
    )
    return figure("figure-ahead", caption, *panels)


def _ahead(forecast: np.ndarray, seen: np.ndarray, pit: np.ndarray) -> Ahead:
    """Medians are taken off where the intervals would be too narrow to be seen."""
    low, middle, high = forecast.T
    outside = np.abs(pit - 0.5) > 0.45
    both = np.concatenate([seen[np.isfinite(seen)], middle[np.isfinite(middle)]])
    width = (high - low)[np.isfinite(high - low)]
    centred = bool(len(both) and len(width) and np.median(width) < NARROW * np.ptp(both))
    if centred:
        low, middle, high, seen = (part - middle for part in (low, middle, high, seen))
    return Ahead(low, middle, high, seen, outside, centred)


def _shapes(frame: Frame, rows: np.ndarray, one: Ahead) -> list[Markup]:
    held = np.isfinite(one.seen) & ~one.outside
    return [
        area(frame, rows, one.low, one.high, "band"),
        line(frame, rows, one.middle, "thin"),
        dots(frame, rows[held], one.seen[held], "seen usual"),
        dots(frame, rows[one.outside], one.seen[one.outside], "seen outside"),
    ]


def _run_length(index: np.ndarray) -> int:
    """Rows at the end that follow each other."""
    breaks = np.flatnonzero(np.diff(index) != 1)
    return len(index) - (int(breaks[-1]) + 1 if len(breaks) else 0)
