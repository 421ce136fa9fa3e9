"""What a feature is."""

from __future__ import annotations

import abc
import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from nmax.data import LongSeries, ManySeries, Series


@dataclasses.dataclass(frozen=True)
class AbstractFeature(abc.ABC):
    """Numbers that describe the data at a step."""

    @abc.abstractmethod
    def size(self, series: Series | LongSeries | ManySeries) -> int:
        """How many numbers a step gets."""

    @abc.abstractmethod
    def __call__(self, series: Series, index: Int[Array, " time"]) -> Float[Array, "time feature"]:
        """The numbers of the steps `index`, any of which may lie outside 0..T."""


def local_features(
    features: tuple[AbstractFeature, ...], series: Series, index: Int[Array, " time"]
) -> Float[Array, "time feature"]:
    """All features of the steps, side by side."""
    return jnp.concatenate([feature(series, index) for feature in features], axis=1)
