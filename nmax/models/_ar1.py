"""The autoregressive model of the paper, Section 5.1."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from nmax.models._base import StateSpaceModel


def ar1(*, start: float = 10.0, observation_sd: float = 1.0) -> StateSpaceModel:
    r"""$x_{i+1} = \theta_1 + \theta_2 x_i + \theta_3 \epsilon_i$, seen as $y_i \sim N(x_i, 1)$.

    Parameters, in the paper's order: `intercept` $\theta_1$, `coefficient` $\theta_2$, `noise` $\theta_3$; priors
    $N(0, 10^2)$ on $\theta_1, \theta_2, \log\theta_3$.

    Args:
        start: the known state $x_0$.
        observation_sd: standard deviation of the observation error.
    """
    return StateSpaceModel(
        prior={
            "intercept": dist.Normal(0.0, 10.0),
            "coefficient": dist.Normal(0.0, 10.0),
            "noise": dist.LogNormal(0.0, 10.0),
        },
        initial=lambda theta: jnp.array([start]),
        transition=lambda x, theta: dist.Normal(theta["intercept"] + theta["coefficient"] * x, theta["noise"]).to_event(1),
        observation=lambda x, theta: dist.Normal(x, observation_sd).to_event(1),
    )
