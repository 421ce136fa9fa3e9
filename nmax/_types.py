"""The few shared types. The names of array axes are explained in `docs/notation.md`."""

from __future__ import annotations

from typing import NamedTuple


class Reach(NamedTuple):
    """How many steps of noise a flow uses up on each side of the path it returns."""

    left: int
    right: int

    def __add__(self, other: tuple[int, ...]) -> Reach:
        """Reaches of flows that follow each other add up."""
        left, right = other
        return Reach(self.left + left, self.right + right)
