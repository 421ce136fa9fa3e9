"""The exact posterior in a guide's noise: nearly standard normal where the guide is good, exact whether it is or not."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from nmax._objective import start_term, step_terms
from nmax.data import Series
from nmax.guides import Guide, LookaheadSampler, Stretch
from nmax.models import Theta


class Position(NamedTuple):
    """A point in the guide's noise: $e$ of the parameters, $z$ of steps 1..T."""

    e: Float[Array, " param"]
    z: Float[Array, "time drawn"]


class NoiseDensity(eqx.Module):
    r"""Log density of $(e, z)$ when $(\theta, x)$ has the posterior, up to a constant.

    $$\log p(\theta, x, y) - \log q(\theta, x) + \log\varphi(e) + \log\varphi(z),$$

    with the path's log-ratio taken step by step against its value at the centre, $e = z = 0$: what is left to add up is
    small, so that single precision is enough for long series.

    Attributes:
        guide: the bijection from noise to θ and x.
        series: the data.
        level: log-ratio at the centre: of θ and the start, and of every step.
    """

    guide: Guide
    series: Series
    level: tuple[Float[Array, ""], Float[Array, " time"]]

    def __call__(self, position: Position) -> Float[Array, ""]:
        """The log density."""
        own, steps, _, _ = self.ratios(position)
        fixed, levels = self.level
        square = jnp.sum(position.e**2) + jnp.sum(position.z**2)
        return own - fixed + jnp.sum(steps - levels) - 0.5 * square

    def ratios(self, position: Position) -> tuple[Array, Array, Array, Stretch]:
        """Log-ratios of θ with the start and of every step, θ in unconstrained coordinates, and the path."""
        e, z = position
        flat, log_q = self.guide.theta(e)
        theta = self.guide.model.parameters.constrain(flat)
        stretch = self.path(theta, position)
        own = self.guide.model.parameters.log_prob(flat) - log_q + start_term(self.guide, self.series, theta)
        return own, step_terms(self.guide, self.series, theta, stretch, jnp.int32(1)).total, flat, stretch

    def path(self, theta: Theta, position: Position) -> Stretch:
        """The states 0..T."""
        left, right = self.guide.reach
        size = position.z.shape[1]
        z = jnp.concatenate([jnp.zeros((left + 1, size)), position.z, jnp.zeros((right, size))])
        return self.guide.path(theta, position.e, z, self.series, jnp.int32(0))

    def states(self, position: Position) -> tuple[Float[Array, " param"], Float[Array, "time state"]]:
        """θ, unconstrained, and the path."""
        flat, _ = self.guide.theta(position.e)
        return flat, self.path(self.guide.model.parameters.constrain(flat), position).x

    @property
    def shape(self) -> tuple[int, tuple[int, int]]:
        """Sizes of $e$ and $z$."""
        return self.guide.theta_flow.size, (self.series.length, len(self.guide.drawn))


def noise_density(guide: Guide, series: Series) -> NoiseDensity:
    """The density for a guide; one that looks ahead does so around the path at the centre of q(θ), whatever θ is."""
    return _noise_density(strong(guide), series)


def strong(tree: Any) -> Any:
    """The same arrays without weak types, which would make compiled functions compile again."""

    def one(leaf):
        number = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.number)
        return jnp.asarray(leaf, leaf.dtype) if number else leaf

    return jax.tree.map(one, tree)


QUICKLY: Any = {"compiler_options": {"xla_backend_optimization_level": 0}}  # it runs once: compiling is all it costs


@eqx.filter_jit(**QUICKLY)
def _noise_density(guide: Guide, series: Series) -> NoiseDensity:
    zero = jnp.zeros(())
    bare = NoiseDensity(guide, series, (zero, jnp.zeros(series.length)))
    size, shape = bare.shape
    centre = Position(jnp.zeros(size), jnp.zeros(shape))
    if isinstance(guide, LookaheadSampler):
        reference = bare.ratios(centre)[3].reference
        known = jax.tree.map(lambda a: a[: series.length + 1], reference)
        guide = dataclasses.replace(guide, known=known, warm=jnp.array(True), frozen=True, own=True)
        bare = NoiseDensity(guide, series, bare.level)
    own, steps, _, _ = bare.ratios(centre)
    return strong(NoiseDensity(guide, series, (own, steps)))
