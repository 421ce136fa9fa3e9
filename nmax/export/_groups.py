"""The groups of the tree, each a dataset with names and real times as coordinates."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from nmax._forecast import Forecast
from nmax.data import Table
from nmax.export._source import Source

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the path at each step


def parameters(source: Source) -> xr.Dataset:
    """`posterior`: draws of θ."""
    variables = {}
    for name, values in source.theta.items():
        axes = [f"{name}_dim_{k}" for k in range(values.ndim - 2)]
        variables[name] = (("chain", "draw", *axes), values)
    return xr.Dataset(variables, _draws(source.chains, source.draw))


def paths(source: Source, x: Float[np.ndarray, "chain path time state"], start: int) -> xr.Dataset:
    """`posterior_paths`: draws of the states from row `start` on, which belong to the θ with the same chain and draw."""
    coords = {**_draws(source.chains, source.path_draw), **_times(source.posterior.table, start, x.shape[2])}
    coords["state"] = list(source.posterior.model.state_names)
    return xr.Dataset({"x": (("chain", "draw", "time", "state"), x)}, coords)


def seen(source: Source, x: Float[np.ndarray, "chain path time state"], start: int) -> xr.Dataset:
    """`posterior_predictive`: observations simulated given these states."""
    coords = {**_draws(source.chains, source.path_draw), **_times(source.posterior.table, start, x.shape[2])}
    coords["column"] = list(source.posterior.table.columns)
    return xr.Dataset({"y": (("chain", "draw", "time", "column"), source.seen(x, start))}, coords)


def path_summary(source: Source, x: Float[np.ndarray, "chain path time state"], start: int) -> xr.Dataset:
    """`path_summary`: mean, standard deviation and quantiles of the states from row `start` on, over all paths."""
    flat = x.reshape(-1, *x.shape[2:])
    axes = ("time", "state")
    variables = {
        "mean": (axes, flat.mean(axis=0, dtype=np.float64).astype(np.float32)),
        "sd": (axes, flat.std(axis=0, ddof=1, dtype=np.float64).astype(np.float32)),
        "quantile": (("level", *axes), np.quantile(flat, QUANTILES, axis=0).astype(np.float32)),
    }
    coords = {**_times(source.posterior.table, start, x.shape[2]), "state": list(source.posterior.model.state_names)}
    return xr.Dataset(variables, {**coords, "level": list(QUANTILES)}, {"paths": len(flat)})


def data(table: Table, start: int, stop: int) -> dict[str, xr.Dataset]:
    """`observed_data`, NaN where nothing was observed, and `constant_data`, the inputs, of rows `start, ..., stop - 1`."""
    times = _times(table, start, stop - start)
    y = {"y": (("time", "column"), np.asarray(table.y[start:stop]))}
    groups = {"observed_data": xr.Dataset(y, {**times, "column": list(table.columns)})}
    if table.inputs is not None:
        u = {"u": (("time", "input"), np.asarray(table.inputs[start:stop]))}
        groups["constant_data"] = xr.Dataset(u, {**times, "input": list(table.input_columns)})
    return groups


def predictions(forecast: Forecast) -> dict[str, xr.Dataset]:
    """`predictions`, states and observations ahead, and `predictions_constant_data`, the inputs assumed."""
    times = {"time": _time(forecast.times, forecast.time_name)}
    coords = {**_draws(1, np.arange(len(forecast.y))), **times}
    coords |= {"column": list(forecast.columns), "state": list(forecast.state_names)}
    variables = {
        "y": (("chain", "draw", "time", "column"), forecast.y[None]),
        "x": (("chain", "draw", "time", "state"), forecast.x[None]),
    }
    groups = {"predictions": xr.Dataset(variables, coords, {"notes": list(forecast.notes)} if forecast.notes else {})}
    if forecast.inputs is not None:
        inputs = {"u": (("time", "input"), forecast.inputs)}
        groups["predictions_constant_data"] = xr.Dataset(inputs, {**times, "input": list(forecast.input_columns)})
    return groups


def stats(source: Source) -> xr.Dataset:
    """`sample_stats`: how each draw was made."""
    variables = {name: (("chain", "draw"), values) for name, values in source.stats.items()}
    return xr.Dataset(variables, _draws(source.chains, source.draw))


def history(posterior: Any) -> dict[str, xr.Dataset]:
    """`fit_history`: the parts of the ELBO along a fit, in nats; nothing for chains."""
    if not hasattr(posterior, "history"):
        return {}
    kept = posterior.history
    parts = {**kept._asdict(), "total": kept.total}
    variables = {name: ("step", np.asarray(values)) for name, values in parts.items()}
    return {"fit_history": xr.Dataset(variables, {"step": np.arange(len(kept.total))})}


def facts(posterior: Any) -> dict[str, Any]:
    """Where a tree comes from, how its fit ended, and whether it is to be trusted."""
    checked = getattr(posterior, "checked", None)
    known = {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "inference_library": "nmax",
        "inference_library_version": version("nmax"),
        "model": type(posterior.model).__name__,
        "sampling_time": float(posterior.seconds),
        "steps": int(sum(posterior.series.lengths)),
    }
    if hasattr(posterior, "reason"):
        known |= {"reason": posterior.reason, "converged": str(bool(posterior.converged))}
        known["could_change"] = posterior.convergence.could_change
        known["verdict"] = "not checked" if checked is None else checked.verdict
    else:
        known["warnings"] = list(posterior.warnings())
    notes = list(dict.fromkeys([*posterior.table.notes, *posterior.notes]))  # a fit's own begin with those of the table
    return {name: value for name, value in {**known, "notes": notes}.items() if not isinstance(value, list) or value}


def _draws(chains: int, draw: np.ndarray) -> dict[str, Any]:
    return {"chain": np.arange(chains), "draw": draw}


def _times(table: Table, start: int, rows: int) -> dict[str, Any]:
    counted = np.arange(start, start + rows) if table.times is None else table.times[start : start + rows]
    return {"time": _time(counted, table.time_name)}


def _time(times: np.ndarray, name: str) -> Any:
    coarse = np.issubdtype(times.dtype, np.datetime64) and np.datetime_data(times.dtype)[0] not in ("s", "ms", "us", "ns")
    return ("time", times.astype("datetime64[s]") if coarse else times, {"long_name": name})  # what xarray can hold
