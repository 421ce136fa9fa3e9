"""An elementwise layer that gives the noise a skewed shape."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from nmax._types import Reach
from nmax.flows._base import AbstractFlow, Side

MOST_SKEW, MOST_TAIL = 1.0, 0.25  # of the skewness, and of the tails' weight: a draw far out may leave the model's domain


class Skew(AbstractFlow):
    r"""$z' = \sinh(\epsilon_i + \delta_i \operatorname{arsinh} z) / \delta_i$, $\epsilon_i, \log\delta_i$ from $s_i$ and θ.

    The sinh-arcsinh transformation of Jones and Pewsey (2009). Affine layers leave each step Gaussian given those before
    it; this one does not. Its weights, affine in θ's base noise as those of `MovingAverage`, start at zero, at the
    identity.
    """

    weight: Float[Array, "side outs"]
    bias: Float[Array, " outs"]
    theta_weight: Float[Array, "param side outs"]
    theta_bias: Float[Array, "param outs"]

    def __init__(self, *, state: int, side: int, theta: int):
        """Make a layer for `state` components, `side` numbers of side information a step and `theta` parameters."""
        self.weight, self.bias = jnp.zeros((side, 2 * state)), jnp.zeros(2 * state)
        self.theta_weight, self.theta_bias = jnp.zeros((theta, side, 2 * state)), jnp.zeros((theta, 2 * state))

    @property
    def reach(self) -> Reach:
        """None."""
        return Reach(0, 0)

    def __call__(
        self, z: Float[Array, "time state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Bend each entry."""
        weight = self.weight + jnp.tensordot(side.theta, self.theta_weight, 1)
        out = side.local @ weight + (self.bias + side.theta @ self.theta_bias)[None]
        skew, log_tail = jnp.split(out, 2, axis=1)
        skew, log_tail = MOST_SKEW * jnp.tanh(skew / MOST_SKEW), MOST_TAIL * jnp.tanh(log_tail / MOST_TAIL)
        inner = skew + jnp.exp(log_tail) * jnp.arcsinh(z)
        log_scale = jnp.log(jnp.cosh(inner)) - 0.5 * jnp.log1p(z**2)
        return jnp.sinh(inner) * jnp.exp(-log_tail), log_scale
