"""The reference path: iterated smoothing, damped, from a first guess."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from nmax.lookahead._dynamics import Dynamics, Linear, Reference, Rows, linearised
from nmax.lookahead._information import look_ahead, marginals

START_SPREAD = 0.1  # sd of the reference before the first iteration, in units of the state's spread
FIRST_PULL, WEAKEST = 0.3, 0.05  # λ at first; it falls tenfold an iteration, and below the other counts as none
SETTLED = 0.1  # change of a mean, in standard deviations, that counts as none


def around(guess: Float[Array, "time drawn"], spread: Float[Array, " drawn"]) -> Reference:
    """Gaussians around a first guess of the path, narrow against the scale on which the components vary."""
    return Reference(guess, jnp.broadcast_to(START_SPREAD * jnp.diag(spread), (*guess.shape, len(spread))))


def smoothed(
    dynamics: Dynamics,
    start: Reference,
    spread: Float[Array, " drawn"],
    rows: Rows,
    first: tuple[Array, Array],
    most: Int[Array, ""],
    pull: float | Float[Array, ""] = FIRST_PULL,
) -> Reference:
    r"""Gaussians near the posterior of each step, at one θ.

    Each iteration makes the model linear around the last one's Gaussians and smooths it exactly, as an iterated
    (posterior linearisation) smoother does. While it is far off, a pull $\lambda / s^2$ towards the last path keeps it
    from leaping (Levenberg and Marquardt). It ends when no mean moves by more than a tenth of its standard deviation, or
    after `most` iterations. An iteration that comes to anything but finite numbers changes nothing, and the pull is
    stronger in the next.

    Args:
        dynamics: the model at a θ, through which no gradient may flow.
        start: the Gaussians to begin with.
        spread: s, the scale on which the components vary.
        rows: the data of the path's steps and of one more.
        first: mean and root of the state at the first step before any data are seen.
        most: iterations at the most.
        pull: λ of the first iteration; none is needed from a start near the end.
    """

    def improve(carry):
        old, count, pull, _ = carry
        linear = linearised(dynamics, old, rows, first)
        weight = jnp.where(pull < WEAKEST, 0.0, pull)
        damped = Linear(
            linear.slope,
            linear.defect,
            linear.root,
            linear.precision + (weight * jnp.diag(spread**-2))[None],
            linear.gradient,
        )
        mean, root = marginals(damped, look_ahead(damped))
        finite = jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.isfinite(root))
        new = Reference(jnp.where(finite, old.mean + mean, old.mean), jnp.where(finite, root, old.root))
        width = jnp.sqrt(jnp.sum(new.root**2, axis=-1))
        moved = jnp.max(jnp.where(width > 0, jnp.abs(mean) / jnp.where(width > 0, width, 1.0), 0.0))
        settled = finite & (weight == 0.0) & (moved < SETTLED)
        return new, count + 1, jnp.where(finite, 0.1 * pull, 10.0 * pull), settled

    def going_on(carry):
        _, count, _, settled = carry
        return (count < most) & ~settled

    return jax.lax.while_loop(going_on, improve, (start, jnp.int32(0), jnp.float32(pull), jnp.array(False)))[0]
