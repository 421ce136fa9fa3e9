"""q(θ) moved to where weighted draws say the posterior is: for series on which q(x | θ) falls short."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._evidence import PARTICLES, evidence
from nmax._locate import Located
from nmax._train import Outcome
from nmax.data import LongSeries, Series
from nmax.flows import AffineHead, ThetaFlow
from nmax.guides import LookaheadGuide

NOTICED = 2.0  # nats that q(x | θ) falls short by, from which on this is worth its time
LONGEST = 20_000  # steps: each draw of θ takes a pass over the series
ROUGH, FINE = 3, 3  # rounds that find the way, and those that count, at the most
MOST, WORTH = 1_024, 400.0  # draws of θ a round at the most, and what they are to be worth
FINER = 4  # times as many particles where rounds count: the filter's noise hides tails
FEWEST = 20.0  # effective draws below which they say nothing
TEMPERED = 40.0  # effective draws that a rough round has at least, its weights tempered as far as that takes
FREEDOM = 4.0  # degrees, at least, of the Student t that is base noise later: tails that q(θ) misses are seen, too
PRIOR_WORTH = 2.0  # draws a parameter that the covariance from before counts for
MOMENTS = 16_384
SLIGHT, SLIGHTLY = 0.12, 0.1  # sds that a round may move a mean by, and the logarithm of a width, to be the last


class Reweighed(NamedTuple):
    """q(θ) after it was moved, and what was done, in sentences."""

    flow: ThetaFlow
    notes: tuple[str, ...]


def corrected(
    outcome: Outcome, notes: tuple[str, ...], located: Located, settings: LookaheadGuide, series: Any, *, key: PRNGKeyArray
) -> tuple[Outcome, tuple[str, ...]]:
    """A fit with q(θ) moved where q(x | θ) falls short, and what to say of it; not where `weighted=1` declines weights."""
    short = not isinstance(series, LongSeries) and sum(series.lengths) <= LONGEST
    if settings.weighted == 1 or located.shortfall < NOTICED or not short:
        return outcome, notes
    guide: Any = outcome.guide
    held: Any = series
    found = reweighed(guide, held, key=key)
    return outcome._replace(guide=dataclasses.replace(guide, theta_flow=found.flow)), (*notes, *found.notes)


def reweighed(guide: Any, series: Series, *, key: PRNGKeyArray) -> Reweighed:
    r"""Move the affine head of q(θ) until mean and covariance are those of draws weighted by prior × likelihood / q(θ).

    The ELBO takes $E_q[\log p(y \mid \theta)]$ less $\mathrm{KL}(q(x \mid \theta) \,\|\, p(x \mid \theta, y))$, and where
    that changes with θ, the maximum is not where the posterior is. The particle filter that looks ahead knows the likelihood
    without that: weights of draws, by q(θ) or a wider one, correct its mean and covariance, and the corrected q(θ)
    makes better draws.
    The first rounds, of tempered weights, only find the way; the others, two or more, count by what their draws are worth.

    Args:
        guide: a look-ahead guide with q(θ) settled.
        series: of at most some ten thousand steps.
        key: random key.
    """
    flow, labels = guide.theta_flow, guide.model.parameters.labels
    first, freedom = _moments(flow, key=key), max(FREEDOM, 0.5 * flow.size)
    good: list[tuple[float, np.ndarray, np.ndarray]] = []
    for k in range(ROUGH + FINE):
        own, fine = dataclasses.replace(guide, theta_flow=flow), k >= ROUGH
        options: Any = {"particles": PARTICLES * FINER, "freedom": freedom} if fine else {"particles": PARTICLES}
        found = evidence(own, series, error=np.inf, most=MOST, effective=WORTH, **options, key=jr.fold_in(key, k))
        weight, worth = (found.smoothed.weight, found.effective) if fine else _tempered(found.log_weight)
        if not np.isfinite(found.mean) or worth < FEWEST:
            break
        before = _moments(flow, key=key)
        here = worth, *_weighted(found.theta, weight, before[1], worth)
        good = [*good, here] if fine else good
        flow = _moved(flow, before, _pooled(good or [here]))
        off, wider = _change(before, _moments(flow, key=key))
        if len(good) > 1 and np.abs(off).max() < SLIGHT and np.abs(wider).max() < SLIGHTLY and worth >= WORTH / 4:
            break
    if not good:
        return Reweighed(guide.theta_flow, ("weighted draws of θ are too uneven to correct q(θ) by",))
    off, wider = _change(first, _moments(flow, key=key))
    mean, width = int(np.argmax(np.abs(off))), int(np.argmax(np.abs(wider)))
    said = (
        f"q(θ) was moved to weighted draws, worth {good[-1][0]:.0f} in the last of {len(good)} rounds: means by up to "
        f"{abs(off[mean]):.2f} sd ({labels[mean]}), widths by up to {np.expm1(abs(wider[width])):.0%} ({labels[width]})"
    )
    return Reweighed(flow, (said,))


def _tempered(log_weight: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights to the highest power up to one at which the draws are worth enough, adding up to one; what they are worth."""
    log_weight = np.where(np.isfinite(log_weight), log_weight, -np.inf)
    weight, worth = np.ones(len(log_weight)), 0.0
    for power in np.geomspace(1.0, 1e-3, 40):
        weight = np.exp(power * (log_weight - log_weight.max()))
        weight /= weight.sum()
        worth = float(1.0 / np.sum(weight**2))
        if worth >= TEMPERED:
            break
    return weight, worth


def _weighted(theta: np.ndarray, weight: np.ndarray, before: np.ndarray, worth: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance by weights that add up to one; few draws leave more of the covariance from before."""
    fine = np.isfinite(theta).all(axis=1)
    theta, weight = theta[fine], weight[fine] / weight[fine].sum()
    mean = weight @ theta
    apart = theta - mean
    covariance = (apart * weight[:, None]).T @ apart * worth / max(worth - 1.0, 1.0)
    share = worth / (worth + PRIOR_WORTH * theta.shape[1])
    return mean, share * covariance + (1.0 - share) * before


def _pooled(rounds: list[tuple[float, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of several rounds, by what the draws of each are worth."""
    worth, means, covariances = (np.asarray(column) for column in zip(*rounds, strict=True))
    share = worth / worth.sum()
    return share @ means, np.einsum("k,kij->ij", share, covariances)


def _moments(flow: ThetaFlow, *, key: PRNGKeyArray) -> tuple[np.ndarray, np.ndarray]:
    theta = np.asarray(_drawn(flow, jr.normal(key, (MOMENTS, flow.size))), np.float64)
    return theta.mean(axis=0), np.cov(theta.T).reshape(flow.size, -1)


def _moved(flow: ThetaFlow, before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> ThetaFlow:
    """The flow, then the lower triangular affine map that takes one mean and covariance to the other."""
    factor = np.linalg.cholesky(after[1]) @ np.linalg.inv(np.linalg.cholesky(before[1]))
    loc = after[0] + factor @ (np.asarray(flow.head.loc, np.float64) - before[0])
    matrix = np.tril(factor @ np.asarray(flow.head.matrix, np.float64))
    head = AffineHead(jnp.asarray(loc, jnp.float32), jnp.asarray(matrix, jnp.float32))
    return eqx.tree_at(lambda f: f.head, flow, head)


def _change(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """By how many sds means moved, and the logarithm of the factor that widths grew by."""
    was, now = (np.sqrt(np.diagonal(covariance)) for _, covariance in (before, after))
    return (after[0] - before[0]) / now, np.log(now / was)


@eqx.filter_jit
def _drawn(flow: ThetaFlow, e: Any) -> Any:
    return jax.vmap(lambda one: flow(one)[0])(e)
