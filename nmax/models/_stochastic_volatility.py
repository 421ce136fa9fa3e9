"""The log-Gaussian stochastic volatility model of the paper, Section 5.4."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from nmax.models._sde import SDE


def stochastic_volatility(*, start: float = 1.0, dt: float = 1.0, elasticity: float = 1.0) -> SDE:
    r"""An interest rate $r$, observed without error, and its log volatility $z$, never observed:

    $$\alpha = \begin{pmatrix}\theta_1 r\\ \theta_2 - \theta_3 z\end{pmatrix},\quad
    \beta = \operatorname{diag}(r^\gamma e^{z}, \theta_4^2).$$

    Parameters, in the paper's order: `trend` $\theta_1$, `level` $\theta_2$, `reversion` $\theta_3$, `volatility`
    $\theta_4$, and `z0`, the log volatility at index 0; priors $N(0, 10^2)$ on $\theta_1, \theta_2, \log\theta_3,
    \log\theta_4, z_0$.

    Args:
        start: the rate at index 0 for simulation; in a fit it is read off the data.
        dt: time between two indices.
        elasticity: the power $\gamma$ of the rate in its variance. The paper prints 1; the authors' code has 2.
    """  # noqa: D205

    def drift(x, theta):
        r, z = x
        return jnp.stack([theta["trend"] * r, theta["level"] - theta["reversion"] * z])

    def diffusion(x, theta):
        r, z = x
        return jnp.stack([r**elasticity * jnp.exp(z), theta["volatility"] ** 2])

    return SDE(
        prior={
            "trend": dist.Normal(0.0, 10.0),
            "level": dist.Normal(0.0, 10.0),
            "reversion": dist.LogNormal(0.0, 10.0),
            "volatility": dist.LogNormal(0.0, 10.0),
            "z0": dist.Normal(0.0, 10.0),
        },
        initial=lambda theta: jnp.stack([jnp.asarray(start), theta["z0"]]),
        drift=drift,
        diffusion=diffusion,
        dt=dt,
        exactly_observed={0: 0},
    )
