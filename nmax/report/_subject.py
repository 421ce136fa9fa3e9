"""What a page is about: an `nmax.Posterior` or `nmax.Draws`, seen through what both can do."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from nmax._draws import Draws
from nmax._posterior import Posterior
from nmax._strip import Strip
from nmax.checks import Residuals, residuals
from nmax.data import Table
from nmax.models import AbstractModel
from nmax.report._seen import Seen, seen
from nmax.report._times import TimeAxis, time_axis

THETAS = 10_000
WINDOWS = 100  # of the strip
PASS = 262_144  # rows looked at at a time


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

    def y(self, start: int, stop: int) -> Float[np.ndarray, "time obs"]:
        """Observations of rows `start, ..., stop - 1`, read from the disk if that is where they are."""
        return np.asarray(self.table.y[start:stop], np.float64)

    def y_at(self, index: Int[np.ndarray, " row"]) -> Float[np.ndarray, "row obs"]:
        """Observations of some rows, read a run of neighbours at a time."""
        runs = np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)
        parts = [self.y(int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.table.columns)))

    def inputs(self, start: int, stop: int) -> Float[np.ndarray, "time inputs"]:
        """Inputs of rows `start, ..., stop - 1`; no columns where there are none."""
        if self.table.inputs is None:
            return np.zeros((stop - start, 0), np.float32)
        return np.asarray(self.table.inputs[start:stop], np.float32)

    @cached_property
    def seen(self) -> Seen:
        """How much was observed, and the gaps."""
        return seen(np.isfinite(self.y(k, min(k + PASS, self.rows))) for k in range(0, self.rows, PASS))

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
