r"""A particle filter that looks ahead: an unbiased estimate of $p(y_{1:T} \mid \theta)$, and one-step-ahead forecasts."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nmax._small import unpack
from nmax.data import Series
from nmax.flows import Chain
from nmax.guides import LookaheadGuide, LookaheadSampler
from nmax.lookahead import Dynamics, Rows, draw_step, linearised, look_ahead, rows_of
from nmax.models import in_support, next_state, observe

LOG_2PI = 1.8378770664093453
SHARE = 0.5  # effective share of the particles below which they are resampled
QUANTILES = (0.05, 0.5, 0.95)  # of forecasts
LEAST_BUFFER = 16  # of a filter's blocks, whatever the guide's own is


class Ready(NamedTuple):
    """What the filter needs to know of a step: its rows, where it is drawn around, and what is to come."""

    before: Rows
    row: Rows
    centre: Float[Array, " drawn"]
    precision: Float[Array, "drawn drawn"]
    gradient: Float[Array, " drawn"]
    later_precision: Float[Array, "drawn drawn"]
    later_gradient: Float[Array, " drawn"]
    live: Bool[Array, " drawn"]
    z: Float[Array, "particle drawn"]
    key: PRNGKeyArray


class Cloud(NamedTuple):
    """Particles between two steps.

    Attributes:
        u: drawn components, unconstrained.
        x: states.
        ahead: $D$, the look-ahead's idea of what the data still to come say of each.
        log_weight: normalised.
        free: states that have not seen what comes, for forecasts.
    """

    u: Float[Array, "particle drawn"]
    x: Float[Array, "particle state"]
    ahead: Float[Array, " particle"]
    log_weight: Float[Array, " particle"]
    free: Float[Array, "particle state"]


class Filtered(NamedTuple):
    r"""What a pass comes to.

    Attributes:
        log_factors: logarithm of the estimate of $p(y \mid \theta)$, as one summand a block: they are to be added up in
            double precision.
        pit: for every step and column, the share of forecasts below what was observed; NaN where nothing was, or where no
            forecasts were asked for.
        forecast: 5 %, 50 % and 95 % points of the forecasts there; NaN where none were asked for.
    """

    log_factors: Float[Array, " block"]
    pit: Float[Array, "block time obs"]
    forecast: Float[Array, "block time 3 obs"]


def filter_guide(guide: Any, series: Series) -> LookaheadSampler:
    """A look-ahead for the filter: that of the guide itself without neural layers, or a new one at the centre of its q(θ).

    All θ share the reference path of the centre of q(θ), which is found block by block.
    """
    if not isinstance(guide, LookaheadSampler):
        centre, _ = guide.theta(jnp.zeros(guide.theta_flow.size))
        built = LookaheadGuide(layers=0, theta_layers=0).build(guide.model, series, key=jr.key(0), theta=centre)
        guide = eqx.tree_at(lambda g: g.theta_flow, built, guide.theta_flow, is_leaf=lambda leaf: leaf is None)
    block, buffer = guide.block, guide.buffer
    if block <= series.length and buffer < LEAST_BUFFER:
        block, buffer = max(block, 4 * LEAST_BUFFER), LEAST_BUFFER
    return dataclasses.replace(
        guide,
        layers=Chain(()),
        encoder=None,
        own=False,
        known=None,
        warm=jnp.array(False),
        frozen=False,
        block=block,
        buffer=buffer,
    )


def filtered(
    guide: LookaheadSampler,
    series: Series,
    flat: Float[Array, " param"],
    numbers: Int[Array, " block"],
    particles: int,
    *,
    forecasts: bool = False,
    key: PRNGKeyArray,
) -> Filtered:
    r"""Filter the blocks `numbers`, one after the other, at one θ given in unconstrained coordinates.

    Particles move by the model's own transition tilted by what is to come, $q(x_i \mid x_{i-1})$, and are weighted by

    $$\frac{p(x_i \mid x_{i-1})\, p(y_i \mid x_i)}{q(x_i \mid x_{i-1})}\, e^{D_i - D_{i-1}},$$

    with $D_i$ the look-ahead's idea of $\log p(y_{i+1:} \mid x_i)$, zero at 0 and T. The product of the mean weights is an
    unbiased estimate of $p(y_{1:T} \mid \theta)$, whatever the look-ahead, and exact for a linear Gaussian model.

    Forecasts come from particles that are drawn again whenever something was observed, by $w_i e^{-D_i}$, from those of
    the filter, and move by the bare transition until the next observation: those know nothing of what comes.
    """
    theta = guide.model.parameters.constrain(flat)
    dynamics = Dynamics(theta, guide.model, guide.drawn)

    def one_block(cloud, step):
        number, block_key = step
        ready = _prepared(guide, series, dynamics, number, particles, block_key)
        return jax.lax.scan(lambda c, r: _moved(dynamics, series, c, r, forecasts), cloud, ready)

    start_key, key = jr.split(key)
    cloud = _begun(guide, series, dynamics, numbers[0], particles, start_key)
    _, (factors, pit, points) = jax.lax.scan(one_block, cloud, (numbers, jr.split(key, len(numbers))))
    return Filtered(jnp.sum(factors, axis=1), pit, points)


def _begun(guide: LookaheadSampler, series: Series, dynamics: Dynamics, number: Any, particles: int, key: Any) -> Cloud:
    """Particles one step before a block: at the model's start, or drawn from the reference."""
    rows, reference = guide.reference(dynamics.theta, series, number)
    at = max(guide.buffer - 1, 0)
    inside = rows.index[at] > 0
    row = jax.tree.map(lambda a: a[at], rows)
    drawn = jr.normal(key, (particles, len(guide.drawn))) @ reference.root[at].T + reference.mean[at][None]
    u = jnp.where(inside, drawn, dynamics.start[None])
    x = jax.vmap(lambda one: dynamics.state(one, row))(u)
    x = jnp.where(inside, x, guide.start(dynamics.theta, series)[None])
    return Cloud(u, x, jnp.zeros(particles), jnp.full(particles, -jnp.log(particles)), x)


def _prepared(guide: LookaheadSampler, series: Series, dynamics: Dynamics, number: Any, particles: int, key: Any) -> Ready:
    """All steps of a block."""
    block, buffer = guide.block, guide.buffer
    rows, reference = guide.reference(dynamics.theta, series, number)
    ahead = look_ahead(linearised(dynamics, reference, rows, guide.first(dynamics, rows.index[0])))
    centre, ahead = jax.tree.map(lambda a: a[buffer : buffer + block], (reference.mean, ahead))
    index = number * block - 1 + jnp.arange(block + 1, dtype=jnp.int32)
    both = rows_of(guide.model, series, index)
    before, here = jax.tree.map(lambda a: a[:-1], both), jax.tree.map(lambda a: a[1:], both)
    z_key, step_key = jr.split(key)
    z = jr.normal(z_key, (block, particles, len(guide.drawn)))
    parts = ahead.precision, ahead.gradient, ahead.later_precision, ahead.later_gradient
    return Ready(before, here, centre, *parts, guide.live(series, index[1:]), z, jr.split(step_key, block))


def _moved(
    dynamics: Dynamics, series: Series, cloud: Cloud, ready: Ready, forecasts: bool
) -> tuple[Cloud, tuple[Array, Array, Array]]:
    """All particles one step on; the log of their mean weight, where the observation lies among forecasts, and those."""
    model, theta, row = dynamics.model, dynamics.theta, ready.row
    inside = row.inside

    def one(u, x, ahead, z):
        summary = unpack(ready.precision), unpack(ready.gradient), unpack(ready.centre), unpack(z)
        moved, log_det = draw_step(dynamics, unpack(u), ready.before, row, *summary)
        moved = jnp.stack(moved) if isinstance(moved, list) else moved
        delta = moved - ready.centre
        later = ready.later_gradient @ delta - 0.5 * delta @ ready.later_precision @ delta
        later = jnp.where(inside & (row.index < row.length), later, 0.0)
        after = jnp.where(inside, dynamics.state(moved, row), x)
        gain = model.transition_log_prob(x, after, theta, row.inputs)
        gain += model.observation_log_prob(after, row.y, row.observed, theta, row.inputs)
        gain -= _log_q(dynamics, moved, ready.live, z, log_det)
        return moved, after, later, jnp.where(inside, gain + later - ahead, 0.0)

    u, x, ahead, gain = jax.vmap(one)(cloud.u, cloud.x, cloud.ahead, ready.z)
    log_weight = cloud.log_weight + jnp.where(jnp.isnan(gain), -jnp.inf, gain)
    factor = jax.nn.logsumexp(log_weight)
    log_weight = log_weight - jnp.where(jnp.isfinite(factor), factor, 0.0)
    choose_key, forecast_key, again_key = jr.split(ready.key, 3)
    free, pit, points = cloud.free, jnp.full(series.columns, jnp.nan), jnp.full((3, series.columns), jnp.nan)
    if forecasts:
        free, pit, points = _forecast(dynamics, cloud.free, row, forecast_key)
        seen = jnp.any(row.observed) & inside
        again = _chosen(again_key, log_weight - ahead)
        free = jnp.where(seen, x[again], free)
    poor = 1.0 / jnp.sum(jnp.exp(2.0 * log_weight)) < SHARE * len(log_weight)
    chosen = jnp.where(poor, _chosen(choose_key, log_weight), jnp.arange(len(log_weight)))
    even = jnp.full_like(log_weight, -jnp.log(len(log_weight)))
    cloud = Cloud(u[chosen], x[chosen], ahead[chosen], jnp.where(poor, even, log_weight), free)
    return cloud, (factor, pit, points)


def _log_q(dynamics: Dynamics, u: Array, live: Array, z: Array, log_det: Array) -> Float[Array, ""]:
    """Log density of one drawn step, on the model's own scale."""
    transforms = [dynamics.model.state_transforms[k] for k in dynamics.drawn]
    slopes = jnp.stack([transform.log_abs_det_jacobian(u[k], transform(u[k])) for k, transform in enumerate(transforms)])
    return jnp.sum(jnp.where(live, -0.5 * z**2 - 0.5 * LOG_2PI - slopes, 0.0)) - log_det


def _chosen(key: PRNGKeyArray, log_weight: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """Systematic resampling."""
    from blackjax.smc.resampling import systematic  # imported only here, since importing it opens a device

    weight = jax.nn.softmax(jnp.where(jnp.isfinite(log_weight), log_weight, -jnp.inf))
    weight = jnp.where(jnp.isfinite(weight), weight, 1.0 / len(weight))
    return systematic(key, weight, len(weight))


def _forecast(dynamics: Dynamics, free: Array, row: Rows, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
    """Free particles one step on, the share of what they forecast that lies below what was observed, and quantiles of it."""
    model, theta = dynamics.model, dynamics.theta

    def one(x, own):
        move_key, see_key = jr.split(own)
        after = jnp.where(row.inside, next_state(model, x, theta, row.inputs, move_key), x)
        after = jnp.where(in_support(model, after), after, jnp.nan)  # the model is one of paths that stay in the support
        return after, observe(model, after, theta, row.inputs, see_key, len(row.y))

    own_key, tie_key = jr.split(key)
    after, forecast = jax.vmap(one)(free, jr.split(own_key, len(free)))
    below, equal = jnp.sum(forecast < row.y[None], axis=0), jnp.sum(forecast == row.y[None], axis=0)
    alive = jnp.sum(jnp.isfinite(forecast), axis=0)
    pit = (below + jr.uniform(tie_key, below.shape) * (equal + 1)) / (alive + 1)
    usual = 2 * alive > len(free)
    points = jnp.nanquantile(forecast, jnp.array(QUANTILES), axis=0)
    pit = jnp.where(row.observed & row.inside, jnp.where(usual, pit, jnp.inf), jnp.nan)
    return after, pit, jnp.where(usual[None], points, jnp.nan)
