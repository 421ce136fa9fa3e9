"""A fit as a Zarr folder, written piece by piece along time: no path is ever in memory as a whole."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np
import xarray as xr
import zarr
from jaxtyping import PRNGKeyArray
from xarray.conventions import encode_cf_variable

from nmax._check import check_count, check_key
from nmax._forecast import Forecast
from nmax._identity import data_identity
from nmax._store import plain
from nmax.export._pieces import Pieces
from nmax.export._source import Source, source_of
from nmax.export._tree import forecast_of, small_groups, stretch, summary_of_stretch

CHUNK = 8_192  # rows
PLAIN: Any = {"zarr_format": 2, "consolidated": False}  # the third format has no settled way to hold strings
ALONE = (0, 1)
UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def to_zarr(
    posterior: Any,
    folder: str | os.PathLike[str],
    *,
    draws: int | None = None,
    paths: int = 100,
    chunk: int = CHUNK,
    forecast: Forecast | int | None = None,
    summary: bool = False,
    share: tuple[int, int] = ALONE,
    told: Callable[[], object] = lambda: None,
    key: PRNGKeyArray | None = None,
) -> Path:
    """Write the tree of `to_datatree` to a new folder, `chunk` rows at a time; see `nmax.Posterior.to_zarr`.

    `told` is called after each piece.
    """
    key = jr.key(0) if key is None else check_key(key)
    chunk, folder, share = check_count("chunk", chunk), Path(folder), _share(share)
    if folder.exists():
        raise FileExistsError(f"`folder` must not exist yet, so that nothing is written over; {folder} does. Pass another.")
    made = forecast_of(posterior, forecast, key)
    source = source_of(posterior, draws, paths, key=key)
    rows = posterior.series.length + 1
    part_of = summary_of_stretch if summary else stretch
    pieces, request = Pieces(folder, -(-rows // chunk)), _request(source, chunk, summary, made)
    pieces.check(request)

    @functools.lru_cache(maxsize=1)
    def piece(number: int) -> dict[str, xr.Dataset]:
        return part_of(source, number * chunk, min((number + 1) * chunk, rows))

    def prepare(content: Path) -> None:
        xr.DataTree.from_dict(small_groups(source, made), name="nmax").to_zarr(content, mode="w", **PLAIN)
        for group, part in piece(first).items():
            _made_room(part, content, group, min(chunk, rows), rows)

    first = next(pieces.open(share), 0)
    piece(first)  # what is compiled for it is compiled now, while nobody waits: others are kept out while it is prepared
    pieces.begin(request, prepare)
    for number in pieces.open(share):
        for group, part in piece(number).items():
            _put(part, pieces.content / group, slice(number * chunk, min((number + 1) * chunk, rows)))
        pieces.done(number)
        told()
    pieces.finish(lambda content: zarr.consolidate_metadata(str(content), zarr_format=2))
    return folder


def _put(part: xr.Dataset, folder: Path, rows: slice) -> None:
    """Write a stretch to its place in the arrays of a group."""
    opened: Any = zarr.open_group(str(folder), mode="r+", zarr_format=2)
    for name, variable in _along(part).items():
        place = tuple(rows if axis == "time" else slice(None) for axis in variable.dims)
        written = xr.Variable(variable.dims, variable.values, encoding=_encoding(variable))
        opened[name][place] = encode_cf_variable(written, name=name).values


def _along(part: xr.Dataset) -> dict[str, xr.Variable]:
    """The variables and coordinates that run along the series."""
    return {str(name): variable for name, variable in part.variables.items() if "time" in variable.dims}


def _made_room(part: xr.Dataset, folder: Path, group: str, chunk: int, rows: int) -> None:
    """Write the first stretch of a group, then lengthen its arrays to the whole series, whose rest is not written yet."""
    along = _along(part)
    encoding = {
        name: {"chunks": tuple(chunk if axis == "time" else size for axis, size in each.sizes.items()), **_encoding(each)}
        for name, each in along.items()
    }
    part.to_zarr(folder, group=group, mode="a", **PLAIN, encoding=encoding)
    opened: Any = zarr.open_group(str(folder / group), mode="r+", zarr_format=2)
    for name, each in along.items():
        opened[name].resize(tuple(rows if axis == "time" else size for axis, size in each.sizes.items()))


def _encoding(variable: xr.Variable) -> dict[str, str]:
    """How times are written, alike for every stretch of a series; nothing for numbers."""
    if not np.issubdtype(variable.dtype, np.datetime64):
        return {}
    return {"units": f"{UNITS[np.datetime_data(variable.dtype)[0]]} since 1970-01-01", "dtype": "int64"}


def _request(source: Source, chunk: int, summary: bool, forecast: Forecast | None) -> dict[str, Any]:
    """What a folder is asked for; draws of θ stand for the fit and the key. Several series share θ, hence the data."""
    digest = hashlib.sha256()
    for name in sorted(source.theta):
        digest.update(np.ascontiguousarray(source.theta[name]).tobytes())
    ahead = "" if forecast is None else hashlib.sha256(np.ascontiguousarray(forecast.y).tobytes()).hexdigest()
    shape = {"rows": source.posterior.series.length + 1, "draws": len(source.draw), "paths": len(source.path_draw)}
    data = hashlib.sha256(json.dumps(plain(data_identity(source.posterior.series)), sort_keys=True).encode()).hexdigest()
    return {**shape, "data": data, "chunk": chunk, "summary": summary, "theta": digest.hexdigest(), "forecast": ahead}


def _share(share: tuple[int, int]) -> tuple[int, int]:
    number, count = share
    if not (count >= 1 and 0 <= number < count):
        raise ValueError(f"`share` must be (k, n) with 0 <= k < n: the k-th of n processes; got {share}.")
    return number, count
