"""Which stretches of the series a step of training sees, and how they are drawn."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray


class Window(NamedTuple):
    """The steps `start, ..., start + size - 1`, a subset of 1..T."""

    start: Int[Array, "..."]
    size: Int[Array, "..."]


@dataclasses.dataclass(frozen=True)
class Windows:
    """The partition of 1..T into stretches of `width` steps, the last of which may be shorter.

    Attributes:
        length: T, the number of steps.
        width: steps in a window, at most `length`.
    """

    length: int
    width: int

    @property
    def count(self) -> int:
        """The number of windows."""
        return -(-self.length // self.width)

    def at(self, number: Int[Array, "..."]) -> Window:
        """Window number 0, 1, ..., `count` - 1."""
        size = jnp.minimum(self.width, self.length - number * self.width)
        return Window(1 + number * self.width, size)

    def draw(self, key: PRNGKeyArray, count: int) -> Window:
        r"""Draw `count` windows, each with probability $|B| / T$, spread over the series.

        A uniformly drawn step picks the window it lies in, which gives a window its right probability whatever its
        size. The steps are stratified: one from each of `count` stretches of the series, the whole turned by a random
        shift, so each step is still exactly uniform on 1..T while a draw covers all parts of the series.
        """
        shift_key, within_key = jr.split(key)
        bounds = np.arange(count + 1, dtype=np.int64) * self.length // count
        low, high = bounds[:-1].astype(np.int32), np.maximum(bounds[1:], bounds[:-1] + 1).astype(np.int32)
        step = jr.randint(within_key, (count,), low, high) + jr.randint(shift_key, (), 0, self.length)
        step = jnp.where(step >= self.length, step - self.length, step)
        return self.at(step // self.width)
