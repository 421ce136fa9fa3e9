"""Standard normal noise as a function of the key and the time step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

BLOCK = 64  # steps drawn from one folded key


def noise(key: PRNGKeyArray, start: int | Int[Array, ""], length: int, state: int) -> Float[Array, "length state"]:
    """Standard normal noise for the steps `start, ..., start + length - 1`.

    It depends on the key and the step alone, never on how the steps were grouped, so a path can be
    drawn again in pieces of any size.
    """
    first = jnp.asarray(start, jnp.int32) // BLOCK
    blocks = first + jnp.arange(length // BLOCK + 2, dtype=jnp.int32)
    z = jax.vmap(lambda block: jr.normal(jr.fold_in(key, block), (BLOCK, state)))(blocks)
    offset = jnp.asarray(start, jnp.int32) - first * BLOCK
    return jax.lax.dynamic_slice_in_dim(z.reshape(-1, state), offset, length)
