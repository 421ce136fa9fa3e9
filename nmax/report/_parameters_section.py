"""The section on the parameters: a table, and densities against priors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpyro.distributions as dist

from nmax._summary import figures
from nmax.report._density import Marginal, marginals
from nmax.report._draw import Frame, Note, area, figure, line, multiples, panel, upright
from nmax.report._html import Markup, joined, paragraphs, table, tag
from nmax.report._numbers import count, decimals_of, fixed, listed, number, percent, plural, times
from nmax.report._scale import Scale, limits
from nmax.report._section import Section
from nmax.report._subject import Subject

MOST_ROWS, MOST_PANELS = 200, 24
HARDLY = 1.5  # times narrower than the prior: less says that the data tell little
STRONG = 0.5  # correlation worth a sentence


def parameters_section(subject: Subject) -> Section:
    """The posterior of θ."""
    found = marginals(subject.model.parameters, subject.theta())
    shown = found[:MOST_ROWS]
    priors = _priors(subject)
    rows = [_row(one, priors) for one in shown]
    head = ["Parameter", "Mean", "sd", "5 %", "50 %", "95 %", "Prior"]
    caption = f"Posterior of the parameters, from {plural(len(found[0].draws), 'draw')}."
    if len(found) > len(shown):
        caption += f" The first {count(MOST_ROWS)} of {count(len(found))}."
    body = joined(
        paragraphs(_lead(found), _correlation(found), class_="lead"),
        table(caption, head, rows, words=(0, 6), class_="parameters"),
        _densities(found),
    )
    return Section("parameters", "Parameters", body)


def _row(one: Marginal, priors: dict[str, str]) -> list[str | Markup]:
    draws = one.draws[np.isfinite(one.draws)]
    values = figures(draws) if len(draws) > 1 else dict.fromkeys(("mean", "sd", "5%", "50%", "95%"), math.nan)
    decimals = decimals_of(values["sd"])
    said = [number(v, 4) if decimals is None else fixed(v, decimals) for v in values.values()]
    return [one.label, *said, tag("span", priors[one.name], class_="prior-name")]


def _priors(subject: Subject) -> dict[str, str]:
    return {name: prior_name(d) for name, d in subject.model.parameters.distributions.items()}


def prior_name(distribution: dist.Distribution) -> str:
    """A prior as a user would write it: Normal(0, 10)."""
    base: Any = distribution
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape)
    while isinstance(base, (dist.Independent, dist.ExpandedDistribution)):
        base = base.base_dist
    if type(base).__name__.endswith("TruncatedDistribution"):
        return f"{prior_name(base.base_dist)}, truncated"
    values: list[str] = []
    for name in getattr(type(base), "arg_constraints", {}):
        value = np.asarray(getattr(base, name, np.nan), np.float64) if _is_number(getattr(base, name, None)) else None
        if value is None:
            continue
        same = value.size > 0 and bool(np.all(value == value.flat[0]))
        values.append(f"{float(value.flat[0]):.4g}".replace("-", "−") if same else "…")
    values = [value for k, value in enumerate(values) if value != "…" or "…" not in values[:k]]
    size = f", shape {'×'.join(map(str, shape))}" if shape else ""
    return f"{type(base).__name__}({', '.join(values)}){size}"


def _is_number(value: object) -> bool:
    try:
        return value is not None and np.issubdtype(np.asarray(value).dtype, np.number)
    except (TypeError, ValueError):
        return False


def _lead(found: list[Marginal]) -> str:
    lost = [one.label for one in found if not np.isfinite(one.draws).all()]
    if lost:
        return f"Draws of {listed(lost)} are not finite: this posterior must not be used."
    ratios = np.array([one.narrower for one in found])
    weak = [one.label for one in found if one.narrower < HARDLY]
    if weak:
        what, them = ("is", "it") if len(weak) == 1 else ("are", "them")
        return f"The posterior of {listed(weak)} {what} hardly narrower than the prior: the data say little about {them}."
    least = times(float(ratios.min()))
    if len(found) == 1:
        return f"The data make the parameter {least} times narrower than its prior."
    return f"The data make every parameter at least {least} times narrower than its prior."


def _correlation(found: list[Marginal]) -> str | None:
    """The pair that hangs together most, if it does so strongly."""
    if not 1 < len(found) <= MOST_ROWS:
        return None
    draws = np.stack([one.draws for one in found])
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    if draws.shape[1] < 3 or not (draws.std(axis=1) > 0).all():
        return None
    matrix = np.corrcoef(draws) - np.eye(len(found))
    a, b = np.unravel_index(int(np.argmax(np.abs(matrix))), matrix.shape)
    if abs(matrix[a, b]) < STRONG:
        return None
    first, second = found[min(a, b)].label, found[max(a, b)].label
    return f"The most strongly correlated are {first} and {second}: {fixed(float(matrix[a, b]), 2)}."


def _densities(found: list[Marginal]) -> Markup:
    panels = [_density(one) for one in found[:MOST_PANELS] if len(one.grid)]
    without = [one.label for one in found[:MOST_PANELS] if one.prior is None and len(one.grid)]
    caption = (
        "Marginal densities: the posterior in blue, its middle 90 % darker, the mean as a line; the prior as a dashed line, "
        "cut off where the posterior ends. The figure beside each name says how many times as wide the middle 90 % of the "
        "prior are."
    )
    scales = sorted({one.scale for one in found if one.scale})
    if scales:
        caption += (
            f" In brackets the scale on which that was measured, where it is not the parameter's own: {listed(scales)}."
        )
    if without:
        caption += f" The prior of {listed(without)} is not drawn: its entries depend on each other."
    if len(found) > MOST_PANELS:
        caption += f" The first {MOST_PANELS} of {count(len(found))} parameters."
    return figure("figure-densities", caption, multiples(*panels)) if panels else Markup("")


def _density(one: Marginal) -> Markup:
    top = float(np.nanmax(one.density)) if len(one.density) else 1.0
    across = limits(one.grid, margin=0.0)
    frame = Frame(across, Scale(0.0, 1.12 * top))
    draws = one.draws[np.isfinite(one.draws)]
    low, high = np.quantile(draws, [0.05, 0.95])
    inner = (one.grid >= low) & (one.grid <= high)
    zero = np.zeros(len(one.grid))
    shapes = [area(frame, one.grid, zero, one.density, "density")]
    shapes.append(area(frame, one.grid[inner], zero[inner], one.density[inner], "density inner"))
    shapes.append(line(frame, one.grid, one.density, "outline"))
    shapes.append(upright(frame, [float(draws.mean())], "mean"))
    notes = []
    if one.prior is not None:
        cut = np.where(one.prior <= 1.12 * top, one.prior, np.nan)
        shapes.append(line(frame, one.grid, cut, "prior"))
        end = len(cut) - 1
        if math.isfinite(cut[end]):
            notes.append(Note(one.grid[end], float(cut[end]), "prior", "over end prior-note", "left"))
    said = number(float(draws.mean()), 4)
    return panel(
        frame,
        shapes,
        label=f"Posterior density of {one.label}: mean {said}, middle {percent(0.9)} from {number(float(low), 4)} to "
        f"{number(float(high), 4)}; {_narrower(one)}.",
        x_ticks=across.ticks(4),
        title=one.label,
        aside=tag("span", _narrower(one), class_="panel-aside"),
        notes=notes,
        height=120,
    )


def _narrower(one: Marginal) -> str:
    if not math.isfinite(one.narrower):
        return "does not vary"
    if one.narrower < HARDLY:
        return "hardly narrower than the prior"
    on = f" ({one.scale})" if one.scale else ""
    return f"{times(one.narrower)}× narrower{on}"
