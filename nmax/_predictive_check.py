"""Could the model have made these data? Figures of the series held against those of series simulated anew."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._forecast import continued, inputs_of, own_keys
from nmax._predictive import seen_along
from nmax._statistics import Pattern, statistics, tail_limits
from nmax._summary import table

ANEW, FIRST = 4, 5  # which of a draw's keys are for a series simulated anew, and for its first row
WHOLE = 20_000  # rows up to which the whole series is simulated
STRETCHES, STEPS = 8, 2_000  # beyond: so many stretches of so many rows
BATCH = 4_000_000  # numbers held at a time
FEWEST = 20  # replicates below which nothing is said


@dataclasses.dataclass(frozen=True)
class PredictiveCheck:
    """Where figures of the data lie among those of series that the model simulates with θ of the posterior.

    Attributes:
        observed: label -> figure of the data.
        replicated: label -> the same figure of every replicated series, NaN where it left the support.
        p: label -> two-sided tail probability of the observed figure among the replicated ones.
        level: what p must be at most to count as extreme.
        rate: probability at the most that any would by chance, were the model right.
        notes: how the series were made, in sentences.
    """

    observed: dict[str, float]
    replicated: dict[str, np.ndarray]
    p: dict[str, float]
    level: float
    rate: float
    notes: tuple[str, ...]

    @property
    def extreme(self) -> tuple[str, ...]:
        """Labels of the figures that the model does not replicate."""
        return tuple(label for label, p in self.p.items() if p <= self.level)

    def __str__(self) -> str:
        rows = {}
        for label, observed in self.observed.items():
            made = self.replicated[label][np.isfinite(self.replicated[label])]
            low, high = np.quantile(made, [0.05, 0.95]) if len(made) else (np.nan, np.nan)
            spread = {"mean": made.mean() if len(made) else np.nan, "5%": low, "95%": high}
            rows[label] = {"observed": observed, **spread, "p": self.p[label]}
        stated = f"p at most {self.level:.2g}; with a right model {self.rate:.1%} of such tables have any"
        said = f"not replicated by the model: {', '.join(self.extreme)}" if self.extreme else "no figure is extreme"
        if not np.isfinite(list(self.p.values())).any():
            said = "nothing can be said: too few series stay finite and in the support to compare with"
        return "\n".join([*table(rows, "figure"), "", f"{said} ({stated})", *self.notes])

    __repr__ = __str__


def predictive_check(posterior: Any, *, draws: int = 1_000, rate: float = 0.05, key: PRNGKeyArray) -> PredictiveCheck:
    r"""Simulate series anew from draws of θ, with the gaps of the data, and compare figures of both.

    For each column: mean, sd, minimum, maximum, correlation of successive observations, and the shares beyond the 5 % and
    95 % quantiles of the simulated ones. Of a series with more than 20,000 rows, 8 stretches of 2,000 are simulated, each
    from a state of the posterior on.

    $p = 2 \min(1 + \#\{t_r \le t\}, 1 + \#\{t_r \ge t\}) / (R + 1)$, which is on the cautious side since θ has seen the
    data. A figure counts as extreme where p is at most `rate` over the number of figures, so that all of them together give
    a false alarm at that rate at the most.

    Args:
        posterior: an `nmax.Posterior` or `nmax.Draws`.
        draws: replicated series.
        rate: of false alarms.
        key: random key.
    """
    key, draws = check_key(key), check_count("draws", draws, least=FEWEST)
    if not 0 < rate < 1:
        raise ValueError(f"`rate` must lie between 0 and 1; got {rate!r}.")
    starts, length = _stretches(posterior.series.length + 1)
    rows = np.concatenate([np.arange(start, start + length) for start in starts])
    data = np.concatenate([posterior.table.y[start : start + length] for start in starts])
    data = np.asarray(data, np.float32)  # as precise as what is simulated
    observed = np.isfinite(data)
    pattern = Pattern.of(observed, rows, length, posterior.table.columns)
    size = max(BATCH // (len(rows) * posterior.series.columns), 1)
    theta = posterior.theta(draws, key=key)
    begins = [posterior.path(draws, start=start, stop=start + 1, key=key) for start in starts]
    keys = own_keys(key, draws, ANEW), own_keys(key, draws, FIRST)
    figures, limits = [], None
    for first in range(0, draws, size):
        part = slice(first, first + size)
        own = {name: values[part] for name, values in theta.items()}
        made = [
            _anew(posterior, own, x[part], start, length, keys[0][part], keys[1][part])
            for start, x in zip(starts, begins, strict=True)
        ]
        made = np.concatenate(made, axis=1)
        limits = tail_limits(made, observed) if limits is None else limits
        figures.append(statistics(made, pattern, limits))
    assert limits is not None
    replicated = {label: np.concatenate([part[label] for part in figures]) for label in figures[0]}
    return _judged(statistics(data[None], pattern, limits), replicated, rate, _notes(starts, length, observed, draws))


def _judged(
    data: dict[str, np.ndarray], replicated: dict[str, np.ndarray], rate: float, notes: tuple[str, ...]
) -> PredictiveCheck:
    observed, p, lost, finest = {}, {}, 0, 0.0
    for label, value in data.items():
        made = replicated[label][np.isfinite(replicated[label])]
        lost = max(lost, len(replicated[label]) - len(made))
        observed[label] = float(value[0])
        if not np.isfinite(value[0]) or len(made) < FEWEST:
            p[label] = np.nan
            continue
        below, above = np.sum(made <= value[0]), np.sum(made >= value[0])
        p[label] = min(1.0, 2 * (1 + int(min(below, above))) / (len(made) + 1))
        finest = max(finest, 2 / (len(made) + 1))
    judged = max(int(np.sum(np.isfinite(list(p.values())))), 1)
    level = max(rate / judged, finest)
    if lost:
        notes = (*notes, f"{lost} of them have no such figures, most likely since they left the support of the state")
    if level > rate / judged:
        notes = (*notes, f"for a rate of {rate:.1%} pass draws={int(np.ceil(2 * judged / rate))} or more")
    return PredictiveCheck(observed, replicated, p, level, min(level * judged, 1.0), notes)


def _anew(posterior: Any, theta: Any, x: np.ndarray, start: int, length: int, keys: Any, first_keys: Any) -> np.ndarray:
    """Observations of `length` rows from `start` on, whose first state is given."""
    series = posterior.series
    first = seen_along(posterior, theta, x, start, first_keys)
    inputs = jnp.asarray(inputs_of(posterior.table, start + 1, start + length))
    _, y, _ = continued(posterior.model, theta, jnp.asarray(x[:, 0]), inputs, jnp.int32(start + 1), series.columns, keys)
    return np.concatenate([first, np.asarray(jax.device_get(y))], axis=1)


def _stretches(rows: int) -> tuple[np.ndarray, int]:
    if rows <= WHOLE:
        return np.array([0]), rows
    return np.linspace(0, rows - STEPS, STRETCHES).astype(int), STEPS


def _notes(starts: np.ndarray, length: int, observed: Bool[np.ndarray, "row obs"], draws: int) -> tuple[str, ...]:
    where = f"{length:,} rows" if len(starts) == 1 else f"{len(starts)} stretches of {length:,} rows"
    return (f"{draws:,} series simulated anew over {where}, {int(observed.sum()):,} observations each",)
