"""Figures of a series with gaps, by which simulated ones are held against the real one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

TAILS = (0.05, 0.95)


class Pattern(NamedTuple):
    """Which entries of a series were observed, and which observations of a column follow each other.

    Attributes:
        columns: their names.
        observed: for each column, the rows with an observation.
        pairs: for each column, the rows of successive observations that are `lags` apart.
        lags: for each column the most common distance between successive observations, in steps.
    """

    columns: tuple[str, ...]
    observed: tuple[Int[np.ndarray, " row"], ...]
    pairs: tuple[Int[np.ndarray, "pair two"], ...]
    lags: tuple[int, ...]

    @classmethod
    def of(
        cls, observed: Bool[np.ndarray, "row obs"], index: Int[np.ndarray, " row"], length: int, columns: tuple[str, ...]
    ) -> Pattern:
        """The pattern of stretches of `length` rows one after the other, `index` being their rows in the series."""
        known, pairs, lags = [], [], []
        for column in observed.T:
            (rows,) = column.nonzero()
            together = rows[1:] // length == rows[:-1] // length
            gaps = np.where(together, index[rows[1:]] - index[rows[:-1]], 0)
            lag = int(np.argmax(np.bincount(gaps[gaps > 0]))) if (gaps > 0).any() else 0
            fits = gaps == lag if lag else np.zeros(len(gaps), bool)
            known.append(rows)
            pairs.append(np.stack([rows[:-1][fits], rows[1:][fits]], axis=1))
            lags.append(lag)
        return cls(columns, tuple(known), tuple(pairs), tuple(lags))


def tail_limits(made: Float[np.ndarray, "draw row obs"], observed: Bool[np.ndarray, "row obs"]) -> list[np.ndarray]:
    """For each column the quantiles of simulated observations beyond which the tails begin."""
    limits = []
    for column in range(made.shape[2]):
        values = made[:, observed[:, column], column]
        values = values[np.isfinite(values)]
        limits.append(np.quantile(values, TAILS) if len(values) else np.full(2, np.nan))
    return limits


def statistics(
    series: Float[np.ndarray, "draw row obs"], pattern: Pattern, limits: list[np.ndarray]
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Figures of each series, NaN for one that is not finite at every observation."""
    out = {}
    for k, name in enumerate(pattern.columns):
        values = np.asarray(series[:, pattern.observed[k], k], np.float64)
        if not values.shape[1]:
            continue
        fine = np.all(np.isfinite(values), axis=1)
        values = np.where(fine[:, None], values, 0.0)
        low, high = limits[k]
        figures = {
            "mean": values.mean(axis=1),
            "sd": values.std(axis=1),
            "minimum": values.min(axis=1),
            "maximum": values.max(axis=1),
        }
        if len(pattern.pairs[k]) > 2:
            first, second = (np.asarray(series[:, rows, k], np.float64) for rows in pattern.pairs[k].T)
            figures[f"correlation at lag {pattern.lags[k]}"] = _correlation(first, second)
        figures[f"share below {low:.4g}"] = np.mean(values < low, axis=1)
        figures[f"share above {high:.4g}"] = np.mean(values > high, axis=1)
        out |= {f"{name}: {figure}": np.where(fine, value, np.nan) for figure, value in figures.items()}
    return out


def _correlation(first: np.ndarray, second: np.ndarray) -> Float[np.ndarray, " draw"]:
    """The correlation of two sets of numbers, NaN where one of them does not vary."""
    with np.errstate(invalid="ignore"):  # series that are not finite
        a, b = first - first.mean(axis=1, keepdims=True), second - second.mean(axis=1, keepdims=True)
        size = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
        return np.where(size > 0, (a * b).sum(axis=1) / np.where(size > 0, size, 1.0), np.nan)
