"""The density of the observed part of a row of `y`."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float


def masked_log_prob(
    distribution: dist.Distribution, y: Float[Array, " obs"], observed: Bool[Array, " obs"]
) -> Float[Array, ""]:
    """Log density of the entries of `y` that were observed, the others integrated out.

    Exact for independent components (`.to_event(1)`), the multivariate normal and the multivariate Student t, whose
    marginals are known. For any other distribution a row counts in full or, if any entry is missing, not at all;
    `separable` says which is the case, and rows with gaps are refused before a fit for those that are not.
    """
    base = _components(distribution)
    if base is not None:
        return jnp.sum(jnp.where(observed, base.log_prob(y), 0.0))
    if isinstance(distribution, (dist.MultivariateNormal, dist.LowRankMultivariateNormal, dist.MultivariateStudentT)):
        return _elliptical_log_prob(distribution, y, observed)
    return jnp.where(jnp.all(observed), distribution.log_prob(y), 0.0)


def separable(distribution: dist.Distribution) -> bool:
    """Whether the density of some components alone can be had."""
    known = (dist.MultivariateNormal, dist.LowRankMultivariateNormal, dist.MultivariateStudentT)
    return _components(distribution) is not None or isinstance(distribution, known)


def _components(distribution: dist.Distribution) -> dist.Distribution | None:
    """The distribution whose batch axis runs over independent components, if it is of that kind."""
    if isinstance(distribution, dist.Independent):
        base = distribution.base_dist
        if distribution.reinterpreted_batch_ndims == 1 and not base.event_shape:
            return base
    return None


def _elliptical_log_prob(distribution: Any, y: Array, observed: Array) -> Float[Array, ""]:
    """Marginal of a normal or Student t: rows and columns of what is missing become those of the identity."""
    loc: Any = distribution.loc
    student = isinstance(distribution, dist.MultivariateStudentT)
    spread = _square(distribution.scale_tril) if student else distribution.covariance_matrix
    both = observed[:, None] & observed[None, :]
    spread = jnp.where(both, spread, jnp.eye(len(y)))
    tril = jnp.linalg.cholesky(spread)
    residual = jnp.where(observed, y - loc, 0.0)
    whitened = jnp.linalg.solve(tril, residual)  # d_y is small
    square, log_det = jnp.sum(whitened**2), jnp.sum(jnp.log(jnp.diagonal(tril)))
    n = jnp.sum(observed).astype(y.dtype)
    if not student:
        return -0.5 * square - log_det - 0.5 * n * math.log(2 * math.pi)
    df: Any = distribution.df
    normaliser = gammaln(0.5 * (df + n)) - gammaln(0.5 * df) - 0.5 * n * jnp.log(df * math.pi)
    return normaliser - log_det - 0.5 * (df + n) * jnp.log1p(square / df)


def _square(root: Any) -> Any:
    return root @ root.T
