"""Flows that act on each entry alone: to the state's scale, and into its support."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from nmax._types import Reach
from nmax.flows._base import AbstractFlow, Side


class Standardise(AbstractFlow):
    """$x_{ik} = m_k + s_k z_{ik}$: lets the layers before it work on a unit scale."""

    centre: Float[Array, " state"]
    log_spread: Float[Array, " state"]

    @property
    def reach(self) -> Reach:
        """None."""
        return Reach(0, 0)

    def __call__(
        self, z: Float[Array, "time state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Scale and shift each component."""
        del side
        x = self.centre[None] + jnp.exp(self.log_spread)[None] * z
        return x, jnp.broadcast_to(self.log_spread[None], z.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Bijectors:
    """One NumPyro transform a component, each compared by identity: they cannot be hashed, as JAX asks."""

    transforms: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bijectors) and list(map(id, self.transforms)) == list(map(id, other.transforms))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.transforms)))


class Constrain(AbstractFlow):
    r"""$x_{ik} = g_k(\tilde x_{ik})$, with log scale $\log g_k'(\tilde x_{ik})$ (supplement G.1, which prints $g_k'$)."""

    bijectors: Bijectors = eqx.field(static=True)

    @property
    def reach(self) -> Reach:
        """None."""
        return Reach(0, 0)

    def __call__(
        self, z: Float[Array, "time state"], side: Side
    ) -> tuple[Float[Array, "time state"], Float[Array, "time state"]]:
        """Take each component into its support."""
        del side
        transforms = self.bijectors.transforms
        x = [transform(z[:, k]) for k, transform in enumerate(transforms)]
        log_scale = [transform.log_abs_det_jacobian(z[:, k], x[k]) for k, transform in enumerate(transforms)]
        return jnp.stack(x, axis=1), jnp.stack(log_scale, axis=1)
