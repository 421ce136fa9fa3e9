"""Pre-training of x towards a first guess from the data (supplements E and F)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._first_guess import compiled_guess, first_guess
from nmax.data import Series, Window, Windows
from nmax.guides import Guide
from nmax.models import log_prob_of_rows

RATE = 5e-3
SPREAD = 0.05  # of q around the guess, in units of the guess's own spread; without one, q would shrink to a point


def pretrain(
    guide: Guide,
    series: Series,
    windows: Windows,
    draws: int,
    steps: int,
    *,
    at: Mapping[str, Any] | None = None,
    key: PRNGKeyArray,
) -> Guide:
    r"""Move q(x | θ) near the first guess $\hat x$, or near the paths that the model makes at a given θ.

    Minimises $E_q[\log q(x \mid \theta) - \log N(x; \hat x, s^2)]$ window by window. The paper minimises
    $E_q|x - \hat x|$, which would also take the width of q to zero. q(θ) stays as it is: it is built at the centre of the
    prior, where the paper's pre-training of θ would take it.

    With θ* given (`at`, by name) it minimises $E_q[\log q(x \mid \theta) - \log p(x, y \mid \theta^*)]$ instead, and q(θ)
    starts at θ*: a choice among rival modes. Supplement G leaves y aside; without it the paths fit neither data nor
    dynamics when θ is let go, and training diverged.
    """
    if at is not None:
        guide = eqx.tree_at(lambda g: g.theta_flow.head.loc, guide, guide.model.parameters.unconstrain(at))
    if steps == 0:
        return guide
    if at is not None:  # from near the data: from anywhere else the states may die out, where densities have no bound
        guide = pretrain(guide, series, windows, draws, max(steps // 3, 1), key=jr.fold_in(key, 1))
    trainable = eqx.tree_at(lambda g: g.theta_flow, jax.tree.map(eqx.is_inexact_array, guide), False)
    params, frozen = eqx.partition(guide, trainable)
    rule: Any = optax.adam(optax.cosine_decay_schedule(RATE, steps, 0.1))
    theta = guide.model.parameters.constrain(guide.theta_flow.head.loc)  # where q(θ) starts
    spread = _spread(guide, series, theta)

    @eqx.filter_jit
    def run(params, series, key):
        def loss(params, key):
            window_key, theta_key, path_key = jr.split(key, 3)
            q = eqx.combine(params, frozen)
            left, right = q.reach
            drawn = windows.spread(jr.randint(window_key, (), 0, windows.length), draws)
            e = jr.normal(theta_key, (draws, q.theta_flow.size))
            z = jr.normal(path_key, (draws, windows.width + 1 + left + right, len(q.drawn)))
            if at is None:
                far = jax.vmap(lambda w, e, z: _distance(q, series, windows, w, e, z[1:], theta, spread))(drawn, e, z)
            else:
                far = jax.vmap(lambda w, e, z: _unlikeliness(q, series, windows, w, e, z, theta))(drawn, e, z)
            return jnp.mean(far)

        def body(carry, step_key):
            params, opt_state = carry
            gradient = jax.grad(loss)(params, step_key)
            finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]))
            gradient = jax.tree.map(lambda g: jnp.where(finite, g, 0.0), gradient)
            update, opt_state = rule.update(gradient, opt_state)
            return (eqx.apply_updates(params, update), opt_state), None

        (params, _), _ = jax.lax.scan(body, (params, rule.init(params)), jr.split(key, steps))
        return params

    return eqx.combine(run(params, series, key), frozen)


def _distance(
    guide: Guide, series: Series, windows: Windows, window: Window, e: Array, z: Array, start: dict, spread: Array
) -> Float[Array, ""]:
    """KL divergence, up to a constant and per step, from the window's path to a normal around the guess."""
    flat, _ = guide.theta(e)
    theta = guide.model.parameters.constrain(flat)
    x, log_q, *_ = guide.path(theta, e, z, series, window.start)
    index = window.start + jnp.arange(windows.width)
    guess = _constrained(guide, first_guess(guide.model, series, start, index))
    inside = index <= series.length
    square = jnp.sum(((x - guess) / spread[None])[:, np.array(guide.drawn)] ** 2, axis=1)
    off = jnp.where(inside, 0.5 * square + log_q, 0.0)
    return jnp.sum(off) / windows.width


def _unlikeliness(
    guide: Guide, series: Series, windows: Windows, window: Window, e: Array, z: Array, theta: dict
) -> Float[Array, ""]:
    """KL divergence, up to a constant and per step, from the window's path to its posterior at θ."""
    drawn = guide.model.parameters.constrain(guide.theta(e)[0])
    x, log_q, *_ = guide.path(drawn, e, z, series, window.start - 1)
    index = window.start + jnp.arange(windows.width)
    row = jnp.clip(index, 0, series.length)
    y, observed, inputs = series.values[row], series.observed[row], series.inputs[row]
    moved = log_prob_of_rows(guide.model.transition_log_prob, x[:-1], x[1:], inputs, theta=theta)
    seen = log_prob_of_rows(guide.model.observation_log_prob, x[1:], y, observed, inputs, theta=theta)
    return jnp.sum(jnp.where(index <= series.length, log_q[1:] - moved - seen, 0.0)) / windows.width


def _constrained(guide: Guide, guess: Array) -> Array:
    transforms = guide.model.state_transforms
    return jnp.stack([transform(guess[:, k]) for k, transform in enumerate(transforms)], axis=1)


def _spread(guide: Guide, series: Series, theta: dict) -> Float[Array, " state"]:
    rows = jnp.asarray(np.unique(np.linspace(0, series.length, 1_000).astype(np.int32)))
    guess = _constrained(guide, compiled_guess(guide.model, series, theta, rows))
    spread = jnp.std(guess, axis=0)
    return SPREAD * jnp.where(spread > 1e-3, spread, 1.0)
