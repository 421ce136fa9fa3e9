"""Which stretches of the series a step of training sees, and how they are drawn."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int


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

    def spread(self, shift: Int[Array, ""], count: int) -> Window:
        r"""`count` windows spread over the series: those that hold the steps $1 + (s + \lfloor kT/n \rfloor) \bmod T$.

        A step picks the window it lies in, which gives a window probability $|B| / T$ whatever its size, exactly, if the
        shift $s$ is uniform on 0..T−1.
        """
        offset = (np.arange(count, dtype=np.int64) * self.length // count).astype(np.int32)
        return self.at(self._turned(shift + offset) // self.width)

    def shift(self, first: Int[Array, ""], turn: Int[Array, ""], count: int) -> Int[Array, ""]:
        """The shift of `count` windows at a turn: for a uniform `first` uniform, and over the turns even.

        It moves on by the golden ratio of the distance between two windows: as in an epoch without
        replacement, what one turn's windows miss the next ones see, and the noise from the choice of windows averages out
        faster than that of independent choices.
        """
        golden = (turn.astype(jnp.uint32) * jnp.uint32(2_654_435_769)) >> 8  # 2^32 / golden ratio; 24 bits are left
        moved = (golden.astype(jnp.float32) * (self.length / count / 2**24)).astype(jnp.int32)
        return self._turned(jnp.minimum(moved, self.length - 1) + first)

    def _turned(self, step: Int[Array, "..."]) -> Int[Array, "..."]:
        return jnp.where(step >= self.length, step - self.length, step)
