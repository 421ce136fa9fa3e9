"""A guide made worse on purpose, to see whether the checks notice."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from nmax._types import Reach
from nmax.data import Series
from nmax.guides._base import Guide, Stretch
from nmax.models import Theta


class DamagedGuide(Guide):
    r"""Another guide with its noise of the steps `start, ..., stop - 1` multiplied by `factor`.

    Still a bijection with a known density, $\log q = \log\varphi(z) - \log|\partial x/\partial z|$: only a worse one.

    Attributes:
        guide: the guide that is damaged.
        start: the first damaged step.
        stop: one past the last.
        factor: what the scales are multiplied by there.
    """

    guide: Guide
    start_step: int = eqx.field(static=True)
    stop_step: int = eqx.field(static=True)
    factor: float = eqx.field(static=True)

    def __init__(self, guide: Guide, start: int, stop: int, factor: float):
        self.theta_flow, self.model, self.drawn = guide.theta_flow, guide.model, guide.drawn
        self.guide, self.start_step, self.stop_step, self.factor = guide, start, stop, factor

    @property
    def reach(self) -> Reach:
        """That of the guide itself."""
        return self.guide.reach

    def rows_around(self, time: int) -> tuple[int, int]:
        """Those of the guide itself."""
        return self.guide.rows_around(time)

    def path(
        self,
        theta: Theta,
        theta_noise: Float[Array, " param"],
        z: Float[Array, "noise drawn"],
        series: Series,
        start: Int[Array, ""],
    ) -> Stretch:
        """The path on steps from `start` on; see `Guide.path`."""
        left, right = self.reach
        index = start - left + jnp.arange(len(z), dtype=jnp.int32)
        hurt = (index >= self.start_step) & (index < self.stop_step)
        wide = z * jnp.where(hurt, self.factor, 1.0)[:, None]
        stretch = self.guide.path(theta, theta_noise, wide, series, start)
        own = slice(left, len(z) - right)
        live = self.live(series, index[own])
        rest = 0.5 * (wide[own] ** 2 - z[own] ** 2) - jnp.where(hurt[own], jnp.log(self.factor), 0.0)[:, None]
        return stretch._replace(log_q=stretch.log_q + jnp.sum(jnp.where(live, rest, 0.0), axis=1))
