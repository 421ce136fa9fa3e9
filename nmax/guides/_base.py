"""What a guide is: q(θ) and q(x | θ) joined."""

from __future__ import annotations

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nmax._types import Reach
from nmax.data import LongSeries, ManySeries, Series
from nmax.flows import ThetaFlow
from nmax.lookahead import Reference
from nmax.models import AbstractModel, Prior, Theta

PRIOR_DRAWS = 4_096  # for the centre of the prior, where q(θ) starts


class Stretch(NamedTuple):
    r"""A stretch of a path drawn from a guide.

    Attributes:
        x: the states.
        log_q: $\lambda_i = \log q$ of each step.
        ahead: $D_i$, a guide's own idea of $\log p(y_{i+1:} \mid x_i)$ up to a constant, zero at 0 and T. Its
            increments sum to zero over the series, and take most of the noise out of a window's log-ratio.
        reference: the Gaussians that the path was drawn around, where a guide has such.
    """

    x: Float[Array, "time state"]
    log_q: Float[Array, " time"]
    ahead: Float[Array, " time"]
    reference: Reference | None = None


class Guide(eqx.Module):
    r"""$q(\theta, x) = q(\theta)\, q(x \mid \theta)$: a bijection from noise $(e, z)$ with a known density.

    Attributes:
        theta_flow: base noise $e$ to unconstrained θ.
        model: the model whose posterior this approximates.
        drawn: the state components that are drawn; the others are read off the data at every step.
    """

    theta_flow: ThetaFlow
    model: AbstractModel = eqx.field(static=True)
    drawn: tuple[int, ...] = eqx.field(static=True)

    @property
    @abc.abstractmethod
    def reach(self) -> Reach:
        """Steps of noise needed beyond a stretch of the path, on the left and on the right."""

    @abc.abstractmethod
    def rows_around(self, time: int) -> tuple[int, int]:
        """Rows of the series that the path on `time` steps may depend on: how many before its first, and in all."""

    @abc.abstractmethod
    def path(
        self,
        theta: Theta,
        theta_noise: Float[Array, " param"],
        z: Float[Array, "noise drawn"],
        series: Series,
        start: Int[Array, ""],
    ) -> Stretch:
        """The path on steps from `start` on.

        Args:
            theta: the parameters, on the user's own scale.
            theta_noise: the base noise they were made from.
            z: standard normal noise on these steps and on those within `reach` of them.
            series: the data.
            start: the first step. Index 0 is the model's start; so are steps outside 0..T, whose λ is zero.
        """

    def theta(self, noise: Float[Array, " param"]) -> tuple[Float[Array, " param"], Float[Array, ""]]:
        """θ in unconstrained coordinates, and log q of it there."""
        return self.theta_flow(noise)

    def start(self, theta: Theta, series: Series) -> Float[Array, " state"]:
        """The state at index 0."""
        start = jnp.asarray(self.model.initial(theta), jnp.float32)
        values, observed, _ = series.start
        for component, column in self.model.exactly_observed.items():
            start = start.at[component].set(jnp.where(observed[column], values[column], start[component]))
        return start

    def live(self, series: Series, index: Int[Array, " time"]) -> Bool[Array, "time drawn"]:
        """Which entries are drawn: those of steps 1..T that the data do not show exactly."""
        inside = (index >= 1) & (index <= series.end)
        known = series.observed[series.at(index)]
        exact = self.model.exactly_observed
        return jnp.stack([inside & ~known[:, exact[k]] if k in exact else inside for k in self.drawn], axis=1)

    def states(self, theta: Theta, flow: Array, series: Series, index: Int[Array, " time"]) -> Float[Array, "time state"]:
        """Put drawn, known and starting components together."""
        start = jnp.asarray(self.model.initial(theta), flow.dtype)
        row = series.at(index)
        inside = (index >= 1) & (index <= series.end)
        columns = []
        for k in range(self.model.state_size):
            value = jnp.broadcast_to(start[k], index.shape)
            if k in self.drawn:
                value = jnp.where(inside, flow[:, self.drawn.index(k)], value)
            if k in self.model.exactly_observed:
                column = self.model.exactly_observed[k]
                value = jnp.where(series.observed[row, column], series.values[row, column], value)
            columns.append(value)
        return jnp.stack(columns, axis=1)


def drawn_components(model: AbstractModel, series: Series | LongSeries | ManySeries) -> tuple[int, ...]:
    """State components that are not read off the data at every single step."""
    whole = jax.device_get(jnp.all(series.observed, axis=0)) if isinstance(series, Series) else series.always_seen
    exact = {component for component, column in model.exactly_observed.items() if whole[column]}
    return tuple(k for k in range(model.state_size) if k not in exact)


def prior_centre(prior: Prior, *, key: PRNGKeyArray) -> Float[Array, " param"]:
    """The median of the prior, coordinate by coordinate."""
    return jnp.median(prior.sample(key, PRIOR_DRAWS), axis=0)
