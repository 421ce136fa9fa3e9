"""The neural moving average: one affine layer."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._types import Reach
from nmax.flows._base import AbstractFlow, Side
from nmax.flows._network import Dense, dense_layers

MIN_SCALE = 1e-6
UNIT = 0.5413248546129181  # softplus of this is 1


class MovingAverage(AbstractFlow):
    r"""$z^{out}_i = \mu_i + \sigma_i \odot z^{in}_i$, with $(\mu_i, \sigma_i)$ from $z^{in}_{i-\ell:i-1}$, $s_i$ and θ.

    An off-centre convolution of length ℓ, then layers of length 1 (Section 3.2 of the paper). With $d > 1$ the layer is a
    coupling (Section 3.3): the `kept` components pass unchanged and, at step $i$, are seen by the network that moves the
    others. Permuting components between layers is choosing other ones to keep; they stay at their places.

    The last layer's weights are affine in θ's base noise $e$: $W_0 + \sum_k e_k W_k$. How the path moves with θ is what
    gives q(θ) its width, and this lets it be learned to first order at once. They start at zero, so the layer starts
    exactly at the identity.
    """

    past: Float[Array, "window width"]
    present: Float[Array, "kept width"]
    local: Float[Array, "side width"]
    theta: Float[Array, "param width"]
    bias: Float[Array, " width"]
    hidden: tuple[Dense, ...]
    out: Dense
    theta_out: Float[Array, "param width outs"]
    length: int = eqx.field(static=True)
    kept: tuple[int, ...] = eqx.field(static=True)
    moved: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        length: int,
        *,
        state: int,
        side: int,
        theta: int,
        kept: tuple[int, ...] = (),
        width: int = 32,
        depth: int = 2,
        key: PRNGKeyArray,
    ):
        """Make a layer.

        Args:
            length: the receptive field ℓ.
            state: number of components d.
            side: size of the encoded side information of a step.
            theta: size of θ's base noise.
            kept: components that pass unchanged; at least one must be left to move.
            width: units of the hidden layers.
            depth: hidden layers after the first.
            key: random key for the weights.
        """
        self.length, self.kept = length, kept
        self.moved = tuple(k for k in range(state) if k not in kept)
        if length < 1 or not self.moved:
            raise ValueError(f"A layer needs a reach of at least 1 and a component to move; got {length}, kept {kept}.")
        past_key, present_key, local_key, theta_key, hidden_key = jr.split(key, 5)
        fan_in = length * state + len(kept)
        self.past = jr.normal(past_key, (length * state, width)) / jnp.sqrt(fan_in)
        self.present = jr.normal(present_key, (len(kept), width)) / jnp.sqrt(fan_in)
        self.local = jr.normal(local_key, (side, width)) / jnp.sqrt(max(side, 1))
        self.theta = jr.normal(theta_key, (theta, width)) / jnp.sqrt(max(theta, 1))
        self.bias = jnp.zeros(width)
        self.hidden = dense_layers((width,) * (depth + 1), key=hidden_key)
        outs = 2 * len(self.moved)
        self.out = Dense(jnp.zeros((width, outs)), jnp.zeros(outs))
        self.theta_out = jnp.zeros((theta, width, outs))

    @property
    def reach(self) -> Reach:
        """ℓ steps back, none ahead."""
        return Reach(self.length, 0)

    def __call__(
        self, z: Float[Array, "noise state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Shift and scale the moved components."""
        side, here, time = side.crop(self.reach), z[self.length :], len(z) - self.length
        past = jnp.concatenate([z[i : i + time] for i in range(self.length)], axis=1)  # row i is z_{i-ℓ:i-1}
        h = past @ self.past + side.local @ self.local + (side.theta @ self.theta + self.bias)[None]
        if self.kept:
            h = h + here[:, jnp.array(self.kept)] @ self.present
        h = jax.nn.elu(h)
        for layer in self.hidden:
            h = jax.nn.elu(layer(h))
        shift, raw = jnp.split(self.out(h) + h @ jnp.tensordot(side.theta, self.theta_out, 1), 2, axis=1)
        scale = jax.nn.softplus(raw + UNIT) + MIN_SCALE
        if not self.kept:
            return shift + scale * here, jnp.log(scale)
        moved = jnp.array(self.moved)
        return (
            here.at[:, moved].set(shift + scale * here[:, moved]),
            jnp.zeros_like(here).at[:, moved].set(jnp.log(scale)),
        )
