"""From a model and a series to a look-ahead guide at the posterior: modes, buffers, what the Gaussian leaves, q(θ)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._convergence import Convergence
from nmax._find import CUT_NATS, Found, find
from nmax._give_back import give_back
from nmax._natural import Settlement, bound, many, settle
from nmax._prior_density import PriorDensity
from nmax._progress import Meter
from nmax._scores import Scores
from nmax._start import Mode, newton, sharpened
from nmax._step import History
from nmax.data import Series, Windows, windows_over
from nmax.guides import LookaheadGuide, LookaheadSampler
from nmax.models import AbstractModel

SETTLE = 60  # calls of the scores in which q(θ) settles
CALLS_A_PARAMETER = 24  # at least, where draws are weighted
CHEAP, MOST_EFFORT = 1_500, 3.0  # steps of a window below which there are more calls, and how many times as many at the most
SHORTFALL_WINDOWS, SHORTFALL_DRAWS = 12, 8
SHORTFALL = 5.0  # nats below which the Gaussian look-ahead is good enough
LAYERS = 2
CLEARLY = 2.0  # nats of ELBO by which a rival must lead to be taken instead of the mode with most mass by Laplace
MOST_RIVALS = 3  # modes that get an ELBO of their own beside the best
WEIGHTED, WEIGHTED_SHORT = 8, 6  # draws a window on series of many windows, and of few
NOTICEABLE = 0.2  # nats above which the latter are weighted


class Located(NamedTuple):
    """Where the look-ahead finds the posterior.

    Attributes:
        guide: with q(θ) settled, and neural layers at the identity where some are wanted.
        windows: the partition of the series.
        modes: of θ, the one with most mass first.
        shortfall: estimate of what the Gaussian look-ahead leaves to gain, in nats.
        needed: steps the path takes to forget; 0 where the whole series is one block.
        weighted: draws of a window weighted against each other in the last step for θ.
        history: parts of the ELBO while q(θ) settled.
        refused: whether a round of that was refused.
        convergence: whether it came to rest.
    """

    guide: LookaheadSampler
    windows: Windows
    modes: tuple[Mode, ...]
    shortfall: float
    needed: int
    weighted: int
    history: History
    refused: bool
    convergence: Convergence


def locate(
    settings: LookaheadGuide,
    model: AbstractModel,
    series: Series,
    centre: Float[Array, " param"],
    *,
    width: int | None,
    meter: Meter,
    key: PRNGKeyArray,
    kept: Callable[[Callable[[], Found]], Found] = lambda make: make(),
) -> Located:
    """Find the modes, choose buffers and layers, and settle q(θ); `kept` may know already what was found."""
    build_key, mode_key, gap_key, settle_key = jr.split(key, 4)
    where = {"width": width, "meter": meter, "build_key": build_key, "key": mode_key}
    found = kept(lambda: find(settings, model, series, centre, **where))
    scores, modes, needed = found.scores, list(found.modes), found.needed
    guide = scores.guide
    give_back()
    meter.phase("settle q(θ)")
    gap = shortfall(scores, modes[0], key=gap_key)
    long, falls_short = many(scores.windows), gap > SHORTFALL
    weighted = settings.weighted or _weighted(gap, long)
    if weighted > 1 and long:
        modes[0] = sharpened(scores, PriorDensity(model.parameters), modes[0], weighted, key=mode_key)
    calls = SETTLE if long or weighted == 1 else _calls(guide.theta_flow.size, scores.windows)
    best, settled = settled_modes(scores, modes, calls, weighted, settings, key=settle_key)
    layers = settings.layers if settings.layers is not None else (LAYERS if falls_short and not long else 0)
    guide = settings.with_layers(best.scores.guide, layers, series, key=build_key)
    own, (flow, history, refused, *_) = guide.block > series.length or scores.windows.count == 1, best.settlement
    guide = dataclasses.replace(guide, theta_flow=flow, own=own)
    rest = best.settlement.convergence(best.mode, model.parameters.labels)
    return Located(guide, scores.windows, settled, gap, needed, weighted, history, refused, rest)


class Settled(NamedTuple):
    """q(θ) at one mode: the mode with its ELBO, where it was asked for, the scores there, and how q(θ) settled."""

    mode: Mode
    scores: Scores
    settlement: Settlement


def settled_modes(
    scores: Scores, found: list[Mode], calls: int, weighted: int, settings: LookaheadGuide, *, key: PRNGKeyArray
) -> tuple[Settled, tuple[Mode, ...]]:
    """q(θ) at the best mode, and all modes with that one first: by the ELBO, where there are rivals.

    Rivals further than `settings.rivals` below the first by Laplace's approximation are left without an ELBO.
    """
    least = found[0].log_evidence - settings.rivals
    near = found[:1] + [m for m in found[1:] if m.log_evidence > least][:MOST_RIVALS]
    settled = []
    for mode in near:
        own = scores.around(mode.theta, key=key)
        effort = calls if mode is found[0] else calls // 2  # a rival need only be compared
        options = {"weighted": weighted, "rounds": settings.rounds}
        settlement = settle(own, scores.guide.theta_flow, mode, effort, **options, key=key)
        if len(near) > 1:
            mean, error = bound(own, settlement.flow, mode, key=key)
            mode = mode._replace(elbo=mean, elbo_standard_error=error)
        settled.append(Settled(mode, own, settlement))
    first = max(settled, key=lambda one: one.mode.elbo - CLEARLY * (one is not settled[0])) if len(near) > 1 else settled[0]
    settled.sort(key=lambda one: (one is not first, -np.nan_to_num(one.mode.elbo, nan=-np.inf)))
    rest = [mode for mode in found if not any(mode is other for other in near)]
    return settled[0], tuple([one.mode for one in settled] + rest)


def _weighted(gap: float, long: bool) -> int:
    """Draws of x to weight against each other at each θ."""
    if long:
        return WEIGHTED if gap > SHORTFALL else 1
    return WEIGHTED_SHORT if gap > NOTICEABLE else 1


def _calls(size: int, windows: Windows) -> int:
    """Calls of the scores with weighted draws: more where they cost little."""
    effort = float(np.clip(CHEAP / windows.width, 1.0, MOST_EFFORT))
    return max(SETTLE, int(CALLS_A_PARAMETER * size * effort))


def relocate(
    guide: LookaheadSampler, series: Series, windows: Windows, mode: Mode, *, key: PRNGKeyArray
) -> tuple[LookaheadSampler, Convergence]:
    """Settle q(θ) once more, after the neural layers have learned; and whether it came to rest."""
    newton_key, settle_key = jr.split(key)
    scores = Scores(guide, series, windows)
    mode = newton(scores, PriorDensity(guide.model.parameters), mode.theta, 3, key=newton_key)
    weighted = 1 if many(windows) else WEIGHTED_SHORT
    settled = settle(scores, guide.theta_flow, mode, SETTLE, weighted=weighted, key=settle_key)
    rest = settled.convergence(mode, guide.model.parameters.labels)
    return dataclasses.replace(guide, theta_flow=settled.flow), rest


def training_windows(guide: LookaheadSampler, series: Series, windows: Windows) -> Windows:
    """What neural layers are trained on: at most two blocks a window."""
    return windows_over(series, min(windows.width, 2 * guide.block))


def shortfall(scores: Scores, mode: Mode, *, key: PRNGKeyArray) -> float:
    r"""What q(x | θ) falls short of the posterior at a mode, in nats of the whole series.

    If it were exact, a window's log-ratio would be the same for all noise. Its variance over the noise is near twice the
    Kullback–Leibler divergence while that is small.
    """
    count = scores.windows.count
    chosen = np.unique(np.linspace(0, count - 1, SHORTFALL_WINDOWS).astype(np.int64))
    draws = max(SHORTFALL_DRAWS, SHORTFALL_WINDOWS * SHORTFALL_DRAWS // len(chosen))
    number = np.repeat(chosen, draws)
    value, _ = scores(np.tile(mode.theta, (len(number), 1)), number, key=key)
    return float(0.5 * value.reshape(-1, draws).var(axis=1, ddof=1).mean() * count)


def described(located: Located, series: Series) -> tuple[str, ...]:
    """What was found and chosen, in sentences."""
    guide, lines = located.guide, []
    if guide.block > series.length:
        lines.append("look-ahead over the whole series at once")
    else:
        lines.append(
            f"look-ahead in blocks of {guide.block} steps with buffers of {guide.buffer}; the path forgets in "
            f"{located.needed}, windows have {located.windows.width}"
        )
        if located.needed > guide.buffer:
            lines.append(
                f"the buffer is too short: {located.needed} steps are needed, or the ELBO loses more than {CUT_NATS} nats; "
                f"pass `guide=nmax.LookaheadGuide(buffer={located.needed})`"
            )
    count = len(guide.layers.flows)
    what = f"{count} neural layers correct it" if count else "no neural layers"
    if located.weighted > 1:
        what += f"; {located.weighted} draws a window are weighted against each other for θ"
    lines.append(f"the Gaussian look-ahead falls short by about {located.shortfall:.2g} nats; {what}")
    if located.refused:
        lines.append("q(θ) was stopped short: going on lowered the bound, so that its widths are less sure than usual")
    return (*lines, *rivals(located.modes, guide.model))


def rivals(found: tuple[Mode, ...], model: AbstractModel) -> tuple[str, ...]:
    """A sentence for each mode that was not taken."""
    best, lines = found[0] if found else None, []
    for mode in found[1:]:
        assert best is not None
        line = (
            f"rival mode at {by_name(model, mode.theta)}: {best.log_evidence - mode.log_evidence:.1f} nats less by Laplace"
        )
        if np.isfinite(mode.elbo):
            below = best.elbo - mode.elbo
            error = np.hypot(best.elbo_standard_error, mode.elbo_standard_error)
            line += f", {below:.1f} ± {error:.1f} by the ELBO: about {np.exp(-max(below, 0.0)):.2g} of this mode's mass"
        lines.append(line)
    return tuple(lines)


def nearest_rival(found: tuple[Mode, ...]) -> float:
    """Nats by which the best of the modes that were not taken lies below the one that was; infinite if there is none."""
    below = [
        found[0].elbo - mode.elbo if np.isfinite(mode.elbo + found[0].elbo) else found[0].log_evidence - mode.log_evidence
        for mode in found[1:]
    ]
    return min(below, default=float("inf"))


def by_name(model: AbstractModel, theta: np.ndarray) -> str:
    """Unconstrained parameters as text, by name on the user's own scale."""
    values: dict[str, Any] = model.parameters.constrain(jnp.asarray(theta, jnp.float32))
    names = model.parameters.distributions
    return ", ".join(f"{name} = {np.array2string(np.asarray(values[name]), precision=4)}" for name in names)
