"""What a page is about: an `nmax.Posterior` or `nmax.Draws`, seen through what both can do."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from nmax._draws import Draws
from nmax._posterior import Posterior
from nmax._strip import Strip
from nmax.checks import Residuals, residuals
from nmax.data import Table
from nmax.models import AbstractModel
from nmax.report._times import TimeAxis, time_axis

THETAS = 10_000
WINDOWS = 100  # of the strip


@dataclasses.dataclass(frozen=True)
class Subject:
    """A posterior with the keys that every part of the page draws by.

    Attributes:
        posterior: as it was handed over.
        key: of the page.
    """

    posterior: Posterior | Draws
    key: PRNGKeyArray

    @property
    def fit(self) -> Posterior | None:
        """The fit, if it is one."""
        return self.posterior if isinstance(self.posterior, Posterior) else None

    @property
    def draws(self) -> Draws | None:
        """The chains' draws, if they are that."""
        return self.posterior if isinstance(self.posterior, Draws) else None

    @property
    def model(self) -> AbstractModel:
        """The model."""
        return self.posterior.model

    @property
    def table(self) -> Table:
        """The data with their names and times."""
        return self.posterior.table

    @property
    def rows(self) -> int:
        """Rows of the data, T + 1."""
        return self.posterior.series.length + 1

    @property
    def times(self) -> TimeAxis:
        """The time axis."""
        return time_axis(self.table)

    @property
    def observed(self) -> np.ndarray:
        """Which entries of the data are real."""
        return np.isfinite(np.asarray(self.table.y, np.float64))

    def own_key(self, part: int) -> PRNGKeyArray:
        """The key of a part of the page."""
        return jr.fold_in(self.key, part)

    def theta(self, draws: int = THETAS, part: int = 0) -> dict[str, np.ndarray]:
        """Draws of the parameters; joint with `path` of the same number and part."""
        if isinstance(self.posterior, Draws):
            return self.posterior.theta() if part == 0 else self.posterior.theta(draws, key=self.own_key(part))
        return self.posterior.theta(draws, key=self.own_key(part))

    def path(self, draws: int, start: int, stop: int, part: int) -> Float[np.ndarray, "draw time state"]:
        """Draws of a stretch of the path."""
        return self.posterior.path(draws, start=start, stop=stop, key=self.own_key(part))

    def residuals(self) -> Residuals:
        """Forecasts one observation ahead, at the centre of q(θ), or of the guide that the chains ran in."""
        if isinstance(self.posterior, Draws):
            return residuals(self.posterior.density.guide, self.posterior.series, key=self.own_key(3))
        return self.posterior.residuals(key=self.own_key(3))

    def strip(self) -> Strip | None:
        """How well q describes windows along the series; None for draws, which are exact, and where T is too short."""
        if not isinstance(self.posterior, Posterior):
            return None
        return self.posterior.strip(most=WINDOWS, key=self.own_key(4))


def stacked(theta: dict[str, np.ndarray]) -> dict[str, Any]:
    """Draws by name as arrays on the device."""
    return {name: jax.numpy.asarray(value) for name, value in theta.items()}
