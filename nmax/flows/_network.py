"""Dense layers that act on rows."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray


class Dense(eqx.Module):
    """$hW + b$ for each row of $h$: a convolution of length 1."""

    weight: Float[Array, "before after"]
    bias: Float[Array, " after"]

    def __call__(self, h: Float[Array, "time before"]) -> Float[Array, "time after"]:
        """Apply the layer to every row."""
        return h @ self.weight + self.bias[None]


def dense_layers(sizes: tuple[int, ...], *, key: PRNGKeyArray) -> tuple[Dense, ...]:
    """Layers from `sizes[0]` to `sizes[-1]`, weights of variance one over the number of inputs."""
    keys = jr.split(key, max(len(sizes) - 1, 1))
    return tuple(
        Dense(jr.normal(k, (a, b)) / jnp.sqrt(a), jnp.zeros(b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=False)
    )


class Encoder(eqx.Module):
    """Side information of the steps $i-\\ell', ..., i+\\ell'$ to one vector for step $i$ (supplement D)."""

    layers: tuple[Dense, ...]
    radius: int = eqx.field(static=True)

    def __init__(self, features: int, *, radius: int, width: int, depth: int, key: PRNGKeyArray):
        """`depth` layers of `width` units, the last without activation, on 2 `radius` + 1 rows of `features` numbers."""
        self.radius = radius
        self.layers = dense_layers(((2 * radius + 1) * features, *(width,) * depth), key=key)

    def __call__(self, local: Float[Array, "long feature"]) -> Float[Array, "time side"]:
        """Encode the steps that have `radius` rows on both sides."""
        time = len(local) - 2 * self.radius
        h = jnp.concatenate([local[i : i + time] for i in range(2 * self.radius + 1)], axis=1)
        for layer in self.layers[:-1]:
            h = jax.nn.elu(layer(h))
        return self.layers[-1](h)
