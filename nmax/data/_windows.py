"""Which stretches of the series a step of training sees, and how they are drawn."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

MOST = 2**30  # rows: the sum of two numbers of steps is still a number of 32 bits


def check_countable(rows: int) -> None:
    """Refuse more rows, of all series together, than windows can be counted over."""
    if rows > MOST:
        raise ValueError(
            f"`y` must have at most 2^30 = {MOST:,} rows, of all series together; got {rows:,}. Fit a part of them, or take "
            "longer steps."
        )


class Window(eqx.Module):
    """The steps `start, ..., start + size - 1`, a subset of 1..T, on the device or on the host; or several such.

    Attributes:
        start: the first step.
        size: how many there are.
        which: the number of the series they are of, where there are several.
    """

    start: Any
    size: Any
    which: Any = None

    def __iter__(self) -> Iterator[Any]:
        yield from (self.start, self.size)


class Edges(NamedTuple):
    """Where each series begins: its first step among those of all, counted from 0, and its first window."""

    step: Int[np.ndarray, " series"]
    window: Int[np.ndarray, " series"]
    length: Int[np.ndarray, " series"]


@dataclasses.dataclass(frozen=True)
class Windows:
    """The partition of 1..T into stretches of `width` steps, the last of which may be shorter.

    Several series are cut up one after the other: no window holds steps of two of them, and the last one of each may be
    shorter.

    Attributes:
        length: T, the number of steps; of all series together, where there are several.
        width: steps in a window, at most `length`.
        lengths: the number of steps of each, where there are several.
    """

    length: int
    width: int
    lengths: tuple[int, ...] = ()

    @functools.cached_property
    def edges(self) -> Edges:
        """Where each of several series begins."""
        length = np.asarray(self.lengths, np.int64)
        count = -(-length // self.width)
        return Edges(*(a.astype(np.int32) for a in (np.cumsum(length) - length, np.cumsum(count) - count, length)))

    @functools.cached_property
    def count(self) -> int:
        """The number of windows."""
        return sum(-(-length // self.width) for length in self.lengths or (self.length,))

    def at(self, number: Int[Array, "..."] | Int[np.ndarray, "..."]) -> Window:
        """Window number 0, 1, ..., `count` - 1, on the device or, for an array of NumPy, on the host."""
        xp: Any = np if isinstance(number, np.ndarray) else jnp
        if not self.lengths:
            size = xp.minimum(self.width, self.length - number * self.width)
            return Window(1 + number * self.width, size)
        which = xp.searchsorted(xp.asarray(self.edges.window), number, side="right") - 1
        before = (number - xp.asarray(self.edges.window)[which]) * self.width
        size = xp.minimum(self.width, xp.asarray(self.edges.length)[which] - before)
        return Window(1 + before, size, which)

    def holding(self, step: Any) -> Any:
        """The number of the window that holds a step; the steps of all series are counted from 0, one after the other."""
        if not self.lengths:
            return step // self.width
        xp: Any = np if isinstance(step, np.ndarray) else jnp
        which = xp.searchsorted(xp.asarray(self.edges.step), step, side="right") - 1
        return xp.asarray(self.edges.window)[which] + (step - xp.asarray(self.edges.step)[which]) // self.width

    def spread(self, shift: Int[Array, ""], count: int) -> Window:
        r"""`count` windows spread over the series: those that hold the steps $1 + (s + \lfloor kT/n \rfloor) \bmod T$.

        A step picks the window it lies in, which gives a window probability $|B| / T$ whatever its size, exactly, if the
        shift $s$ is uniform on 0..T−1.
        """
        offset = (np.arange(count, dtype=np.int64) * self.length // count).astype(np.int32)
        return self.at(self.holding(self._turned(shift + offset)))

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
