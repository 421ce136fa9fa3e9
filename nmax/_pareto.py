"""Importance weights with smoothed tails, and k̂, which says whether they can be relied on (Vehtari et al., 2024)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

GOOD = 0.7  # k̂ above which weights are not to be relied on
EVEN = 0.95  # effective share above which weights are all but equal, and have no tail whose shape would matter


class Smoothed(NamedTuple):
    """Weights that add up to one.

    Attributes:
        weight: of each draw, the largest smoothed by a generalised Pareto distribution.
        khat: its shape: below 0.5 all is well, above 0.7 means and errors by these weights mean little.
        effective: number of equally weighted draws that would tell as much.
    """

    weight: Float[np.ndarray, "*batch draw"]
    khat: Float[np.ndarray, "*batch"]
    effective: Float[np.ndarray, "*batch"]


def smoothed(log_ratio: Float[np.ndarray, "*batch draw"]) -> Smoothed:
    """Pareto-smoothed importance weights along the last axis; a ratio that is not a number counts as zero."""
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, np.asarray(log_ratio, np.float64))
    top = np.max(log_ratio, axis=-1, keepdims=True)
    scaled = np.maximum(log_ratio - np.where(np.isfinite(top), top, 0.0), -80.0)  # e⁻⁸⁰ is nothing, and has a logarithm
    flat = scaled.reshape(-1, scaled.shape[-1])
    log_weight, khat = _psis()(jnp.asarray(flat, jnp.float32))
    weight = np.exp(np.asarray(log_weight, np.float64)).reshape(log_ratio.shape)
    weight /= weight.sum(axis=-1, keepdims=True)
    effective = 1.0 / np.sum(weight**2, axis=-1)
    khat = np.nan_to_num(np.asarray(khat, np.float64), nan=np.inf).reshape(log_ratio.shape[:-1])
    khat = np.where(effective > EVEN * log_ratio.shape[-1], np.minimum(khat, 0.0), khat)
    lost = ~np.isfinite(top[..., 0])  # no draw has a density at all
    return Smoothed(weight, np.where(lost, np.inf, khat), np.where(lost, 0.0, effective))


@functools.cache
def _psis() -> Any:
    from blackjax.diagnostics import psis_weights  # imported only here, since importing it opens a device

    return jax.jit(jax.vmap(psis_weights))


def weighted_moments(
    theta: Float[np.ndarray, "draw param"], weight: Float[np.ndarray, " draw"]
) -> tuple[Float[np.ndarray, " param"], Float[np.ndarray, " param"]]:
    """Mean and standard deviation by weights that add up to one."""
    mean = weight @ theta
    return mean, np.sqrt(weight @ (theta - mean) ** 2)
