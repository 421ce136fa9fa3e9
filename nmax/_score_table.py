"""What forecasts from rolling origins came to, and the table that it prints of itself."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

from nmax._forecast import Forecast
from nmax._forecast_table import spread_rows, written

SHOWN = 6  # steps ahead that are printed
SURE = 0.95  # confidence at which the model is said to be better or worse, by Student's t over the origins


@dataclasses.dataclass(frozen=True, repr=False)
class Score:
    """Forecasts of a model, scored against what came, beside two that need no model.

    Attributes:
        origins: the rows up to which each fit saw the data.
        times: of these rows.
        columns: names of the columns of `y`.
        levels: of the central intervals.
        observed: what came, NaN where nothing was observed.
        crps: of the model, in the unit of each column; lower is better, NaN where there is nothing to score.
        naive: the same of "last value" and "past values".
        inside: for each level, whether the observation lay in the interval (1) or not (0), NaN where there was none.
        forecasts: of each origin.
        seconds: wall clock.
    """

    origins: Int[np.ndarray, " origin"]
    times: np.ndarray
    columns: tuple[str, ...]
    levels: tuple[float, ...]
    observed: Float[np.ndarray, "origin horizon column"]
    crps: Float[np.ndarray, "origin horizon column"]
    naive: dict[str, Float[np.ndarray, "origin horizon column"]]
    inside: Float[np.ndarray, "level origin horizon column"]
    forecasts: tuple[Forecast, ...]
    seconds: float

    @property
    def coverage(self) -> Float[np.ndarray, "level column"]:
        """Share of the observations inside each interval."""
        return _mean(self.inside, (1, 2))

    def skill(self, against: str) -> Float[np.ndarray, " column"]:
        """1 − CRPS / CRPS of a naive forecast, over all that both have a score for: 1 is perfect, below 0 is worse."""
        if against not in self.naive:
            raise ValueError(f"`against` must be one of {', '.join(self.naive)}; got {against!r}.")
        both = np.isfinite(self.crps) & np.isfinite(self.naive[against])
        mine, theirs = (_mean(np.where(both, one, np.nan), (0, 1)) for one in (self.crps, self.naive[against]))
        return 1 - mine / np.where(theirs > 0, theirs, np.nan)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the forecasts have to say of themselves."""
        return tuple(
            f"from row {origin}: {note}"
            for origin, one in zip(self.origins, self.forecasts, strict=True)
            for note in one.notes
        )

    def __str__(self) -> str:
        steps = self.crps.shape[1]
        first, last = written(self.times[0]), written(self.times[-1])
        origins = f"{len(self.origins)} origins, {first} to {last}" if len(self.origins) > 1 else f"one origin, {first}"
        draws = len(self.forecasts[0].y)
        lines = [f"{origins}; {steps} steps ahead, {draws} draws; CRPS, lower is better; {self.seconds:.0f} s"]
        for k, name in enumerate(self.columns):
            lines += ["", f"{name:<12}{'model':>12}" + "".join(f"{rival:>14}" for rival in self.naive)]
            for step in spread_rows(steps, SHOWN):
                lines.append(f"{f'step {step + 1}':<12}" + self._row((slice(None), slice(step, step + 1)), k))
            lines.append(f"{'all steps':<12}" + self._row((slice(None), slice(None)), k))
            lines.append(self._coverage(k))
            lines += [self._against(rival, k) for rival in self.naive]
        return "\n".join([*lines, *([""] if self.notes else []), *self.notes])

    __repr__ = __str__

    def _row(self, where: tuple[slice, slice], column: int) -> str:
        figures = [_mean(one[(*where, column)], None) for one in (self.crps, *self.naive.values())]
        return f"{figures[0]:>12.4g}" + "".join(f"{figure:>14.4g}" for figure in figures[1:])

    def _coverage(self, column: int) -> str:
        count = int(np.isfinite(self.inside[0, :, :, column]).sum())
        shares = ", ".join(f"{level:.0%}: {share:.0%}" for level, share in zip(self.levels, self.coverage[:, column]))
        return f"inside the interval of {shares} of {count} observations"

    def _against(self, rival: str, column: int) -> str:
        mine, theirs = (_mean(one[:, :, column], 1) for one in (self.crps, self.naive[rival]))
        scored = np.isfinite(mine) & np.isfinite(theirs)
        if not scored.any():
            return f"nothing to compare with the {rival}"
        gain, skill, count = theirs[scored] - mine[scored], self.skill(rival)[column], int(scored.sum())
        error = float(np.std(gain, ddof=1)) / np.sqrt(count) if count > 1 else np.inf
        sure = abs(gain.mean()) > stdtrit(max(count - 1, 1), 0.5 + 0.5 * SURE) * error
        word = ("better than" if gain.mean() > 0 else "worse than") if sure else "cannot be told apart from"
        size = f"{skill:+.2f} ± {error / theirs[scored].mean():.2f}" if count > 1 else f"{skill:+.2f}"
        return f"{word} the {rival}: skill {size}, ahead at {np.sum(gain > 0)} of {count} origins"


def _mean(array: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray:
    """The mean of what is there; NaN where nothing is."""
    there = np.isfinite(array)
    count = there.sum(axis=axis)
    return np.where(there, array, 0.0).sum(axis=axis) / np.where(count > 0, count, np.nan)
