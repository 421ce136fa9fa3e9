"""The reference path: iterated smoothing, damped, from a first guess."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from nmax.lookahead._dynamics import Dynamics, Linear, Reference, Rows, linearised
from nmax.lookahead._information import look_ahead, marginals

START_SPREAD = 0.1  # sd of the reference before the first iteration, in units of the state's spread


def smoothed(
    dynamics: Dynamics,
    guess: Float[Array, "time drawn"],
    spread: Float[Array, " drawn"],
    rows: Rows,
    first: tuple[Array, Array],
    damping: tuple[float, ...],
) -> Reference:
    r"""Gaussians near the posterior of each step, at one θ.

    Each iteration makes the model linear around the last one's Gaussians and smooths it exactly, as an iterated
    (posterior linearisation) smoother does. While it is far off, a pull $\lambda / s^2$ towards the last path keeps it
    from leaping (Levenberg and Marquardt); `damping` lists λ for each iteration. An iteration that comes to anything but
    finite numbers changes nothing.

    Args:
        dynamics: the model at a θ.
        guess: the path to begin with.
        spread: s, the scale on which the components vary.
        rows: the data of the path's steps and of one more.
        first: mean and root of the state at the first step before any data are seen.
        damping: λ for each iteration; the last should be 0.
    """
    n = guess.shape[1]
    start = Reference(guess, jnp.broadcast_to(START_SPREAD * jnp.diag(spread), (*guess.shape, n)))

    def improve(old: Reference, pull):
        linear = linearised(dynamics, old, rows, first)
        damped = Linear(
            linear.slope,
            linear.defect,
            linear.root,
            linear.precision + (pull * jnp.diag(spread**-2))[None],
            linear.gradient,
        )
        mean, root = marginals(damped, look_ahead(damped))
        new = Reference(old.mean + mean, root)
        finite = jnp.all(jnp.isfinite(new.mean)) & jnp.all(jnp.isfinite(new.root))
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old), None

    return jax.lax.scan(improve, start, jnp.array(damping))[0]
