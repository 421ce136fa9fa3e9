"""How a guide is trained: the settings, the update rule and the learning-rate schedule."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from nmax._check import check_count, check_positive, with_named_options
from nmax.guides import Guide


class OptimiserState(eqx.Module):
    """Moments of the gradients: of the networks, of the head of q(θ) in its own coordinates, of its mean in plain ones."""

    networks: optax.OptState
    head: optax.OptState
    loc: optax.OptState


@with_named_options
@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimiser:
    """Settings of the update rule. The defaults are what measured best; `Optimiser.paper()` is what the paper did.

    The affine head of q(θ) moves in its own coordinates (`flows.AffineHead`). Only its mean, on the way from the prior to
    the posterior, moves in plain ones until the learning rates begin to fall: far away, a standard deviation of q is too
    small a step.

    Attributes:
        method: `"adam"` or `"adamax"`.
        rate: learning rate of the networks.
        theta_rate: learning rate of the mean of q(θ), in unconstrained units, before the rates fall; `None` where it begins
            near the posterior, and moves in its own coordinates throughout.
        mean_rate: the same in standard deviations of q(θ), while they fall.
        width_rate: learning rate of the covariance of q(θ), a relative one.
        b1: decay of the mean of the gradients.
        b2: decay of their squares (or, for AdaMax, of their maximum).
        clip: largest global L1 norm of a gradient; larger ones are scaled down. `None` for no limit.
        hold: steps at the start in which q(θ) moves alone, on its way from the prior to what the first guess of x says; a
            path that followed a θ far from the data would leave them too.
        warmup: steps over which the rates rise from zero, those of the networks after the hold.
        level: share of a fixed number of steps before the rates fall. 1 for no fall.
        final: what the rates fall to, as a share of the full ones.
        average: length of the average over iterates, as a share of the steps so far; 0 takes the last iterate.
        theta: whether q(θ) moves at all.
    """

    method: str = "adam"
    rate: float = 5e-3
    theta_rate: float | None = 2e-2
    mean_rate: float = 0.1
    width_rate: float = 0.05
    b1: float = 0.9
    b2: float = 0.99
    clip: float | None = None
    hold: int = 300
    warmup: int = 50
    level: float = 1 / 3
    final: float = 0.01
    average: float = 0.1
    theta: bool = True

    def __post_init__(self):
        if self.method not in ("adam", "adamax"):
            raise ValueError(f'`method` must be "adam" or "adamax"; got {self.method!r}.')
        for name in ("rate", "mean_rate", "width_rate", "final"):
            check_positive(name, getattr(self, name))
        if self.theta_rate is not None:
            check_positive("theta_rate", self.theta_rate)
        if self.clip is not None:
            check_positive("clip", self.clip)
        check_count("hold", self.hold, least=0)
        check_count("warmup", self.warmup, least=0)
        for name in ("b1", "b2", "level", "average"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"`{name}` must lie between 0 and 1; got {getattr(self, name)!r}.")

    @classmethod
    def paper(cls, rate: float = 1e-3, clip: float = 1e6) -> Optimiser:
        """AdaMax with β1 = 0.95, clipping by the global L1 norm, one constant rate, no averaging (supplement F)."""
        return cls(
            method="adamax",
            rate=rate,
            theta_rate=rate,
            mean_rate=rate,
            width_rate=rate,
            b1=0.95,
            b2=0.999,
            clip=clip,
            hold=0,
            warmup=0,
            level=1.0,
            final=1.0,
            average=0.0,
        )

    def init(self, params: Guide) -> OptimiserState:
        """The state before the first step."""
        head = params.theta_flow.head
        return OptimiserState(self._rule.init(_without_head(params)), self._rule.init(head), self._rule.init(head.loc))

    def update(
        self, gradient: Guide, state: OptimiserState, params: Guide, *, count: Int[Array, ""], falling: Bool[Array, ""]
    ) -> tuple[Guide, OptimiserState]:
        """The change of the trainable leaves after `count` steps, before the rates' fall is taken into account."""
        if self.clip is not None:
            gradient = clip_by_global_l1_norm(gradient, self.clip)
        head, plain = params.theta_flow.head, gradient.theta_flow.head
        networks, networks_state = self._rule.update(_without_head(gradient), state.networks)
        own, head_state = self._rule.update(head.whitened(plain), state.head)
        loc, loc_state = self._rule.update(plain.loc, state.loc)

        step = head.moved(dataclasses.replace(own, loc=-self.mean_rate * own.loc, matrix=-self.width_rate * own.matrix))
        if self.theta_rate is not None:
            step = dataclasses.replace(step, loc=jnp.where(falling, step.loc, -self.theta_rate * loc))
        rate = self.rate * jnp.clip((count - self.hold + 1) / max(self.warmup, 1), 0.0, 1.0)
        networks = jax.tree.map(lambda u: -rate * u, networks)
        change = eqx.tree_at(lambda g: g.theta_flow.head, networks, step, is_leaf=lambda leaf: leaf is None)
        if not self.theta:
            change = eqx.tree_at(lambda g: g.theta_flow, change, jax.tree.map(jnp.zeros_like, change.theta_flow))
        return change, OptimiserState(networks_state, head_state, loc_state)

    def multiplier(self, count: Int[Array, ""], fall_start: Int[Array, ""], fall_steps: Int[Array, ""]) -> Float[Array, ""]:
        """What the rates are multiplied by: a linear rise, a level, a half cosine down to `final`."""
        rise = jnp.minimum(1.0, (count + 1) / max(self.warmup, 1))
        done = jnp.clip((count - fall_start) / jnp.maximum(fall_steps, 1), 0.0, 1.0)
        return rise * (self.final + (1.0 - self.final) * 0.5 * (1.0 + jnp.cos(jnp.pi * done)))

    def averaged(self, average: Any, params: Any, count: Int[Array, ""]) -> Any:
        """The running average over about the last `average` · `count` iterates."""
        if self.average == 0:
            return params
        keep = count / (count + 1.0 / self.average)
        return jax.tree.map(lambda a, b: keep * a + (1.0 - keep) * b, average, params)

    @property
    def _rule(self) -> Any:  # optax's types do not know modules
        rule = optax.scale_by_adam if self.method == "adam" else optax.scale_by_adamax
        return rule(b1=self.b1, b2=self.b2)


def clip_by_global_l1_norm(gradient: Any, limit: float) -> Any:
    """Scale a gradient down so that the sum of the absolute values of all its entries is at most `limit`."""
    norm = sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(gradient))
    factor = jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-30))
    return jax.tree.map(lambda leaf: leaf * factor, gradient)


def _without_head(guide: Guide) -> Guide:
    return eqx.tree_at(lambda g: g.theta_flow.head, guide, None)
