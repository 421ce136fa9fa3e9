"""The section on what is to come: fans of the observations and the states beyond the end of the series."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from nmax.report._bands import Painter
from nmax.report._draw import Frame, Note, area, dots, figure, gutter_of, line, panel, upright
from nmax.report._html import Markup, bullets, joined, paragraphs, sentence, table, tag
from nmax.report._numbers import count, decimals_of, fixed, number, plural
from nmax.report._scale import Scale, limits
from nmax.report._section import Section
from nmax.report._times import TimeAxis, time_axis

PAST = 60  # rows of the past at the least, and
SHARE = 2.0  # times as many as there are steps ahead
MOST_PANELS = 12
ROWS = 8
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


class Fan(NamedTuple):
    """A column or a state beyond the end: 5, 25, 50, 75 and 95 % points, and what was before, observed or in bands."""

    name: str
    points: Float[np.ndarray, "level step"]
    seen: Float[np.ndarray, " time"] | None
    band: Float[np.ndarray, "3 time"] | None

    @property
    def scale(self) -> Scale:
        """Limits that hold all of it."""
        return limits(self.points, [] if self.seen is None else self.seen, [] if self.band is None else self.band)


def forecast_section(painter: Painter, forecast: Any) -> Section:
    """What the model expects to come."""
    subject = painter.subject
    y, x = np.asarray(forecast.y, np.float64), np.asarray(forecast.x, np.float64)
    draws, steps, _ = y.shape
    times, rows = time_axis(subject.table, forecast.times), subject.rows
    past = min(rows, max(PAST, int(SHARE * steps)))
    start = rows - past
    seen = subject.y(start, rows)
    fans = [Fan(name, quantiles(y[:, :, k]), seen[:, k], None) for k, name in enumerate(forecast.columns)]
    bands, exact = _past_bands(painter, start), subject.model.exactly_observed
    states = [(k, name) for k, name in enumerate(forecast.state_names) if k not in exact]  # those are columns already
    fans += [Fan(name, quantiles(x[:, :, k]), None, bands[:, :, k]) for k, name in states]
    shown = fans[:MOST_PANELS]
    gutter = gutter_of(*(fan.scale.ticks(4) for fan in shown))
    panels = [_panel(fan, start, rows, times, gutter, last=fan is shown[-1]) for fan in shown]
    first, last = times.said(rows), times.said(rows - 1 + steps)
    said = f"{plural(steps, 'step')} ahead, from {first} to {last}, by {plural(draws, 'draw')}."
    caption = (
        "What was observed, and for the states their 90 % bands; then fans of the forecasts: the inner band holds half of "
        "the draws, the outer one nine in ten, with the median as a line. Forecasts know the uncertainty of the parameters "
        "and of where the path stands."
    )
    if len(fans) > MOST_PANELS:
        caption += f" The first {MOST_PANELS} of {count(len(fans))}."
    notes = [sentence(str(note)) for note in getattr(forecast, "notes", ())]
    body = joined(
        paragraphs(said, class_="lead"),
        figure("figure-forecast", caption, *panels),
        *(_table(name, y[:, :, k], times, rows) for k, name in enumerate(forecast.columns[:4])),
        bullets(notes),
    )
    return Section("forecast", "What is to come", body)


def quantiles(draws: Float[np.ndarray, "draw step"]) -> Float[np.ndarray, "level step"]:
    """5, 25, 50, 75 and 95 % points of the draws that are finite; NaN where none are."""
    out = np.full((len(LEVELS), draws.shape[1]), np.nan)
    for step in range(draws.shape[1]):
        fine = draws[np.isfinite(draws[:, step]), step]
        if len(fine):
            out[:, step] = np.quantile(fine, LEVELS)
    return out


def _past_bands(painter: Painter, start: int) -> Float[np.ndarray, "3 time state"]:
    band = painter.stretch(start, painter.subject.rows)
    states = painter.subject.model.state_size
    return np.stack([band.band.low[:, :states], band.middle.low[:, :states], band.band.high[:, :states]])


def _panel(fan: Fan, start: int, rows: int, times: TimeAxis, gutter: int, *, last: bool) -> Markup:
    points, steps = fan.points, fan.points.shape[1]
    ahead, past = np.arange(rows, rows + steps), np.arange(start, rows)
    frame = Frame(Scale(start - 0.5, rows + steps - 0.5), fan.scale)
    shapes = [upright(frame, [rows - 0.5], "limit")]
    if fan.band is not None:
        shapes += [area(frame, past, fan.band[0], fan.band[2], "band"), line(frame, past, fan.band[1], "thin")]
    shapes += [
        area(frame, ahead, points[0], points[4], "fan outer"),
        area(frame, ahead, points[1], points[3], "fan inner"),
        line(frame, ahead, points[2], "fan-middle"),
    ]
    if fan.seen is not None:
        shapes.append(dots(frame, past, fan.seen, "seen usual"))
    low, middle, high = (number(float(points[k, -1])) for k in (0, 2, 4))
    at_end = f"{middle} ({low} to {high}) in the end"
    return panel(
        frame,
        shapes,
        label=f"Forecast of {fan.name}: median and 90 % interval {at_end}.",
        x_ticks=times.ticks(frame.x.low, frame.x.high),
        y_ticks=frame.y.ticks(4),
        x_title=times.title if last else "",
        title=joined(fan.name, tag("span", " state", class_="kind") if fan.seen is None else None),
        aside=tag("span", at_end, class_="panel-aside"),
        notes=[Note(rows - 0.5, frame.y.high, "forecast", "under")],
        height=150,
        gutter=gutter,
    )


def _table(name: str, draws: np.ndarray, times: TimeAxis, rows: int) -> Markup:
    steps = draws.shape[1]
    chosen = sorted({round(k) - 1 for k in np.geomspace(1, steps, min(ROWS, steps))})
    points, body = quantiles(draws), []
    for step in chosen:
        fine = draws[np.isfinite(draws[:, step]), step]
        sd = float(fine.std(ddof=1)) if len(fine) > 1 else np.nan
        decimals = decimals_of(sd)
        values = [float(fine.mean()) if len(fine) else np.nan, sd, points[0, step], points[2, step], points[4, step]]
        said = [number(v, 4) if decimals is None else fixed(v, decimals) for v in values]
        body.append([times.said(rows + step), *said])
    return table(f"Forecast of {name}.", ["When", "Mean", "sd", "5 %", "50 %", "95 %"], body)
