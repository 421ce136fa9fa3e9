"""What a flow is: noise in, a stretch of path and the logarithms of its scales out."""

from __future__ import annotations

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from nmax._types import Reach


class Side(eqx.Module):
    """What a flow is told beside the noise; its rows are those of the noise.

    Attributes:
        local: encoded side information of each step.
        theta: θ as the path flow sees it, the base noise of q(θ).
        live: which components of which steps are drawn at all. Steps outside 1..T are not, nor are components that the
            data show exactly; there every layer's output is zero, so that windows and the whole series agree.
    """

    local: Float[Array, "noise side"]
    theta: Float[Array, " param"]
    live: Bool[Array, "noise state"]

    def crop(self, reach: Reach) -> Side:
        """The side information of the steps that a flow with this reach leaves over."""
        stop = len(self.live) - reach.right
        return Side(self.local[reach.left : stop], self.theta, self.live[reach.left : stop])

    def backwards(self) -> Side:
        """The same steps in reverse order."""
        return Side(self.local[::-1], self.theta, self.live[::-1])


class AbstractFlow(eqx.Module):
    """Turns noise into path, one stretch at a time, looking a bounded way to each side.

    A flow is a bijection of the live entries whose Jacobian is triangular, in the order of time or against it, with the
    scales on its diagonal. So log q of a step needs that step's scales alone.
    """

    @property
    @abc.abstractmethod
    def reach(self) -> Reach:
        """Steps of noise used up on the left and on the right."""

    @abc.abstractmethod
    def __call__(
        self, z: Float[Array, "noise state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Return the path on the steps that `reach` leaves over, and the log scale of each of its entries."""


class Chain(AbstractFlow):
    """Flows one after the other. Reaches add up, log scales too."""

    flows: tuple[AbstractFlow, ...]

    @property
    def reach(self) -> Reach:
        """The sum of the reaches."""
        return sum((flow.reach for flow in self.flows), start=Reach(0, 0))

    def __call__(
        self, z: Float[Array, "noise state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Apply the flows in turn, entries that are not live set to zero after each."""
        total = jnp.zeros_like(z)
        for flow in self.flows:
            left, right = flow.reach
            z, log_scale = flow(z, side)
            total, side = total[left : len(total) - right], side.crop(flow.reach)
            z, total = jnp.where(side.live, z, 0.0), total + jnp.where(side.live, log_scale, 0.0)
        return z, total
