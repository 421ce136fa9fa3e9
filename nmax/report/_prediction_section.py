"""The section on predictions: observations against forecasts made one observation ahead, and what is left over."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import bdtr

from nmax.checks import Residuals
from nmax.report._ahead_figure import ahead_figure
from nmax.report._draw import Frame, across, area, bars, boxes, dots, figure, line, multiples, panel
from nmax.report._html import Markup, joined, paragraphs, table, tag
from nmax.report._numbers import count, fixed, listed, number, percent, plural, small_percent
from nmax.report._scale import Scale, Tick, limits
from nmax.report._section import Section
from nmax.report._subject import Subject

MOST_COLUMNS = 8
FEWEST = 20  # forecasts below which nothing is tested
LAGS = 20
RATE = 0.05  # with which some bar leaves the band though the model is right
SCATTER = 600
COVERAGE = (0.5, 0.8, 0.9, 0.95, 0.99)


def prediction_section(subject: Subject) -> Section:
    """Does the model predict the data?"""
    found = subject.residuals()
    names = subject.table.columns
    shown = range(min(len(names), MOST_COLUMNS))
    tested = [k for k in shown if np.isfinite(found.pit[:, k]).sum() >= FEWEST]
    few = [names[k] for k in shown if k not in tested]
    y = subject.y_at(found.index)
    body = joined(
        paragraphs(_lead(found, tested, names), class_="lead"),
        paragraphs(_how(subject, found)),
        paragraphs(f"{listed(few)}: fewer than {FEWEST} forecasts, too few to test." if few else None),
        ahead_figure(found, y, names, shown, subject.times),
        _coverage(found, tested, names) if tested else None,
        *(_checks(found, y, names, k) for k in tested),
        paragraphs(f"The first {MOST_COLUMNS} of {count(len(names))} columns." if len(names) > MOST_COLUMNS else None),
    )
    return Section("predictions", "Observed against predicted", body)


def _lead(found: Residuals, tested: Sequence[int], names: Sequence[str]) -> str:
    if not tested:
        return "There are too few observations to test the model by its forecasts."
    inside = {k: _inside(found.pit[:, k], 0.9) for k in tested}
    if len(tested) == 1:
        (k,) = tested
        share = small_percent(inside[k])
        return f"Of forecasts one observation ahead, {share} of the 90 % intervals hold what was then observed."
    said = listed([f"{names[k]} {small_percent(inside[k])}" for k in tested])
    return f"Of forecasts one observation ahead, so many of the 90 % intervals hold what was then observed: {said}."


def _how(subject: Subject, found: Residuals) -> str:
    centre = "the centre of q(θ)" if subject.fit is not None else "the centre of the guide that the chains ran in"
    share = len(found.index) / max(subject.rows - 1, 1)
    part = f" They were made on stretches spread over the series, {small_percent(share)} of its rows."
    return (
        f"Each observation was forecast by a particle filter from those before it alone, with the parameters at {centre}. "
        "If the model is right, its place among the forecasts is uniform between 0 and 1, and independent of those before."
        f"{part if share < 0.999 else ''}"
    )


def _inside(pit: np.ndarray, level: float) -> float:
    pit = pit[np.isfinite(pit)]
    return float(np.mean(np.abs(pit - 0.5) <= 0.5 * level))


def _coverage(found: Residuals, tested: Sequence[int], names: Sequence[str]) -> Markup:
    rows = []
    for level in COVERAGE:
        row: list[str] = [percent(level)]
        for k in tested:
            n = int(np.isfinite(found.pit[:, k]).sum())
            error = math.sqrt(level * (1 - level) / n)
            row.append(f"{percent(_inside(found.pit[:, k], level), 1)} ± {fixed(100 * error, 1)}")
        rows.append(row)
    caption = (
        "Share of observations inside central intervals of their forecasts; ± one standard error if the model is right."
    )
    return table(caption, ["Interval", *(names[k] for k in tested)], rows, class_="coverage")


def _checks(found: Residuals, y: np.ndarray, names: Sequence[str], k: int) -> Markup:
    pit, scores = found.pit[:, k], found.scores[:, k]
    panels = [_scatter(found, y, k), _histogram(pit), _correlations(found.index, scores)]
    caption = joined(
        tag("b", names[k]),
        ": observations against medians of their forecasts; how often observations have which place among the forecasts, "
        f"with a band that holds all bars in {percent(1 - RATE)} of cases if the model is right; correlation of normal "
        "scores with those so many observations before, with 95 % limits for each.",
    )
    return figure(f"figure-residuals-{k}", caption, multiples(*(one for one in panels if one is not None), class_="three"))


def _scatter(found: Residuals, y: np.ndarray, k: int) -> Markup | None:
    if found.forecast is None:
        return None
    seen, middle = y[:, k], found.forecast[:, 1, k]
    fine = np.flatnonzero(np.isfinite(seen) & np.isfinite(middle))
    fine = fine[np.unique(np.linspace(0, len(fine) - 1, min(SCATTER, len(fine))).astype(np.int64))]
    seen, middle = seen[fine], middle[fine]
    both = limits(seen, middle)
    frame = Frame(both, both)
    correlation = float(np.corrcoef(seen, middle)[0, 1]) if np.ptp(seen) > 0 and np.ptp(middle) > 0 else math.nan
    said = f"correlation {fixed(correlation, 2)}" if math.isfinite(correlation) else ""
    return panel(
        frame,
        [line(frame, [both.low, both.high], [both.low, both.high], "limit"), dots(frame, middle, seen, "point faint")],
        label=f"Observed against predicted medians of {plural(len(seen), 'forecast')}; {said}.",
        x_ticks=both.ticks(4),
        y_ticks=both.ticks(4),
        x_title="predicted",
        title="Observed",
        aside=tag("span", said, class_="panel-aside"),
        height=190,
    )


def _histogram(pit: np.ndarray) -> Markup:
    pit = pit[np.isfinite(pit)]
    n = len(pit)
    cells = 20 if n >= 1_000 else 10
    held, edges = np.histogram(pit, bins=cells, range=(0.0, 1.0))
    at_most = bdtr(np.arange(n + 1.0), n, 1 / cells)
    low, high = np.searchsorted(at_most, (RATE / cells / 2, 1 - RATE / cells / 2)) / n * cells
    share = held / n * cells
    scale = Scale(0.0, 1.1 * max(float(share.max()), high))
    frame = Frame(Scale(0.0, 1.0), scale)
    out = (share < low) | (share > high)
    shapes = [
        boxes(frame, edges[:-1][~out] + 0.004, edges[1:][~out] - 0.004, np.zeros((~out).sum()), share[~out], "bar"),
        boxes(frame, edges[:-1][out] + 0.004, edges[1:][out] - 0.004, np.zeros(out.sum()), share[out], "bar alarm"),
        area(frame, [0.0, 1.0], [low] * 2, [high] * 2, "after"),
        across(frame, low, "after-line"),
        across(frame, high, "after-line"),
    ]
    said = "all bars in the band" if not out.any() else f"{plural(int(out.sum()), 'bar')} outside the band"
    return panel(
        frame,
        shapes,
        label=f"Histogram of the places of {plural(n, 'observation')} among their forecasts: {said}.",
        x_ticks=[Tick(0.0, "0"), Tick(0.5, "0.5"), Tick(1.0, "1")],
        y_ticks=[Tick(0.0, "0"), Tick(1.0, "1")],
        x_title="place among forecasts",
        title="Places",
        aside=tag("span", said, class_="panel-aside"),
        height=190,
    )


def autocorrelation(
    index: np.ndarray, scores: Float[np.ndarray, " time"], lags: int
) -> tuple[Float[np.ndarray, " lag"], np.ndarray]:
    """Correlation of each score with the one so many observations before, within stretches; and the numbers of pairs."""
    parts = np.split(scores, np.flatnonzero(np.diff(index) != 1) + 1)
    parts = [part[np.isfinite(part)] for part in parts]
    whole = np.concatenate(parts)
    mean, variance = whole.mean(), whole.var()
    out, pairs = np.full(lags, np.nan), np.zeros(lags, np.int64)
    for lag in range(1, lags + 1):
        products = np.concatenate([(part[lag:] - mean) * (part[:-lag] - mean) for part in parts])
        pairs[lag - 1] = len(products)
        if len(products) and variance > 0:
            out[lag - 1] = products.mean() / variance
    return out, pairs


def _correlations(index: np.ndarray, scores: np.ndarray) -> Markup:
    count_ = int(np.isfinite(scores).sum())
    found, pairs = autocorrelation(index, np.clip(scores, -8.0, 8.0), min(LAGS, max(count_ // 4, 1)))
    lag = np.arange(1, len(found) + 1)
    limit = 1.96 / np.sqrt(np.maximum(pairs, 1))
    frame = Frame(Scale(0.0, len(found) + 1.0), limits(found, limit, -limit, [0.0]))
    out = np.abs(found) > limit
    shapes = [
        area(frame, lag, -limit, limit, "after"),
        across(frame, 0.0, "limit"),
        bars(frame, lag[~out], np.zeros((~out).sum()), found[~out], "stem"),
        bars(frame, lag[out], np.zeros(out.sum()), found[out], "stem alarm"),
    ]
    said = f"lag 1: {number(float(found[0]), 2)}"
    return panel(
        frame,
        shapes,
        label=f"Autocorrelation of normal scores at lags 1 to {len(found)}: {said}; {int(out.sum())} outside 95 % limits.",
        x_ticks=[tick for tick in frame.x.ticks(5) if tick.at >= 1 and float(tick.at).is_integer()],
        y_ticks=frame.y.ticks(4),
        x_title="observations before",
        title="Correlation",
        aside=tag("span", said, class_="panel-aside"),
        notes=[],
        height=190,
    )
