"""The five features of supplement E, and the inputs."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from nmax.data import LongSeries, ManySeries, Series
from nmax.features._base import AbstractFeature


@dataclasses.dataclass(frozen=True)
class Time(AbstractFeature):
    """Where in the series: $2i/T - 1$."""

    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """One."""
        return 1

    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """From −1 at the start to 1 at the end."""
        return (2.0 * index.astype(jnp.float32) / series.end - 1.0)[:, None]


@dataclasses.dataclass(frozen=True)
class Observed(AbstractFeature):
    """Which columns were observed at the step."""

    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """One a column."""
        return series.columns

    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """1 where observed, 0 elsewhere and outside 0..T."""
        inside = (index >= 0) & (index <= series.end)
        return (series.observed[series.at(index)] & inside[:, None]).astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class NextObservation(AbstractFeature):
    """The observation at the step or, where there is none, the next one; zero if none follows. Standardised."""

    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """One a column."""
        return series.columns

    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """$(y - m) / s$, column by column."""
        here = series.at(index)
        follows = (series.next_observed[here] <= series.end) & (index <= series.end)[:, None]
        return jnp.where(follows, (series.next_value[here] - series.centre[None]) / series.scale[None], 0.0)


@dataclasses.dataclass(frozen=True)
class TimeToNext(AbstractFeature):
    r"""Steps until the next observation, $\log(1 + \Delta / g)$ with $g$ the typical gap; −1 if none follows."""

    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """One a column."""
        return series.columns

    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """Nearly linear within one gap, slowly growing over very long ones."""
        following = series.next_observed[series.at(index)]
        follows = (following <= series.end) & (index <= series.end)[:, None]
        steps = jnp.maximum(following - index[:, None], 0).astype(jnp.float32)
        return jnp.where(follows, jnp.log1p(steps / series.typical_gap), -1.0)


@dataclasses.dataclass(frozen=True)
class InRange(AbstractFeature):
    """Whether the step lies in 0..T at all."""

    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """One."""
        return 1

    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """1 inside, 0 outside."""
        return ((index >= 0) & (index <= series.end)).astype(jnp.float32)[:, None]


@dataclasses.dataclass(frozen=True)
class Inputs(AbstractFeature):
    """The exogenous inputs of the step, standardised."""

    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """One an input."""
        return series.input_columns

    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """The first and last rows are held beyond the ends."""
        return (series.inputs[series.at(index)] - series.input_centre[None]) / series.input_scale[None]


def default_features(series: Series | LongSeries | ManySeries) -> tuple[AbstractFeature, ...]:
    """The paper's five; time to the next observation only where something is missing; inputs where there are some."""
    features: tuple[AbstractFeature, ...] = (Time(), Observed(), NextObservation(), InRange())
    if not series.complete:
        features = (*features, TimeToNext())
    return (*features, Inputs()) if series.has_inputs else features
