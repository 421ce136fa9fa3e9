"""A fit as a Zarr folder, written piece by piece along time: no path is ever in memory as a whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import jax.random as jr
import xarray as xr
import zarr
from jaxtyping import PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._forecast import Forecast
from nmax.export._source import source_of
from nmax.export._tree import forecast_of, small_groups, stretch

CHUNK = 8_192  # rows
PLAIN: Any = {"zarr_format": 2, "consolidated": False}  # the third format has no settled way to hold strings


def to_zarr(
    posterior: Any,
    folder: str | os.PathLike[str],
    *,
    draws: int | None = None,
    paths: int = 100,
    chunk: int = CHUNK,
    forecast: Forecast | int | None = None,
    key: PRNGKeyArray | None = None,
) -> Path:
    """Write the tree of `to_datatree` to a new folder, `chunk` rows at a time; see `nmax.Posterior.to_zarr`."""
    key = jr.key(0) if key is None else check_key(key)
    chunk, folder = check_count("chunk", chunk), Path(folder)
    if folder.exists():
        raise FileExistsError(f"`folder` must not exist yet, so that nothing is written over; {folder} does. Pass another.")
    made = forecast_of(posterior, forecast, key)
    source = source_of(posterior, draws, paths, key=key)
    rows = posterior.series.length + 1
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    try:
        xr.DataTree.from_dict(small_groups(source, made), name="nmax").to_zarr(partial, mode="w", **PLAIN)
        for start in range(0, rows, chunk):
            for group, part in stretch(source, start, min(start + chunk, rows)).items():
                _append(part, partial, group, start, min(chunk, rows))
        zarr.consolidate_metadata(str(partial), zarr_format=2)
        os.replace(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return folder


def _append(part: xr.Dataset, folder: Path, group: str, start: int, chunk: int) -> None:
    """Write a stretch behind what is there."""
    if start:
        part.to_zarr(folder, group=group, append_dim="time", **PLAIN)
        return
    (name,) = part.data_vars
    chunks = tuple(chunk if axis == "time" else size for axis, size in part[name].sizes.items())
    part.to_zarr(folder, group=group, mode="a", **PLAIN, encoding={name: {"chunks": chunks}})
