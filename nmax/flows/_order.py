"""Order reversal (supplement C)."""

from __future__ import annotations

from jaxtyping import Array, Float

from nmax._types import Reach
from nmax.flows._base import AbstractFlow, Side


class Backwards(AbstractFlow):
    """The same flow with time running the other way, so that it looks ahead instead of back."""

    flow: AbstractFlow

    @property
    def reach(self) -> Reach:
        """The flow's reach, mirrored."""
        return Reach(*self.flow.reach[::-1])

    def __call__(
        self, z: Float[Array, "noise state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Reverse, apply, reverse."""
        x, log_scale = self.flow(z[::-1], side.backwards())
        return x[::-1], log_scale[::-1]
