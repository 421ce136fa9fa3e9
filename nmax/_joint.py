"""What can be asked of joint draws of θ and x, whether a guide makes them or chains have made them."""

from __future__ import annotations

import abc
import os
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from nmax._forecast import Forecast, forecast
from nmax._predictive import predictive
from nmax._predictive_check import PredictiveCheck, predictive_check
from nmax.data import Series, Table
from nmax.models import AbstractModel


class JointDraws(abc.ABC):
    """A posterior that can be drawn from: `nmax.Posterior` or `nmax.Draws`."""

    model: AbstractModel
    table: Table
    series: Series

    @abc.abstractmethod
    def theta(self, draws: int, *, key: PRNGKeyArray) -> dict[str, np.ndarray]:
        """Draws of the parameters by name."""

    @abc.abstractmethod
    def path(
        self, draws: int, *, start: int = 0, stop: int | None = None, key: PRNGKeyArray
    ) -> Float[np.ndarray, "draw time state"]:
        """Draws of states, joint with those of `theta` with the same key."""

    def forecast(self, steps: int, draws: int, *, inputs: Any = None, key: PRNGKeyArray) -> Forecast:
        """States and observations of the `steps` rows that follow the series, with the uncertainty of θ and of the state.

        With one key, `theta`, `path` and this are joint draws, and the first steps do not depend on how many are asked for.

        Args:
            steps: how many rows ahead.
            draws: how many draws.
            inputs: those of the rows ahead, shape (steps, k), where the model takes inputs.
            key: random key.
        """
        return forecast(self, steps, draws, inputs=inputs, key=key)

    def predictive(
        self, draws: int, *, start: int = 0, stop: int | None = None, key: PRNGKeyArray
    ) -> Float[np.ndarray, "draw time obs"]:
        """Observations of rows `start, ..., stop - 1` simulated given draws of the path, also where none were made.

        Exactly observed columns are those of the path. With one key, `theta`, `path` and this are joint draws.
        """
        return predictive(self, draws, start=start, stop=stop, key=key)

    def predictive_check(self, *, draws: int = 1_000, rate: float = 0.05, key: PRNGKeyArray) -> PredictiveCheck:
        """Could the model have made these data? Figures of them among those of series simulated anew, gap by gap alike.

        Args:
            draws: replicated series.
            rate: of false alarms, of all figures together.
            key: random key.
        """
        return predictive_check(self, draws=draws, rate=rate, key=key)

    def to_datatree(
        self,
        *,
        draws: int | None = None,
        paths: int = 100,
        forecast: Forecast | int | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Any:
        """An `xarray.DataTree` by the ArviZ schema, with names and real times, which `to_netcdf` writes to a file.

        Groups: `posterior` (θ), `posterior_paths` (x of the first draws, joint with θ of the same chain and draw),
        `posterior_predictive`, `observed_data`, `constant_data` (inputs), `sample_stats`, `fit_history` (the ELBO), and with
        a forecast `predictions` and `predictions_constant_data`.

        Args:
            draws: of θ; by default 1,000 of a fit, and all of chains, which keep their layout.
            paths: draws of the path and of simulated observations. More than 256 MB of them are refused; see `to_zarr`.
            forecast: one that was made, or the number of steps ahead of one to make.
            key: random key; fixed unless given.
        """
        from nmax.export import to_datatree  # only here, since xarray takes a while to import

        return to_datatree(self, draws=draws, paths=paths, forecast=forecast, key=key)

    def to_zarr(
        self,
        folder: str | os.PathLike[str],
        *,
        draws: int | None = None,
        paths: int = 100,
        chunk: int = 8_192,
        forecast: Forecast | int | None = None,
        summary: bool = False,
        share: tuple[int, int] = (0, 1),
        key: PRNGKeyArray | None = None,
    ) -> Path:
        """Write the tree of `to_datatree` as Zarr, `chunk` rows at a time: paths are never in memory as a whole.

        `xarray.open_datatree(folder, engine="zarr")` opens it, and reads what is looked at. A call that was stopped leaves a
        hidden folder beside it, `.NAME.partial`, and the same call goes on from there. Several processes may share the work.

        Args:
            folder: a new folder.
            draws: of θ.
            paths: draws of the path and of simulated observations.
            chunk: rows that are made, written and later read together.
            forecast: one that was made, or the number of steps ahead of one to make.
            summary: keep no paths, only mean, sd and quantiles of them at each step, in the group `path_summary`.
            share: (k, n), the part of the k-th of n processes that make the same call: every n-th chunk. The last of them to
                be ready gives the folder its name.
            key: random key; fixed unless given. The same key gives the arrays of `to_datatree`, whatever the chunks.
        """
        from nmax.export import to_zarr

        options: Any = {"forecast": forecast, "summary": summary, "share": share, "key": key}
        return to_zarr(self, folder, draws=draws, paths=paths, chunk=chunk, **options)
