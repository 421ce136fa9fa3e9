"""Mean and covariance of one transition, in unconstrained coordinates, from whatever distribution a model returns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions.transforms import IdentityTransform

from nmax._small import (
    LARGEST,
    applied,
    inverse_cholesky,
    log_diagonal,
    pack,
    semidefinite_cholesky,
    times,
    transposed,
    unpack,
)
from nmax.models import AbstractModel, Theta

STEEPEST = 0.25  # a linearisation point may not have a slope below this share of the slope at the state before
ROOM = 2.0  # how far beyond its natural scale a constrained component may move in unconstrained units


def transition_moments(
    model: AbstractModel, u: Float[Array, " state"], theta: Theta, inputs: tuple[Array, ...]
) -> tuple[Float[Array, " state"], Float[Array, "state state"]]:
    r"""Mean $m$ and root $C$, lower triangular, of $p(x_{i+1} \mid x_i, \theta)$ as a Gaussian in unconstrained coordinates.

    Exact where the transition is normal and the support the real line. Another distribution counts by its mean and
    covariance (a normal pushed through transforms by its median and the transforms' slope there; one without moments by its
    location and scale), and a constrained component by the slope of its bijection at the mean or, should that lie outside
    the support or where the slope is much less, at the state before.
    """
    transforms = model.state_transforms
    x = jnp.stack([transform(u[k]) for k, transform in enumerate(transforms)])
    distribution = model.transition(x, theta, *inputs)
    base, forward = _underlying(distribution)
    if forward is not None:  # a normal pushed through transforms: its own coordinates lead into the support
        loc, scale = jnp.broadcast_to(base.loc, x.shape), jnp.broadcast_to(base.scale, x.shape)
        pushed = [
            jax.jvp(lambda n, k=k: transforms[k].inv(forward(n)), (loc[k],), (scale[k],)) for k in range(len(transforms))
        ]
        return jnp.stack([value for value, _ in pushed]), jnp.diag(jnp.stack([jnp.abs(slope) for _, slope in pushed]))
    mean, tril = _mean_and_root(distribution)
    if all(isinstance(transform, IdentityTransform) for transform in transforms):
        return mean, tril
    moved, stretch = [], []
    for k, transform in enumerate(transforms):
        value, factor = _through(transform, mean[k], u[k], jnp.sqrt(jnp.sum(tril[k] ** 2)))
        moved.append(value)
        stretch.append(factor)
    return jnp.stack(moved), jnp.stack(stretch)[:, None] * tril


def _underlying(distribution: dist.Distribution) -> tuple[Any, Any]:
    """The normal under independent transformed components, and the map from it."""
    base: Any = distribution.base_dist if isinstance(distribution, dist.Independent) else distribution
    if not isinstance(base, dist.TransformedDistribution) or not isinstance(base.base_dist, dist.Normal):
        return base, None
    if any(t.domain.event_dim or t.codomain.event_dim for t in base.transforms):
        return base, None

    def forward(n):
        for transform in base.transforms:
            n = transform(n)
        return n

    return base.base_dist, forward


def _mean_and_root(distribution: dist.Distribution) -> tuple[Any, Any]:
    base: Any = distribution.base_dist if isinstance(distribution, dist.Independent) else distribution
    whole: Any = distribution
    size = whole.event_shape[0]
    if isinstance(base, (dist.MultivariateNormal, dist.MultivariateStudentT)):
        return base.loc, base.scale_tril
    if isinstance(base, (dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic)):
        normal: Any = base
        scale = normal.scale * jnp.sqrt(2.0) if isinstance(base, dist.Laplace) else normal.scale
        return jnp.broadcast_to(normal.loc, (size,)), jnp.diag(jnp.broadcast_to(scale, (size,)))
    mean = jnp.broadcast_to(jnp.asarray(whole.mean), (size,))
    if hasattr(whole, "covariance_matrix"):
        return mean, pack(semidefinite_cholesky(unpack(whole.covariance_matrix)))
    return mean, jnp.diag(jnp.sqrt(jnp.broadcast_to(whole.variance, (size,))))


def _through(transform: Any, mean: Array, before: Array, sd: Array) -> tuple[Array, Array]:
    """A mean in unconstrained coordinates, and what its root is multiplied by."""
    if isinstance(transform, IdentityTransform):
        return mean, jnp.ones_like(mean)

    slope_before = _slope(transform, before)
    inside = transform.codomain(mean)
    u_mean = transform.inv(jnp.where(inside, mean, before))
    slope_mean = _slope(transform, u_mean)
    good = inside & jnp.isfinite(u_mean) & (slope_mean >= STEEPEST * slope_before)
    u, slope = jnp.where(good, u_mean, before), jnp.where(good, slope_mean, slope_before)
    rest = jnp.where(good, 0.0, mean - transform(before))
    factor = jnp.minimum(1.0 / slope, 1.0 + ROOM / sd)
    return u + jnp.sign(rest) * jnp.minimum(jnp.abs(rest) / slope, jnp.abs(rest) + ROOM), factor


def _slope(transform: Any, u: Array) -> Array:
    return jnp.exp(transform.log_abs_det_jacobian(u, transform(u)))


def conditioned(
    mean: Float[Array, " state"],
    tril: Float[Array, "state state"],
    known: Float[Array, " state"],
    value: Float[Array, " state"],
) -> tuple[Float[Array, " state"], Float[Array, "state state"], Float[Array, ""]]:
    """A Gaussian given the components marked by `known`: mean, covariance (zero for those), and log density of them."""
    n, k = len(mean), unpack(known)
    c = unpack(tril)
    covariance = times(c, transposed(c))
    if isinstance(k, list):
        block = [[k[i] * k[j] * covariance[i][j] + (1.0 - k[i] if i == j else 0.0) for j in range(n)] for i in range(n)]
    else:
        block = known[:, None] * known[None, :] * covariance + jnp.diag(1.0 - known)
    inverse = inverse_cholesky(block)
    whitened = applied(inverse, unpack(known * (value - mean)))
    seen = covariance * known[None, :] if n > LARGEST else [[entry * k[j] for j, entry in enumerate(r)] for r in covariance]
    cross = times(seen, transposed(inverse))  # Cov(all, known) L^{-T}
    shift, explained = pack(applied(cross, whitened)), pack(times(cross, transposed(cross)))
    unknown = 1.0 - known
    rest = (pack(covariance) - explained) * unknown[:, None] * unknown[None, :]
    return jnp.where(known > 0, value, mean + shift), rest, log_diagonal(inverse) - 0.5 * jnp.sum(pack(whitened) ** 2)
