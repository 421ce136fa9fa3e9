"""Where a distribution of one row lies, and how wide it is, component by component."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

LOCATION_AND_SCALE = (dist.Normal, dist.StudentT, dist.Cauchy, dist.Laplace, dist.Logistic, dist.Gumbel)


def mean_and_sd(distribution: dist.Distribution) -> tuple[Float[Array, " event"], Float[Array, " event"]]:
    """Mean and standard deviation; location and scale of a distribution that may have no moments."""
    base: Any = distribution.base_dist if isinstance(distribution, dist.Independent) else distribution
    shape = distribution.event_shape
    if isinstance(base, dist.MultivariateStudentT):
        mean, sd = base.loc, jnp.sqrt(jnp.sum(jnp.asarray(base.scale_tril) ** 2, axis=-1))
    elif isinstance(base, LOCATION_AND_SCALE):
        mean, sd = base.loc, base.scale
    else:
        mean, sd = base.mean, jnp.sqrt(base.variance)
    return jnp.broadcast_to(jnp.asarray(mean, jnp.float32), shape), jnp.broadcast_to(jnp.asarray(sd, jnp.float32), shape)
