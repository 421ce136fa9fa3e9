"""The section on convergence: the ELBO along training, or how the chains have mixed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from nmax._draws import Draws
from nmax._posterior import Estimate, Posterior
from nmax.report._draw import Frame, across, area, bars, dots, figure, line, panel
from nmax.report._html import Markup, joined, paragraphs, sentence, table, tag
from nmax.report._numbers import count, decimals_of, duration, fixed, number, plural, to_error
from nmax.report._scale import Scale, limits
from nmax.report._section import Section
from nmax.report._subject import Subject

BARS, LEAST = 40, 5  # groups of steps at the most, and steps of a group at the least
FEWEST = 8  # steps below which there is no figure
CLIMB = 0.25  # share of the steps that may lie below the figure: the climb from a bad start would hide the rest


class Groups(NamedTuple):
    """Means of groups of steps, with standard errors."""

    step: Float[np.ndarray, " group"]
    mean: Float[np.ndarray, " group"]
    error: Float[np.ndarray, " group"]
    size: int


def convergence_section(subject: Subject, elbo: Estimate | None) -> Section:
    """Did it converge?"""
    posterior = subject.posterior
    body = _of_chains(posterior) if isinstance(posterior, Draws) else _of_fit(posterior, elbo)
    return Section("convergence", "Did it converge?", body)


def _of_fit(fit: Posterior, elbo: Estimate | None) -> Markup:
    answer = "The fit came to rest." if fit.converged else "The fit had not come to rest, or that could not be shown."
    skipped = f"{plural(fit.skipped, 'step')} were left out: their gradient was not finite." if fit.skipped else None
    return joined(
        paragraphs(answer, class_="lead"),
        paragraphs(sentence(fit.reason), sentence(fit.convergence.could_change), skipped),
        _history(fit, elbo),
    )


def grouped(total: Float[np.ndarray, " step"], groups: int = BARS) -> Groups:
    """Means of consecutive steps, non-finite ones left out, with standard errors from the spread within each group."""
    size = max(LEAST if len(total) >= LEAST * FEWEST else 2, -(-len(total) // groups))
    parts = [total[k : k + size] for k in range(0, len(total), size)]
    parts = [part[np.isfinite(part)] for part in parts]
    mean = np.array([part.mean() if len(part) else np.nan for part in parts])
    error = np.array([part.std(ddof=1) / math.sqrt(len(part)) if len(part) > 1 else np.nan for part in parts])
    step = np.array([k * size + 0.5 * (min(size, len(total) - k * size) + 1) for k in range(len(parts))])
    return Groups(step, mean, error, size)


def _history(fit: Posterior, elbo: Estimate | None) -> Markup | None:
    total = np.asarray(fit.history.total, np.float64)
    if np.isfinite(total).sum() < FEWEST:
        return paragraphs(f"Too few estimates of the ELBO were made along the way for a figure: {count(len(total))}.")
    found = grouped(total)
    low, high = found.mean - 2 * np.nan_to_num(found.error), found.mean + 2 * np.nan_to_num(found.error)
    scale = _limits(low, high, elbo)
    frame = Frame(Scale(0.0, len(total) + 1.0), scale)
    below = int(np.sum(found.mean < scale.low))
    shapes, said = [], None
    if elbo is not None and math.isfinite(elbo.mean):
        ends, spread = [0.0, len(total) + 1.0], 2 * elbo.standard_error
        shapes.append(area(frame, ends, [elbo.mean - spread] * 2, [elbo.mean + spread] * 2, "after"))
        shapes.append(across(frame, elbo.mean, "after-line"))
        said = tag("span", f"level line: that of the result, {said_elbo(elbo)}", class_="panel-aside")
    shapes += [
        bars(frame, found.step, low, high, "error"),
        line(frame, found.step, found.mean, "thin"),
        dots(frame, found.step, found.mean, "point"),
    ]
    body = panel(
        frame,
        shapes,
        label=f"The ELBO along {plural(len(total), 'step')}, from {number(float(found.mean[0]), 6)} to "
        f"{number(float(found.mean[-1]), 6)} nats.",
        x_ticks=[tick for tick in frame.x.ticks(5) if tick.at >= 0],
        y_ticks=scale.ticks(4),
        x_title="step of training",
        title="ELBO",
        aside=said,
        height=200,
    )
    caption = (
        "The evidence lower bound while q(θ) was fitted, in nats of the whole series; higher is better. Each point is the "
        f"mean of {plural(found.size, 'step')}, with bars of two standard errors."
    )
    if said is not None and _weighted(fit):
        caption += (
            " On the way draws of the path were weighted against each other, which lifts the bound above that of the result."
        )
    if below:
        caption += f" The first {count(below)} lie below the figure."
    return figure("figure-elbo", caption, body)


def _weighted(fit: Posterior) -> bool:
    """Whether the history is of the tighter bound that weighted draws give."""
    return any("weighted against each other" in note for note in fit.notes)


def _limits(low: np.ndarray, high: np.ndarray, elbo: Estimate | None) -> Scale:
    """What the last three quarters of the steps need, and the result's own ELBO."""
    late = slice(int(CLIMB * len(low)), None)
    own = [] if elbo is None else [elbo.mean - 2 * elbo.standard_error, elbo.mean + 2 * elbo.standard_error]
    settled, whole = limits(low[late], high[late], own), limits(low, high, own)
    return whole if whole.high - whole.low < 3 * (settled.high - settled.low) else settled


def _of_chains(draws: Draws) -> Markup:
    chains = draws.record.theta.shape[1]
    lead = (
        f"{count(draws.count)} draws from {plural(chains, 'chain')}, in {duration(draws.seconds)}; "
        f"{fixed(float(np.mean(draws.record.gradients)), 0)} gradients a draw, acceptance rate "
        f"{fixed(float(np.mean(draws.record.acceptance)), 2)}, {plural(draws.divergences, 'divergence')}."
    )
    rows = [[label, fixed(one.rhat, 3), fixed(one.bulk, 0), fixed(one.tail, 0)] for label, one in draws.mixing.items()]
    caption = "R-hat is 1 where chains agree; effective draws are for means (bulk) and for the 5 % and 95 % points (tail)."
    return joined(paragraphs(lead, class_="lead"), table(caption, ["Parameter", "R-hat", "ESS bulk", "ESS tail"], rows))


def said_elbo(elbo: Estimate) -> str:
    """The ELBO with its error."""
    decimals = decimals_of(elbo.standard_error)
    error = number(elbo.standard_error, 2) if decimals is None else fixed(elbo.standard_error, decimals)
    return f"{to_error(elbo.mean, elbo.standard_error)} ± {error} nats"
