"""How a guide is trained: the settings, the update rule and the learning-rate schedule."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from nmax._check import check_positive, with_named_options
from nmax._guide import Guide


@with_named_options
@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimiser:
    """Settings of the update rule. The defaults are what measured best; `Optimiser.paper()` is what the paper did.

    Attributes:
        method: `"adam"` or `"adamax"`.
        rate: learning rate of the networks.
        theta_rate: learning rate of the affine head of q(θ).
        b1: decay of the mean of the gradients.
        b2: decay of their squares (or, for AdaMax, of their maximum).
        clip: largest global L1 norm of a gradient; larger ones are scaled down. `None` for no limit.
        warmup: steps over which the rates rise from zero.
        final: what the rates fall to at the end of the decay, as a share of the full ones. 1 for no decay.
        average: length of the average over iterates, as a share of the steps so far; 0 takes the last iterate.
    """

    method: str = "adam"
    rate: float = 5e-3
    theta_rate: float = 2e-2
    b1: float = 0.9
    b2: float = 0.99
    clip: float | None = None
    warmup: int = 50
    final: float = 0.01
    average: float = 0.1

    def __post_init__(self):
        if self.method not in ("adam", "adamax"):
            raise ValueError(f'`method` must be "adam" or "adamax"; got {self.method!r}.')
        for name in ("rate", "theta_rate", "final"):
            check_positive(name, getattr(self, name))
        if self.clip is not None:
            check_positive("clip", self.clip)

    @classmethod
    def paper(cls, rate: float = 1e-3, clip: float = 1e4) -> Optimiser:
        """AdaMax with β1 = 0.95 and clipping by the global L1 norm, one constant rate, no averaging (supplement F)."""
        return cls(
            method="adamax", rate=rate, theta_rate=rate, b1=0.95, b2=0.999, clip=clip, warmup=0, final=1.0, average=0.0
        )

    def transformation(self, params: Any) -> optax.GradientTransformation:
        """The update rule at full learning rates, for trainable leaves shaped like `params`."""
        rule = optax.scale_by_adam if self.method == "adam" else optax.scale_by_adamax
        one = rule(b1=self.b1, b2=self.b2)
        groups = {
            "networks": optax.chain(one, optax.scale(-self.rate)),
            "head": optax.chain(one, optax.scale(-self.theta_rate)),
        }
        by_group = optax.multi_transform(groups, _groups(params))
        return by_group if self.clip is None else optax.chain(clip_by_global_l1_norm(self.clip), by_group)

    def multiplier(
        self, count: Int[Array, ""], decay_start: Int[Array, ""], decay_steps: Int[Array, ""]
    ) -> Float[Array, ""]:
        """What the rates are multiplied by: a linear rise, a level, a half cosine down to `final`."""
        rise = jnp.minimum(1.0, (count + 1) / max(self.warmup, 1))
        done = jnp.clip((count - decay_start) / jnp.maximum(decay_steps, 1), 0.0, 1.0)
        return rise * (self.final + (1.0 - self.final) * 0.5 * (1.0 + jnp.cos(jnp.pi * done)))

    def averaged(self, average: Any, params: Any, count: Int[Array, ""]) -> Any:
        """The running average over about the last `average` · `count` iterates."""
        if self.average == 0:
            return params
        keep = count / (count + 1.0 / self.average)
        return jax.tree.map(lambda a, b: keep * a + (1.0 - keep) * b, average, params)


def clip_by_global_l1_norm(limit: float) -> optax.GradientTransformation:
    """Scale a gradient down so that the sum of the absolute values of all its entries is at most `limit`."""

    def update(updates, state, params=None):
        del params
        norm = sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(updates))
        factor = jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-30))
        return jax.tree.map(lambda leaf: leaf * factor, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _groups(params: Guide) -> Any:
    """Names the group of each leaf: the affine head of q(θ), or the networks."""
    labels = jax.tree.map(lambda _: "networks", params)
    return eqx.tree_at(lambda g: g.theta_flow.head, labels, replace_fn=lambda h: jax.tree.map(lambda _: "head", h))
