r"""The log evidence of a model, by importance sampling of θ with a particle filter for the path."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._objective import start_term
from nmax._pareto import GOOD, Smoothed, smoothed
from nmax._particles import filter_guide, filtered
from nmax.data import LongSeries, ManySeries, Series
from nmax.guides import Guide, LookaheadSampler

LANES = 16  # draws of θ in one call
TOGETHER = 8  # series in one call, where there are several
LONGEST = 1_000_000  # rows of a series on disk that are read into memory, to be passed over for every draw of θ
PARTICLES = 64
LEAST_CALLS = 16


@dataclasses.dataclass(frozen=True)
class Evidence:
    r"""$\log p(y)$ of a model with its error, from draws of θ by q(θ) and their weights.

    Attributes:
        mean: the log evidence in nats, $y_0$ included.
        standard_error: its Monte Carlo error.
        khat: of the weights; above 0.7 neither the evidence nor its error is to be relied on.
        effective: number of draws of θ that the weighted ones are worth.
        theta: the draws, unconstrained.
        log_weight: $\log p(\theta)\, \hat p(y \mid \theta) / q(\theta)$ of each, in nats.
        seconds: wall clock.
    """

    mean: float
    standard_error: float
    khat: float
    effective: float
    theta: Float[np.ndarray, "draw param"]
    log_weight: Float[np.ndarray, " draw"]
    seconds: float

    @property
    def reliable(self) -> bool:
        """Whether the weights are good enough for their own error to mean something."""
        return bool(np.isfinite(self.mean) and self.khat <= GOOD)

    @property
    def smoothed(self) -> Smoothed:
        """The weights, their tail smoothed."""
        return smoothed(self.log_weight)

    def __str__(self) -> str:
        text = (
            f"log evidence {self.mean:,.3f} ± {self.standard_error:.3f} nats from {len(self.theta)} draws of θ, worth "
            f"{self.effective:.0f}; k̂ {self.khat:.2f}; {self.seconds:.1f} s"
        )
        return text if self.reliable else f"{text}. Not to be relied on: k̂ must be at most {GOOD}; q(θ) misses mass."

    __repr__ = __str__


def evidence(
    guide: Guide,
    series: Series | LongSeries | ManySeries,
    *,
    error: float,
    most: int,
    effective: float = 0.0,
    particles: int = PARTICLES,
    freedom: float | None = None,
    key: PRNGKeyArray,
) -> Evidence:
    r"""Draw θ by q(θ) and weigh it until the standard error is at most `error`, or `most` draws are there.

    Nor are there fewer draws than are worth `effective` equally weighted ones.

    $\hat Z = \frac1K \sum_k p(\theta_k)\, \hat p(y \mid \theta_k) / q(\theta_k)$ is unbiased since $\hat p$, by a particle
    filter, is. Of several series it is $\prod_k \hat p(y^k \mid \theta)$.

    With `freedom` each coordinate of θ's base noise is Student's t of so many degrees of freedom, so that tails which q(θ)
    misses are seen, too; weights are then to that wider distribution.
    """
    begun = time.perf_counter()
    rows = _in_memory(series)
    own = filter_guide(guide, rows)
    numbers = jnp.arange(-(-(rows.length + 1) // own.block), dtype=jnp.int32)
    weigh: Any = _weigh_many if isinstance(rows, ManySeries) else _weigh
    thetas, weights = [], []
    estimate = np.nan, np.inf
    for call in range(max(-(-most // LANES), 1)):
        drawn = weigh(own, rows, numbers, particles, freedom, jr.fold_in(key, call))
        theta, rest, factors = (np.asarray(a, np.float64) for a in drawn)
        thetas.append(theta)
        weights.append(rest + factors.sum(axis=1))
        estimate = log_mean_exp(np.concatenate(weights))
        draws = (call + 1) * LANES
        worth = draws / (1.0 + draws * estimate[1] ** 2)  # by the weights' own spread
        if call + 1 >= LEAST_CALLS and estimate[1] <= error and worth >= effective:
            break
    log_weight = np.concatenate(weights)
    fine = smoothed(log_weight)
    seconds = time.perf_counter() - begun
    figures = float(fine.khat), float(fine.effective)
    return Evidence(*estimate, *figures, np.concatenate(thetas), log_weight, seconds)


def _in_memory(series: Any) -> Any:
    """One series with all its rows; several, whose rows are read some series at a time, as they are."""
    on_disk = [one.rows for one in getattr(series, "members", (series,)) if isinstance(one, LongSeries)]
    if on_disk and max(on_disk) > LONGEST:
        raise ValueError(
            f"The evidence of a series on disk needs all its rows in memory, so it must have at most {LONGEST:,}; got one "
            f"of {max(on_disk):,}. `fit.elbo(key=...)` is a lower bound that needs some rows alone, and `nmax.compare(fits, "
            'by="elbo", key=...)` compares by it.'
        )
    return series.view(0, series.rows) if isinstance(series, LongSeries) else series


def log_mean_exp(log_weight: Float[np.ndarray, " draw"]) -> tuple[float, float]:
    """Logarithm of the mean, and its standard error; a weight that is not a number counts as zero."""
    log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
    top = np.max(log_weight)
    if not np.isfinite(top):
        return -np.inf, np.inf
    weight = np.exp(log_weight - top)
    return float(top + np.log(weight.mean())), float(weight.std(ddof=1) / weight.mean() / np.sqrt(len(weight)))


@eqx.filter_jit
def _weigh(
    guide: LookaheadSampler,
    series: Series,
    numbers: Int[Array, " block"],
    particles: int,
    freedom: float | None,
    key: PRNGKeyArray,
) -> tuple[Array, Array, Array]:
    """Draws of θ, what they weigh beside the likelihood, and the likelihood in summands."""
    e_key, key = jr.split(key)
    theta, rest = _proposed(guide, freedom, e_key)

    def one(flat, key):
        result = filtered(guide, series, flat, numbers, particles, key=key)
        return start_term(guide, series, guide.model.parameters.constrain(flat)), result.log_factors

    start, factors = jax.vmap(one)(theta, jr.split(key, LANES))
    return theta, rest + start, factors


def _weigh_many(
    guide: LookaheadSampler,
    series: ManySeries,
    numbers: Int[Array, " block"],
    particles: int,
    freedom: float | None,
    key: PRNGKeyArray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for several series, some of them at a time: the likelihoods at each θ are multiplied."""
    e_key, key = jr.split(key)
    theta, rest = _proposed(guide, freedom, e_key)
    found = []
    for first in range(0, len(series.lengths), TOGETHER):
        which = np.arange(first, min(first + TOGETHER, len(series.lengths)))
        padded = np.pad(which, (0, TOGETHER - len(which)), mode="edge")
        rows = series.views(np.zeros(TOGETHER), series.length + 1, padded)
        keys = jax.vmap(lambda k: jr.fold_in(key, k))(jnp.asarray(padded))
        factors = np.asarray(_likelihoods(guide, rows, numbers, particles, theta, keys), np.float64)
        found.append(factors[: len(which)].sum(axis=2))
    return np.asarray(theta), np.asarray(rest), np.concatenate(found).T


@eqx.filter_jit
def _proposed(guide: LookaheadSampler, freedom: float | None, key: PRNGKeyArray) -> tuple[Array, Array]:
    """Draws of θ, and what they weigh beside the likelihood."""
    shape = LANES, guide.theta_flow.size
    if freedom is None:
        e, wider = jr.normal(key, shape), jnp.zeros(LANES)
    else:
        e = jr.t(key, freedom, shape)
        wider = jnp.sum(jax.scipy.stats.t.logpdf(e, freedom) - jax.scipy.stats.norm.logpdf(e), axis=1)
    flat, log_q = jax.vmap(guide.theta)(e)
    return flat, jax.vmap(guide.model.parameters.log_prob)(flat) - log_q - wider


@eqx.filter_jit
def _likelihoods(
    guide: LookaheadSampler, rows: Series, numbers: Array, particles: int, theta: Array, keys: PRNGKeyArray
) -> Float[Array, "series draw factor"]:
    """The likelihood of each series at each θ in summands, that of its first row the last of them."""

    def one(series, flat, key):
        result = filtered(guide, series, flat, numbers, particles, key=key)
        first = start_term(guide, series, guide.model.parameters.constrain(flat))
        return jnp.concatenate([result.log_factors, first[None]])

    def of_series(series, key):
        return jax.vmap(lambda flat, k: one(series, flat, k))(theta, jr.split(key, len(theta)))

    return jax.vmap(of_series)(rows, keys)
