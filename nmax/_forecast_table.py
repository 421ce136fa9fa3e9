"""The table that a forecast prints of itself."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

QUANTILES = (0.05, 0.5, 0.95)


@dataclasses.dataclass(frozen=True)
class ForecastSummary:
    """Mean, standard deviation and quantiles of a forecast, of every step and column.

    Attributes:
        times: of the steps.
        names: of the columns of `y`, then of the states.
        mean: over the draws that are finite.
        sd: likewise.
        quantiles: of 5 %, 50 % and 95 %.
        draws: how many there were.
        time_name: what the times are called.
        notes: of the forecast.
        rows: steps that are printed.
    """

    times: np.ndarray
    names: tuple[str, ...]
    mean: Float[np.ndarray, "step column"]
    sd: Float[np.ndarray, "step column"]
    quantiles: Float[np.ndarray, "level step column"]
    draws: int
    time_name: str
    notes: tuple[str, ...]
    rows: int

    @classmethod
    def of(
        cls,
        y: np.ndarray,
        x: np.ndarray,
        times: np.ndarray,
        columns: tuple[str, ...],
        states: tuple[str, ...],
        time_name: str,
        notes: tuple[str, ...],
        rows: int,
    ) -> ForecastSummary:
        """Summarise draws of the observations and the states."""
        both = np.concatenate([y, x], axis=2).astype(np.float64)
        names = (*columns, *(f"{name} (state)" if name in columns else name for name in states))
        mean, sd = over_draws(np.mean, both), over_draws(np.std, both, ddof=1)
        return cls(times, names, mean, sd, over_draws(np.quantile, both, QUANTILES), len(y), time_name, notes, rows)

    def __str__(self) -> str:
        shown = spread_rows(len(self.times), self.rows)
        times = {k: written(self.times[k]) for k in shown}
        width = max(len(self.time_name), *map(len, times.values()))
        heads = ("mean", "sd", *(f"{level:.0%}" for level in QUANTILES))
        lines = []
        for column, name in enumerate(self.names):
            lines += [
                "" if column else None,
                f"{self.time_name:>{width}}" + "".join(f"{h:>12}" for h in heads) + f"  {name}",
            ]
            for k in shown:
                figures = (self.mean[k, column], self.sd[k, column], *self.quantiles[:, k, column])
                lines.append(f"{times[k]:>{width}}" + "".join(f"{figure:>12.5g}" for figure in figures))
        steps = f"{len(self.times)} steps ahead, {self.draws} draws"
        return "\n".join([*(line for line in lines if line is not None), "", steps, *self.notes])

    __repr__ = __str__


def spread_rows(steps: int, rows: int) -> list[int]:
    """About so many of the steps: the first ones, the last, and some between that lie ever further apart."""
    return sorted({round(k) - 1 for k in np.geomspace(1, steps, min(rows, steps))})


def written(time: Any) -> str:
    """A time as it is read."""
    if isinstance(time, np.datetime64):
        return str(np.datetime_as_string(time, unit="auto")).replace("T", " ")
    return f"{time:d}" if isinstance(time, (int, np.integer)) else f"{time:.8g}"


def over_draws(figure: Any, draws: Float[np.ndarray, "draw step column"], *arguments: Any, **options: Any) -> np.ndarray:
    """A figure over the first axis, draws that are not finite left out; NaN where none are left."""
    if np.isfinite(draws).all():
        return figure(draws, *arguments, axis=0, **options)
    leaving_out = {np.mean: np.nanmean, np.std: np.nanstd, np.quantile: np.nanquantile}[figure]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps at which no draw is left
        return leaving_out(np.where(np.isfinite(draws), draws, np.nan), *arguments, axis=0, **options)
