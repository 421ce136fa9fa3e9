"""The cold start: from the prior to the neighbourhood of the posterior, by several starts."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from nmax._prior_density import PriorDensity
from nmax._scores import LANES, Scores

CANDIDATES = 96  # points of the prior that are looked at
SHARES = (0.03, 0.1, 0.3, 1.0)  # of the way from the prior's centre to a draw of it
CLIMBS = ((50, 0.3, 0.1), (20, 0.1, 0.02))  # steps, first and last rate of Adam in either round
ROUGH = 5  # iterations of the reference path during a climb
PASSES = 8  # Newton steps at the most
SAME = 5.0  # standard deviations within which two ends are one mode
JITTER = 0.1  # or this, in unconstrained units
PACES = (-2.0, -1.0, 1.0, 2.0)  # steps of all coordinates together from a mode, in search of rivals
OTHERS = 3  # starts of such a search that are gone on with
DIP = 1.0  # nats by which the density must fall between two modes
APART = 0.3  # what lies between the ends of climbs to rival modes, at least, in unconstrained units
HOPELESS = 100.0  # nats below the best end at which another is not gone on with
SAMPLE, FINER = 240, 16  # windows of the first Newton steps on a long series, and how many times as many the next ones see
TRUST = 4.0  # longest Newton step, in standard deviations
WIDEST = 0.1  # first width of differences, in unconstrained units, at the most
NEAR = 0.2  # a step that is not worth another pass
SLACK = 0.5  # nats by which a step may lead down and still be taken,
ROUNDING = 5e-7  # and as a share of the value: what θ rounds to in single precision is the same for all steps, and adds up
LEAST = 24  # windows a pass, noise drawn anew for each, where the series has fewer
BENDS = 8  # and for the curvature, whose differences the noise hardly touches
SHORT = 20  # windows a parameter below which the curvature is taken by differences


class NoPosteriorError(RuntimeError):
    """No usable posterior was found: nowhere to begin, or what a fit would have returned are not numbers."""


class Mode(NamedTuple):
    """A mode of the posterior of θ, as the look-ahead sees it.

    Attributes:
        theta: its place, unconstrained.
        covariance: inverse of the information there.
        log_evidence: log of the posterior mass near it by Laplace's approximation, in nats.
        scores: every window's score there.
        arrived: whether Newton's steps came to rest.
        elbo: of the guide with q(θ) settled at this mode, in nats; NaN where that was not asked.
        elbo_standard_error: its Monte Carlo error.
        left: the Newton step that was left by parameter, in posterior standard deviations, or the last one if none was
            looked at after it.
    """

    theta: Float[np.ndarray, " param"]
    covariance: Float[np.ndarray, "param param"]
    log_evidence: float
    scores: Float[np.ndarray, "window param"]
    arrived: bool
    elbo: float = float("nan")
    elbo_standard_error: float = float("nan")
    left: Float[np.ndarray, " param"] | float = float("nan")


def modes(scores: Scores, centre: np.ndarray, starts: int, *, whole: bool = True, key: PRNGKeyArray) -> list[Mode]:
    """The modes of the posterior that climbs from several starts end in, the one with most mass first.

    On a series of few windows, whose posterior may well have rival modes, Newton's method is then begun at some points
    around the best mode, too. A climb may use a rougher reference path than the rest: far from the data it does not
    settle anyway. Unless `whole`, modes of a long series are those of a sample of its windows.
    """
    prior = PriorDensity(scores.guide.model.parameters)
    climb_key, around_key, newton_key = jr.split(key, 3)
    rough = Scores(eqx.tree_at(lambda g: g.iterations, scores.guide, jnp.int32(ROUGH)), scores.series, scores.windows)
    found = _settled_ends(scores, prior, climb(rough, prior, centre, starts, key=climb_key), [], whole, key=newton_key)
    if starts > 1 and scores.windows.count < SHORT * prior.size:
        others = others_around(rough, prior, found[0].theta, key=around_key)
        found = _settled_ends(scores, prior, others, found, whole, key=newton_key)
    return found


def _settled_ends(
    scores: Scores, prior: PriorDensity, ends: list[np.ndarray], found: list[Mode], whole: bool, *, key: PRNGKeyArray
) -> list[Mode]:
    """Newton's method from the ends of climbs; modes found before are not found again. The one with most mass first."""
    found = list(found)
    for theta in ends:
        if not any(_same(theta, mode) for mode in found):
            near = scores.around(theta, key=key)
            mode = newton(near, prior, theta, PASSES, whole=whole, key=key)
            new = not any(_same(mode.theta, other) or _joined(near, prior, mode, other, key=key) for other in found)
            if new and (mode.arrived or not found):
                found.append(mode)
    return by_mass(found)


def by_mass(found: list[Mode]) -> list[Mode]:
    """The mode with most mass first; those that Newton's steps did not arrive at last."""
    return sorted(found, key=lambda mode: (not mode.arrived, -mode.log_evidence))


def _same(theta: np.ndarray, mode: Mode) -> bool:
    """Whether a climb's end belongs to a mode: within some standard deviations of it, or within a climb's own jitter."""
    off = theta - mode.theta
    return float(np.sqrt(off @ np.linalg.solve(mode.covariance, off))) < SAME or float(np.abs(off).max()) < JITTER


def _joined(scores: Scores, prior: PriorDensity, one: Mode, other: Mode, *, key: PRNGKeyArray) -> bool:
    """Whether the density does not dip between two places: then they lie on one ridge, and are one mode."""
    share = np.linspace(0.0, 1.0, 5)[:, None]
    points = (1.0 - share) * one.theta + share * other.theta
    height = _heights(scores, prior, points, LANES // len(points), np.random.default_rng(0), key=key)
    return bool(height[1:-1].min() > min(height[0], height[-1]) - DIP)


def climb(scores: Scores, prior: PriorDensity, centre: np.ndarray, starts: int, *, key: PRNGKeyArray) -> list[np.ndarray]:
    """Look at many points of the prior, climb from the best of them; the ends, best first."""
    screen_key, *climb_keys = jr.split(key, 1 + len(CLIMBS))
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    draws = np.asarray(scores.guide.model.parameters.sample(screen_key, CANDIDATES), np.float64)
    share = np.resize(SHARES, CANDIDATES)[:, None]
    points = np.where(np.arange(CANDIDATES)[:, None] == 0, centre, centre + share * (draws - centre))
    total = _heights(scores, prior, points, 1, rng, key=screen_key)
    ends = points[np.argsort(-total, kind="stable")[:starts]]
    for climb_key, (steps, first, last), most in zip(climb_keys, CLIMBS, (max(1, starts // 2), starts), strict=True):
        ends = _adam(scores, prior, ends, steps, first, last, rng, key=climb_key)
        total = _heights(scores, prior, ends, LANES // len(ends), rng, key=climb_key)
        ends = ends[_apart(ends, total)[:most]]
        if not len(ends):
            raise NoPosteriorError(
                f"The log posterior density must be finite somewhere; it was not on the way up from {CANDIDATES} points of "
                "the prior. Give priors with less weight on values for which the model is not defined, a `support` for "
                "states that must stay positive, or a smaller `dt`."
            )
    return list(ends)


def others_around(scores: Scores, prior: PriorDensity, mode: np.ndarray, *, key: PRNGKeyArray) -> list[np.ndarray]:
    """The best of points around a mode: along the axes, all coordinates together (a change of pace), and at random."""
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    paces = np.array(PACES)[:, None] * np.ones(prior.size)
    axes = np.concatenate([np.eye(prior.size), -np.eye(prior.size)])
    rest = rng.standard_normal((max(LANES - len(paces) - len(axes), 0), prior.size))
    points = mode + np.concatenate([paces, axes, rest])
    total = _heights(scores, prior, points, 1, rng, key=key)
    return list(points[_apart(points, total)[:OTHERS]])


def _apart(ends: np.ndarray, total: np.ndarray) -> list[int]:
    """The numbers of the ends that lie apart from better ones and are not hopelessly below the best, best first."""
    least = np.max(total, initial=-np.inf) - HOPELESS
    chosen: list[int] = []
    for k in map(int, np.argsort(-total, kind="stable")):
        if np.isfinite(total[k]) and total[k] > least and all(np.abs(ends[k] - ends[j]).max() > APART for j in chosen):
            chosen.append(k)
    return chosen


def _heights(scores: Scores, prior: PriorDensity, points: np.ndarray, each: int, rng, *, key: PRNGKeyArray) -> np.ndarray:
    """Log posterior density of points up to a constant, by what the same windows with the same noise say of them."""
    number = scores.spread(each, rng)
    total = np.zeros(len(points))
    for k in range(each):
        value, _ = scores(points, np.full(len(points), number[k]), key=jr.fold_in(key, k))
        total += value * scores.windows.count / each
    total += prior.log_prob(points)
    return np.where(np.isfinite(total), total, -np.inf)


def _adam(scores: Scores, prior: PriorDensity, points: np.ndarray, steps: int, first: float, last: float, rng, *, key):
    """Climb from all points at once."""
    each = max(1, LANES // len(points))
    points, mean, square = points.copy(), np.zeros_like(points), np.zeros_like(points)
    for k in range(steps):
        number = np.tile(scores.spread(each, rng), len(points))
        _, gradient = scores(np.repeat(points, each, axis=0), number, key=jr.fold_in(key, k))
        gradient = np.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0).reshape(len(points), each, -1)
        gradient = gradient.mean(axis=1) * scores.windows.count + prior.gradient(points)
        mean, square = 0.8 * mean + 0.2 * gradient, 0.95 * square + 0.05 * gradient**2
        unit = mean / (1 - 0.8 ** (k + 1)) / (np.sqrt(square / (1 - 0.95 ** (k + 1))) + 1e-12)
        points = points + first * (last / first) ** (k / steps) * unit
    return points


def newton(
    scores: Scores, prior: PriorDensity, theta: np.ndarray, most: int, *, whole: bool = True, key: PRNGKeyArray
) -> Mode:
    r"""Newton's steps $\vartheta \mathrel{+}= F^{-1} \sum_B \nabla \ell_B$ from passes over the series.

    The information F is the covariance of the windows' scores times their number: nothing beside the pass itself is
    needed. With few windows it is the curvature instead, by differences of the score with the noise held fixed. A step
    is cut to `TRUST` standard deviations, and halved as long as the same noise finds it to lead down.

    A long series is begun with a sample of its windows, and gone on with ever larger ones, so that few passes see all of
    it; unless `whole`, none does.
    """
    for sample in _samples(scores.windows.count, whole):
        here = _newton(scores, prior, theta, most, sample, key=key)
        theta = here.theta
    step = here.covariance @ here.slope
    log_evidence = here.value + 0.5 * np.linalg.slogdet(2 * np.pi * here.covariance)[1]
    arrived = bool(step @ here.slope < 1.0)
    left = step / np.sqrt(np.diagonal(here.covariance))
    return Mode(here.theta, here.covariance, float(log_evidence), here.scores, arrived, left=left)


def _samples(count: int, whole: bool) -> list[int | None]:
    """How many of the windows successive rounds of Newton steps see, all of them in the last one."""
    few, sample = [], SAMPLE
    while count > 2 * sample:
        few, sample = [*few, sample], FINER * sample
    return [*few, None] if whole or not few else few[:1]


def sharpened(scores: Scores, prior: PriorDensity, mode: Mode, draws: int, *, key: PRNGKeyArray) -> Mode:
    """One more Newton step from a pass with `draws` weighted draws a window, for a series of many windows."""
    value, gradient = scores.weighted(mode.theta, np.arange(scores.windows.count), draws, key=key)
    slope = gradient.sum(axis=0) + prior.gradient(mode.theta[None])[0]
    information = np.cov(gradient.T).reshape(prior.size, -1) * scores.windows.count + prior.curvature(mode.theta)
    covariance = np.linalg.inv(positive(information))
    log_evidence = value.sum() + prior.log_prob(mode.theta[None])[0] + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    step = covariance @ slope
    left = step / np.sqrt(np.diagonal(covariance))
    return Mode(mode.theta + step, covariance, float(log_evidence), gradient, mode.arrived, left=left)


def _newton(scores: Scores, prior: PriorDensity, theta: np.ndarray, most: int, sample: int | None, *, key) -> _Pass:
    here = _passed(scores, prior, theta, None, sample, key=key)
    trust = TRUST
    for _ in range(most):
        step = here.covariance @ here.slope
        length = np.sqrt(max(step @ here.slope, 0.0))
        if length < NEAR:
            break
        there = _passed(scores, prior, here.theta + step * min(1.0, trust / length), here.covariance, sample, key=key)
        if np.isfinite(there.value) and there.value > here.value - SLACK - ROUNDING * abs(here.value):
            here, trust = there, 2 * trust
        else:
            trust = 0.25 * min(trust, length)
            if trust < NEAR:
                break
    return here


class _Pass(NamedTuple):
    """One pass over the series at θ: log posterior density up to a constant, its gradient, and inverse information."""

    theta: np.ndarray
    value: float
    slope: np.ndarray
    covariance: np.ndarray
    scores: np.ndarray


def _passed(
    scores: Scores, prior: PriorDensity, theta: np.ndarray, covariance, sample: int | None, *, key: PRNGKeyArray
) -> _Pass:
    """Over all windows, or over a sample of them that then counts as the whole series."""
    every = np.arange(scores.windows.count)
    every = every if sample is None else every[np.linspace(0, len(every) - 1, sample).astype(np.int64)]
    count = len(every)
    short = count < SHORT * prior.size
    number = np.tile(every, max(1, -(-LEAST // count)) if short else 1)
    value, gradient = scores(np.broadcast_to(theta, (len(number), len(theta))), number, key=key)
    times = len(number) / count
    slope = gradient.sum(axis=0) / times + prior.gradient(theta[None])[0]
    if short:
        if covariance is None:
            covariance = np.diag(np.minimum(times / np.maximum((gradient**2).sum(axis=0), 1e-12), WIDEST**2))
        few = number[: count * max(1, -(-BENDS // count))]
        bends = _curvature(scores, theta, few, np.linalg.cholesky(covariance), key=key)
        information = bends * (count / len(few))
    else:
        information = np.cov(gradient.T).reshape(prior.size, -1) * count
    covariance = np.linalg.inv(positive(information + prior.curvature(theta)))
    value = float(value.sum() / times + prior.log_prob(theta[None])[0])
    return _Pass(theta, value, slope, covariance, gradient.reshape(-1, count, prior.size).mean(axis=0))


def _curvature(scores: Scores, theta: np.ndarray, number: np.ndarray, root: np.ndarray, *, key: PRNGKeyArray) -> np.ndarray:
    """Minus the second derivatives of the sum over `number`, by differences one standard deviation wide."""
    size, lanes = len(theta), len(number)
    points = np.concatenate([theta + 0.5 * root.T, theta - 0.5 * root.T])
    noise = np.tile(np.arange(lanes), 2 * size)
    _, gradient = scores(np.repeat(points, lanes, axis=0), np.tile(number, 2 * size), key=key, noise=noise)
    up, down = gradient.reshape(2, size, lanes, size)
    along = -np.linalg.solve(root.T, np.nan_to_num(up - down).sum(axis=1))  # rows: derivative along each column of the root
    return 0.5 * (along + along.T)


def positive(matrix: np.ndarray) -> np.ndarray:
    """The matrix with its eigenvalues made positive; entries that are not finite, far from any mode, count as zero."""
    matrix = np.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)
    scale = np.sqrt(np.abs(np.diagonal(matrix)) + 1e-12)
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    values = np.maximum(np.abs(values), 1e-6)
    return (vectors * values) @ vectors.T * np.outer(scale, scale)
