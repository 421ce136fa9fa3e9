"""Rolling origins: fit up to a row, forecast the rows after it, and score the forecasts against what came."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._check import check_count, check_key, names_its_options
from nmax._crps import crps
from nmax._fit import fit
from nmax._forecast import Forecast, forecast_from, inputs_of
from nmax._naive import naive_forecasts
from nmax._score_table import Score
from nmax._validate import check_model
from nmax.data import Table, make_series, one_table
from nmax.models import AbstractModel

LEVELS = (0.5, 0.8, 0.95)
LEAST = 2  # rows with an observation before the first origin


@names_its_options
def score(
    model: AbstractModel,
    y: Any,
    *,
    horizon: int,
    origins: int | Sequence[int] = 5,
    draws: int = 500,
    levels: Sequence[float] = LEVELS,
    inputs: Any = None,
    key: PRNGKeyArray,
    progress: bool = True,
) -> Score:
    """Fit a model to the series up to several rows, its origins, and score forecasts of the rows that follow each.

    A fit sees the observations up to its origin and nothing after it; inputs are taken to be known in advance. Two
    forecasts that need no model are scored beside it: the last value, and the distribution of all past values.

    Args:
        model: the model.
        y: the series, as for `nmax.fit`. Missing entries are not scored.
        horizon: rows ahead.
        origins: how many, spread over the second half of the series, or the rows themselves.
        draws: of each forecast.
        levels: of the central intervals whose coverage is counted.
        inputs: as for `nmax.fit`.
        key: random key.
        progress: whether to show a bar.
    """
    begun, key = time.perf_counter(), check_key(key)
    horizon, draws = check_count("horizon", horizon), check_count("draws", draws, least=2)
    levels = _levels(levels)
    table = one_table(y, inputs, step=getattr(model, "dt", None))
    table = dataclasses.replace(table, y=np.asarray(table.y))  # fits to parts of it need all of it in memory
    series = make_series(table.y, table.inputs)
    rows = _origins(origins, horizon, np.any(np.isfinite(table.y), axis=1))
    check_model(model, series)
    forecasts = []
    for number, origin in enumerate(_counted(rows.tolist(), progress)):
        forecasts.append(_forecast(model, table, origin, int(rows[-1]), horizon, draws, jr.fold_in(key, number)))
    return _scored(table, rows, horizon, tuple(forecasts), levels, time.perf_counter() - begun)


def _forecast(
    model: AbstractModel, table: Table, origin: int, last: int, horizon: int, draws: int, key: PRNGKeyArray
) -> Forecast:
    """Forecast from the fit to a table in which all after the origin is missing."""
    fit_key, draw_key = jr.split(key)
    known = up_to(table, origin, last, model)
    posterior = fit(model, known, key=fit_key, progress=False)
    first, stop = origin + 1, origin + 1 + horizon
    return forecast_from(posterior, origin, inputs_of(table, first, stop), draws, table.index[first:stop], key=draw_key)


def up_to(table: Table, origin: int, last: int, model: AbstractModel) -> Table:
    """The table with nothing observed after row `origin`.

    It keeps its length, one row more than up to the last origin, so that the fits of all origins share what the first has
    compiled: five origins of AR(1) took 45 s of a core instead of 88. A component that is observed exactly would have to be
    drawn where nothing was observed, another and harder problem: there the table ends at the origin.
    """
    end = origin + 1 if model.exactly_observed else last + 2
    y = np.array(table.y[:end], float)
    y[origin + 1 :] = np.nan
    inputs = None if table.inputs is None else table.inputs[:end]
    times = None if table.times is None else table.times[:end]
    return dataclasses.replace(table, y=y, inputs=inputs, times=times)


def _scored(
    table: Table, rows: np.ndarray, horizon: int, forecasts: tuple[Forecast, ...], levels: tuple[float, ...], seconds: float
) -> Score:
    y = np.stack([table.y[origin + 1 : origin + 1 + horizon] for origin in rows]).astype(np.float64)
    naive = [naive_forecasts(table.y[: origin + 1], horizon, len(forecasts[0].y)) for origin in rows]
    ends = np.array([[0.5 - 0.5 * level, 0.5 + 0.5 * level] for level in levels])
    bounds = np.stack([one.quantiles(ends.ravel()).reshape(len(levels), 2, horizon, -1) for one in forecasts], axis=2)
    inside = np.where(np.isfinite(y), (bounds[:, 0] <= y) & (y <= bounds[:, 1]), np.nan)
    return Score(
        origins=rows,
        times=table.index[rows],
        columns=table.columns,
        levels=levels,
        observed=y,
        crps=np.stack([crps(one.y, real) for one, real in zip(forecasts, y, strict=True)]),
        naive={name: np.stack([crps(one[name], real) for one, real in zip(naive, y, strict=True)]) for name in naive[0]},
        inside=inside,
        forecasts=forecasts,
        seconds=seconds,
    )


def _origins(origins: Any, horizon: int, seen: np.ndarray) -> np.ndarray:
    """The rows of the origins: the last ones that a fit sees."""
    steps = len(seen) - 1
    if isinstance(origins, Sequence) or isinstance(origins, np.ndarray):
        rows = np.unique([check_count("origins", row) for row in origins])
        if not len(rows) or rows[-1] > steps - horizon:
            raise ValueError(
                f"`origins` must be rows from 1 to {steps - horizon}, so that `horizon` = {horizon} of the {steps + 1} rows "
                f"follow each; got {list(origins)}."
            )
    else:
        count = check_count("origins", origins)
        if steps - horizon < max(steps // 2, 1):
            raise ValueError(
                f"`horizon` must be at most {steps - max(steps // 2, 1)}, so that half of the {steps + 1} rows are left to "
                f"fit to; got {horizon}. Pass a smaller one, or rows as `origins`."
            )
        rows = np.unique(np.linspace(max(steps // 2, 1), steps - horizon, count + 1)[1:].round().astype(int))
    if (known := int(seen[: rows[0] + 1].sum())) < LEAST:
        raise ValueError(
            f"At least {LEAST} rows up to the first of `origins`, {rows[0]}, must have an observation; {known} have. Pass "
            "later rows as `origins`."
        )
    return rows


def _levels(levels: Any) -> tuple[float, ...]:
    values = tuple(float(level) for level in np.atleast_1d(np.asarray(levels, float)))
    if not values or not all(0 < level < 1 for level in values):
        raise ValueError(f"`levels` must be numbers between 0 and 1; got {levels!r}.")
    return values


def _counted(rows: list[int], progress: bool) -> Any:
    if not progress:
        return rows
    from tqdm import tqdm

    return tqdm(rows, desc="origins", unit="fit", file=sys.stderr, dynamic_ncols=True)
