"""The prior's log density and its derivatives, compiled once a prior."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from nmax.models import Prior


@functools.partial(jax.jit, static_argnums=0)
def _log_prob(prior: Prior, points: Array) -> Array:
    return jax.vmap(prior.log_prob)(points)


@functools.partial(jax.jit, static_argnums=0)
def _gradient(prior: Prior, points: Array) -> Array:
    return jax.vmap(jax.grad(prior.log_prob))(points)


@functools.partial(jax.jit, static_argnums=0)
def _hessian(prior: Prior, theta: Array) -> Array:
    return jax.hessian(prior.log_prob)(theta)


class PriorDensity:
    """The prior's log density and its derivatives as compiled functions of NumPy arrays."""

    def __init__(self, prior: Prior):
        self.size, self._prior = prior.size, prior

    def log_prob(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(_log_prob(self._prior, jnp.asarray(points, jnp.float32)), np.float64)

    def gradient(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(_gradient(self._prior, jnp.asarray(points, jnp.float32)), np.float64)

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        return -np.asarray(_hessian(self._prior, jnp.asarray(theta, jnp.float32)), np.float64)
