"""Stochastic differential equations, made into a state space model by the Euler–Maruyama scheme."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions import constraints

from nmax._check import check_positive, with_named_options
from nmax._small import cholesky, pack, unpack
from nmax.models._base import AbstractModel
from nmax.models._priors import Theta


@with_named_options
@dataclasses.dataclass(frozen=True, eq=False)
class SDE(AbstractModel):
    r"""$x_{i+1} = x_i + \alpha(x_i, \theta)\,\Delta t + \sqrt{\beta(x_i, \theta)\,\Delta t}\;\epsilon_i$.

    With exogenous inputs `drift`, `diffusion` and `observation` take a third argument. For the step from $x_i$ to $x_{i+1}$
    that is row i + 1 of the inputs; if a force acts from row i on, pass the inputs shifted by a row.

    Attributes:
        prior: parameter name -> NumPyro distribution.
        initial: `initial(theta)`, the state at index 0, shape (d,).
        drift: $\alpha$, `drift(x, theta)` of shape (d,).
        diffusion: $\beta$, `diffusion(x, theta)`: a (d, d) covariance, or the (d,) variances of a diagonal one, not standard
            deviations. Each component needs some: one that is moved by the others alone has no density.
        dt: $\Delta t$, the time between two rows of `y`.
        observation: `observation(x, theta)`, the distribution of a row of `y`; see `StateSpaceModel`.
        support: where the state lives; see `StateSpaceModel`.
        exactly_observed: state component -> column of `y`; see `StateSpaceModel`.
        states: names of the state components; see `StateSpaceModel`.
    """

    prior: Any
    initial: Callable[[Theta], Array]
    drift: Callable[..., Array]
    diffusion: Callable[..., Array]
    dt: float
    observation: Callable[..., dist.Distribution] | None = None
    support: Any = dataclasses.field(default_factory=lambda: constraints.real)
    exactly_observed: Mapping[int, int] = dataclasses.field(default_factory=dict)
    states: tuple[str, ...] | None = None

    def __post_init__(self):
        check_positive("dt", self.dt)

    def transition(self, x: Array, theta: Theta, *inputs: Array) -> dist.Distribution:
        """One step of Euler and Maruyama."""
        drift = jnp.asarray(self.drift(x, theta, *inputs))
        covariance = jnp.asarray(self.diffusion(x, theta, *inputs)) * self.dt
        _check_shape("drift", drift, [x.shape])
        _check_shape("diffusion", covariance, [x.shape, (*x.shape, *x.shape)])
        mean = x + drift * self.dt
        if covariance.ndim == 1:
            return dist.Normal(mean, jnp.sqrt(covariance)).to_event(1)
        return dist.MultivariateNormal(mean, scale_tril=pack(cholesky(unpack(covariance))))


def _check_shape(name: str, array: Array, allowed: list[tuple[int, ...]]) -> None:
    if array.shape not in allowed:
        shapes = " or ".join(map(str, allowed))
        raise ValueError(f"`{name}(x, theta)` must have shape {shapes}, as the state has; got {array.shape}.")
