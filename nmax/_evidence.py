r"""The log evidence of a model, by importance sampling of θ with a particle filter for the path."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._objective import start_term
from nmax._particles import filter_guide, filtered
from nmax.data import Series
from nmax.guides import Guide

LANES = 16  # draws of θ in one call
PARTICLES = 64


class Weighted(NamedTuple):
    """Draws of θ from q(θ), and what each weighs.

    Attributes:
        theta: unconstrained.
        log_weight: $\\log p(\\theta)\\, \\hat p(y \\mid \\theta) / q(\\theta)$, in nats.
        log_likelihood: $\\log \\hat p(y \\mid \\theta)$ alone.
    """

    theta: Float[np.ndarray, "draw param"]
    log_weight: Float[np.ndarray, " draw"]
    log_likelihood: Float[np.ndarray, " draw"]


def weigh(guide: Guide, series: Series, calls: int, *, particles: int = PARTICLES, key: PRNGKeyArray) -> Weighted:
    """`LANES` draws of θ a call, weighted."""
    own = filter_guide(guide, series)
    numbers = jnp.arange(-(-(series.length + 1) // own.block), dtype=jnp.int32)
    parts = []
    for k in range(calls):
        parts.append([np.asarray(a, np.float64) for a in _weigh(own, series, numbers, particles, jr.fold_in(key, k))])
    theta, rest, factors = (np.concatenate(part) for part in zip(*parts, strict=True))
    log_likelihood = factors.sum(axis=1)
    return Weighted(theta, rest[:, 0] - rest[:, 1] + rest[:, 2] + log_likelihood, rest[:, 2] + log_likelihood)


@eqx.filter_jit
def _weigh(guide, series: Series, numbers: Int[Array, " block"], particles: int, key: PRNGKeyArray):
    prior = guide.model.parameters

    def one(e, key):
        flat, log_q = guide.theta(e)
        result = filtered(guide, series, flat, numbers, particles, key=key)
        start = start_term(guide, series, prior.constrain(flat))
        return flat, jnp.stack([prior.log_prob(flat), log_q, start]), result.log_factors

    e_key, key = jr.split(key)
    e = jr.normal(e_key, (LANES, guide.theta_flow.size))
    return jax.vmap(one)(e, jr.split(key, LANES))
