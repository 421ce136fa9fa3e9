"""Forecasts that need no model, against which one that does must prove itself."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

FEWEST = 20  # pairs of observations from which the spread of a difference is taken as it is
NORMAL = ndtri((np.arange(200) + 0.5) / 200)  # in place of them where there are fewer


def naive_forecasts(known: Float[np.ndarray, "rows obs"], horizon: int, most: int) -> dict[str, np.ndarray]:
    """Ensembles of shape (draw, step, column), filled up with NaN, for the rows after the last of `known`.

    *last value*: the last observation plus the differences between earlier ones that are as far apart; where there are fewer
    than 20 of these, normal ones whose variance grows with the distance. *past values*: all observations so far.
    """
    columns = [
        (_after_last(column, horizon, most), _like_the_past(column, horizon, most)) for column in np.asarray(known, float).T
    ]
    last, past = (_padded(parts) for parts in zip(*columns, strict=True))
    return {"last value": last, "past values": past}


def _after_last(column: Float[np.ndarray, " rows"], horizon: int, most: int) -> list[np.ndarray]:
    (rows,) = np.isfinite(column).nonzero()
    if len(rows) < 2:
        return [np.empty(0)] * horizon
    gaps = np.diff(rows)
    per_step = np.mean(np.diff(column[rows]) ** 2 / gaps)
    out = []
    for lag in len(column) - 1 - rows[-1] + np.arange(1, horizon + 1):
        difference = column[lag:] - column[:-lag] if lag < len(column) else np.empty(0)
        difference = difference[np.isfinite(difference)]
        if len(difference) < FEWEST:
            difference = np.sqrt(per_step * lag) * NORMAL
        out.append(column[rows[-1]] + _thinned(difference, most))
    return out


def _like_the_past(column: Float[np.ndarray, " rows"], horizon: int, most: int) -> list[np.ndarray]:
    return [_thinned(column[np.isfinite(column)], most)] * horizon


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    return values if len(values) <= most else values[np.linspace(0, len(values) - 1, most).astype(int)]


def _padded(columns: tuple[list[np.ndarray], ...]) -> Float[np.ndarray, "draw step obs"]:
    most = max(max(len(draws) for draws in steps) for steps in columns)
    out = np.full((max(most, 1), len(columns[0]), len(columns)), np.nan)
    for k, steps in enumerate(columns):
        for h, draws in enumerate(steps):
            out[: len(draws), h, k] = draws
    return out
