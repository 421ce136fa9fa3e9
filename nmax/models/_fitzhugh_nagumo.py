"""The neuron model of the paper, Section 5.3."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from nmax.models._sde import SDE


def fitzhugh_nagumo(*, start: tuple[float, float] = (2.0, 3.0), dt: float = 0.1, observation_sd: float = 0.1) -> SDE:
    r"""Membrane potential $v$, observed with error, and recovery $w$, never observed:

    $$\alpha = \begin{pmatrix}\theta_1(-v^3 + v - w + \theta_2)\\ \theta_3 v - w + 1.4\end{pmatrix},\quad
    \beta = \operatorname{diag}(\theta_4, \theta_5),\quad y_i \sim N(v_i, 0.1^2).$$

    Parameters, in the paper's order: `rate` $\theta_1$, `current` $\theta_2$, `recovery` $\theta_3$, `noise_v`
    $\theta_4$, `noise_w` $\theta_5$; priors $N(0, 10^2)$ on $\log\theta_1, \theta_2, \theta_3, \log\theta_4, \log\theta_5$.

    Args:
        start: the known state at index 0.
        dt: time between two indices.
        observation_sd: standard deviation of the observation error.
    """  # noqa: D205

    def drift(x, theta):
        v, w = x
        return jnp.stack([theta["rate"] * (-(v**3) + v - w + theta["current"]), theta["recovery"] * v - w + 1.4])

    return SDE(
        prior={
            "rate": dist.LogNormal(0.0, 10.0),
            "current": dist.Normal(0.0, 10.0),
            "recovery": dist.Normal(0.0, 10.0),
            "noise_v": dist.LogNormal(0.0, 10.0),
            "noise_w": dist.LogNormal(0.0, 10.0),
        },
        initial=lambda theta: jnp.array(start),
        drift=drift,
        diffusion=lambda x, theta: jnp.stack([theta["noise_v"], theta["noise_w"]]),
        dt=dt,
        observation=lambda x, theta: dist.Normal(x[:1], observation_sd).to_event(1),
    )
