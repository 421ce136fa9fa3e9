"""The predator–prey model of the paper, Section 5.2."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import constraints

from nmax.models._sde import SDE


def lotka_volterra(*, start: tuple[float, float] = (100.0, 100.0), dt: float = 0.1, observation_sd: float = 1.0) -> SDE:
    r"""Prey $u$ and predators $v$, with

    $$\alpha = \begin{pmatrix}\theta_1 u - \theta_2 uv\\ \theta_2 uv - \theta_3 v\end{pmatrix},\quad
    \beta = \begin{pmatrix}\theta_1 u + \theta_2 uv & -\theta_2 uv\\ -\theta_2 uv & \theta_2 uv + \theta_3 v\end{pmatrix},
    \quad y_i \sim N(x_i, I_2).$$

    Parameters, in the paper's order: `growth` $\theta_1$, `predation` $\theta_2$, `death` $\theta_3$; priors
    $N(0, 10^2)$ on their logarithms.

    Args:
        start: the known state at index 0.
        dt: time between two indices.
        observation_sd: standard deviation of the observation error.
    """  # noqa: D205

    def rates(x, theta):
        u, v = x
        return theta["growth"] * u, theta["predation"] * u * v, theta["death"] * v

    def drift(x, theta):
        born, eaten, died = rates(x, theta)
        return jnp.stack([born - eaten, eaten - died])

    def diffusion(x, theta):
        born, eaten, died = rates(x, theta)
        return jnp.stack([jnp.stack([born + eaten, -eaten]), jnp.stack([-eaten, eaten + died])])

    return SDE(
        prior={name: dist.LogNormal(0.0, 10.0) for name in ("growth", "predation", "death")},
        initial=lambda theta: jnp.array(start),
        drift=drift,
        diffusion=diffusion,
        dt=dt,
        observation=lambda x, theta: dist.Normal(x, observation_sd).to_event(1),
        support=constraints.positive,
    )
