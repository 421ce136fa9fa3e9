"""A fit as an `xarray.DataTree` by the ArviZ schema."""

from __future__ import annotations

from typing import Any

import jax.random as jr
import xarray as xr
from jaxtyping import PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._forecast import Forecast
from nmax.export import _groups as groups
from nmax.export._source import Source, source_of

LARGEST = 256 * 2**20  # bytes of paths and simulated observations that a tree may hold in memory
FORECASTS = 500  # draws of a forecast that is made here


def to_datatree(
    posterior: Any,
    *,
    draws: int | None = None,
    paths: int = 100,
    forecast: Forecast | int | None = None,
    key: PRNGKeyArray | None = None,
) -> xr.DataTree:
    """A fit or chains as a tree of labelled arrays, for ArviZ and for files; see `nmax.Posterior.to_datatree`."""
    key = jr.key(0) if key is None else check_key(key)
    made = forecast_of(posterior, forecast, key)
    source = source_of(posterior, draws, paths, key=key)
    check_size(source)
    parts = {**small_groups(source, made), **stretch(source, 0, posterior.series.length + 1)}
    return xr.DataTree.from_dict(parts, name="nmax")


def small_tree(posterior: Any, *, draws: int, key: PRNGKeyArray | None = None) -> xr.DataTree:
    """The part of the tree that does not grow with the series: neither paths nor data."""
    source = source_of(posterior, draws, 1, key=jr.key(0) if key is None else check_key(key))
    return xr.DataTree.from_dict(small_groups(source, None), name="nmax")


def stretch(source: Source, start: int, stop: int) -> dict[str, xr.Dataset]:
    """Rows `start, ..., stop - 1` of the groups that run along the series."""
    x = source.path(start, stop)
    paths = {"posterior_paths": groups.paths(source, x, start), "posterior_predictive": groups.seen(source, x, start)}
    return {**groups.data(source.posterior.table, start, stop), **paths}


def summary_of_stretch(source: Source, start: int, stop: int) -> dict[str, xr.Dataset]:
    """The same with mean, sd and quantiles of each row's states in place of paths and simulated observations."""
    summary = {"path_summary": groups.path_summary(source, source.path(start, stop), start)}
    return {**groups.data(source.posterior.table, start, stop), **summary}


def small_groups(source: Source, forecast: Forecast | None) -> dict[str, xr.Dataset]:
    """The groups that do not grow with the series."""
    posterior = source.posterior
    known = groups.facts(posterior)
    parts = {
        "/": xr.Dataset(attrs=known),
        "posterior": groups.parameters(source).assign_attrs(known),
        "sample_stats": groups.stats(source),
        **groups.history(posterior),
    }
    return parts if forecast is None else {**parts, **groups.predictions(forecast)}


def forecast_of(posterior: Any, forecast: Forecast | int | None, key: PRNGKeyArray) -> Forecast | None:
    """A forecast as it is, or one of so many steps, made with the same key as everything else."""
    if forecast is None or isinstance(forecast, Forecast):
        return forecast
    if posterior.series.has_inputs:
        raise ValueError(
            "The model takes inputs, so `forecast` cannot be a number of steps: pass "
            "`forecast=posterior.forecast(steps, draws, inputs=..., key=...)`."
        )
    return posterior.forecast(check_count("forecast", forecast), FORECASTS, key=key)


def check_size(source: Source) -> None:
    """Refuse paths that would fill the memory."""
    posterior = source.posterior
    rows, columns = posterior.series.length + 1, posterior.series.columns + posterior.model.state_size
    size = 4 * source.chains * len(source.path_draw) * rows * columns
    if size > LARGEST:
        few = max(LARGEST // (4 * rows * columns), 1)
        raise ValueError(
            f"A tree must hold at most {LARGEST >> 20} MB of paths and simulated observations; "
            f"`paths={source.chains * len(source.path_draw)}` of {rows:,} rows would take {size >> 20:,} MB. Write them "
            f"piece by piece with `to_zarr(folder)`, or pass `paths={few}`."
        )
