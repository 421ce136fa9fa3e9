"""Does the model describe the data? Forecasts one observation ahead, and where the real ones lie among them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from scipy.special import bdtrc, betaincinv, ndtri

from nmax._particles import filter_guide, filtered
from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Finding
from nmax.data import ManySeries, Series
from nmax.guides import Guide, LookaheadSampler, stretches

PARTICLES = 256
WHOLE = 6_000  # steps up to which the whole series is looked at
STRETCHES, STEPS = 16, 512  # beyond: so many stretches, with so many steps each at least
SURE = 4.0  # standard errors
EFFECT = 0.1  # and what a mean, spread or correlation must be off by to matter
TAIL = 0.005  # share in each tail
TAIL_EFFECT, BY_CHANCE = 0.02, 3e-5  # share of both tails that matters, and the probability of as many by chance
MISSED = 0.1  # share of the observations without a forecast that is too large
FEWEST = 20  # forecasts below which nothing is said
LEVELS = (0.5, 0.8, 0.95)  # of the central intervals whose coverage is counted
CONFIDENCE = 0.95  # of the interval around a share


class Coverage(NamedTuple):
    """Share of the observations inside a central interval one observation ahead, with its exact binomial interval."""

    share: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, repr=False)
class Residuals:
    """Where observations lie among forecasts of them: uniform between 0 and 1 and independent if the model is right.

    Attributes:
        index: the steps.
        pit: share of the forecasts below what was observed, a column each; NaN where nothing was.
        columns: their names.
        forecast: 5 %, 50 % and 95 % points of the forecasts, of every step; NaN where a stretch begins.
        unforeseen: observations of each column for which half of the forecasts or more are not finite, by their number.
    """

    index: Int[np.ndarray, " time"]
    pit: Float[np.ndarray, "time obs"]
    columns: tuple[str, ...] = ()
    forecast: Float[np.ndarray, "time 3 obs"] | None = None
    unforeseen: tuple[int, ...] = ()

    @property
    def scores(self) -> Float[np.ndarray, "time obs"]:
        """The same as normal scores: standard normal if the model is right."""
        return ndtri(self.pit)

    def coverage(self, levels: tuple[float, ...] = LEVELS) -> dict[str, dict[float, Coverage]]:
        """Column -> level -> share of the observations inside the central interval of that level, one observation ahead."""
        return {name: {level: _covered(pit, level) for level in levels} for name, pit in self._by_column()}

    def _by_column(self) -> list[tuple[str, np.ndarray]]:
        names = self.columns or tuple(f"y{k}" for k in range(self.pit.shape[1]))
        return [(name, pit[np.isfinite(pit)]) for name, pit in zip(names, self.pit.T, strict=True)]

    def __str__(self) -> str:
        width = max(len("column"), *(len(name) for name, _ in self._by_column()))
        heads = ["observed", "mean", "sd", *(f"inside {level:.0%}" for level in LEVELS)]
        lines = [f"{'column':<{width}}" + "".join(f"{h:>10}" for h in heads[:3]) + "".join(f"{h:>20}" for h in heads[3:])]
        for (name, pit), covered in zip(self._by_column(), self.coverage().values(), strict=True):
            scores = ndtri(pit)
            mean, sd = (scores.mean(), scores.std()) if len(pit) else (np.nan, np.nan)
            shares = "".join(f"{f'{c.share:.3f} ({c.low:.3f}–{c.high:.3f})':>20}" for c in covered.values())
            lines.append(f"{name:<{width}}{len(pit):>10}{mean:>10.3f}{sd:>10.3f}{shares}")
        told = "forecasts one observation ahead: mean and sd of normal scores, 0 and 1 if the model is right, and the share"
        inside = f"of observations in central intervals, with its exact {CONFIDENCE:.0%} interval"
        return "\n".join([*lines, "", told, inside])

    __repr__ = __str__


def _covered(pit: Float[np.ndarray, " time"], level: float) -> Coverage:
    r"""Clopper and Pearson's interval: the shares at which so few, or so many, inside would be too improbable."""
    n, k = len(pit), int(np.sum(np.abs(pit - 0.5) <= 0.5 * level))
    if not n:
        return Coverage(np.nan, 0.0, 1.0)
    tail = 0.5 - 0.5 * CONFIDENCE
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return Coverage(k / n, low, high)


def residuals(guide: Guide, series: Series, *, columns: tuple[str, ...] = (), key: PRNGKeyArray) -> Residuals:
    """Forecast each observation from those before it, at the centre of q(θ); a long series in stretches spread over it."""
    look = filter_guide(guide, series)
    flat, _ = guide.theta(jnp.zeros(guide.theta_flow.size))
    if isinstance(series, ManySeries):
        return _residuals_of_many(look, series, flat, columns, key)
    total = -(-(series.length + 1) // look.block)
    each = -(-STEPS // look.block) + 1
    if series.length <= WHOLE or total <= 2 * each * STRETCHES:
        numbers = np.arange(total)[None]
    else:
        first = np.linspace(0, total - each, STRETCHES).astype(np.int64)
        numbers = first[:, None] + np.arange(each)
    keys = jr.split(key, len(numbers))
    rows = stretches(look, series, numbers[:, 0] * look.block, numbers.shape[1] * look.block + 1)
    pit, forecast = (np.asarray(part, np.float64) for part in _pit(look, rows, flat, jnp.asarray(numbers, jnp.int32), keys))
    index = numbers[:, :, None] * look.block + np.arange(look.block)
    if len(numbers) > 1:  # a stretch in the middle begins at what all data say: its first block has seen the future
        keep = (np.arange(numbers.shape[1])[None] > 0) | (numbers[:, :1] == 0)
        pit = np.where(keep[:, :, None, None], pit, np.nan)
        forecast = np.where(keep[:, :, None, None, None], forecast, np.nan)
    index, pit, forecast = index.reshape(-1), pit.reshape(-1, series.columns), forecast.reshape(-1, 3, series.columns)
    inside = (index >= 1) & (index <= series.length)
    return _found(index[inside], pit[inside], columns, forecast[inside])


def _residuals_of_many(
    look: LookaheadSampler, series: ManySeries, flat: Array, columns: tuple[str, ...], key: PRNGKeyArray
) -> Residuals:
    """Of several series: of some of them, spread over the list, each from its beginning on; end to end."""
    which = np.unique(np.linspace(0, len(series.lengths) - 1, STRETCHES).astype(np.int64))
    total, each = -(-(series.length + 1) // look.block), -(-max(STEPS, WHOLE // len(which)) // look.block) + 1
    numbers = np.broadcast_to(np.arange(min(total, each)), (len(which), min(total, each)))
    rows = stretches(look, series, np.zeros(len(which)), numbers.shape[1] * look.block + 1, which)
    keys = jr.split(key, len(which))
    pit, forecast = (np.asarray(part, np.float64) for part in _pit(look, rows, flat, jnp.asarray(numbers, jnp.int32), keys))
    index = np.arange(numbers.shape[1] * look.block)
    inside = (index >= 1) & (index <= np.array(series.lengths)[which][:, None])
    index = np.broadcast_to(index, inside.shape)[inside]
    pit, forecast = (part.reshape(len(which), -1, *part.shape[3:])[inside] for part in (pit, forecast))
    return _found(index, pit, columns, forecast)


def _found(index: np.ndarray, pit: np.ndarray, columns: tuple[str, ...], forecast: np.ndarray) -> Residuals:
    """As the filter tells them: an infinite share is an observation that nothing useful was forecast for."""
    missed = np.isinf(pit)
    return Residuals(index, np.where(missed, np.nan, pit), columns, forecast, tuple(int(n) for n in missed.sum(axis=0)))


@eqx.filter_jit
def _pit(
    look: LookaheadSampler, series: Series, flat: Array, numbers: Int[Array, "stretch block"], keys: PRNGKeyArray
) -> tuple[Float[Array, "stretch block time obs"], Float[Array, "stretch block time 3 obs"]]:
    def one(series, own, key):
        result = filtered(look, series, flat, own, PARTICLES, forecasts=True, key=key)
        return result.pit, result.forecast

    return jax.vmap(one, in_axes=(series.stacked, 0, 0))(series, numbers, keys)


def by_residuals(found: Residuals) -> tuple[list[Finding], dict[str, Any]]:
    """Mean, spread, tails and memory of the normal scores, column by column."""
    findings, faults, figures, least = [], [], {}, 0
    for column, scores in enumerate(found.scores.T):
        fine = np.isfinite(scores)
        s = scores[fine]
        least = max(least, len(s))
        if len(s) < FEWEST:
            continue
        where = f" of column {column}" if found.pit.shape[1] > 1 else ""
        tests = _tests(s)
        figures |= {f"{name}{where}": value for name, (value, _, _, _) in tests.items()}
        for name, (value, expected, error, effect) in tests.items():
            if abs(value - expected) > max(SURE * error, effect):
                faults.append(f"the {name}{where} is {value:.2f} instead of {expected:.2f} ± {error:.2f}")
        pit = found.pit[fine, column]
        extreme = int(np.sum((pit < TAIL) | (pit > 1 - TAIL)))
        figures[f"share of extremes{where}"] = extreme / len(s)
        if extreme > TAIL_EFFECT * len(s) and bdtrc(extreme - 1, len(s), 2 * TAIL) < BY_CHANCE:
            faults.append(f"{extreme}{where} lie in the tails where {2 * TAIL * len(s):.0f} should")
    missed, seen = sum(found.unforeseen), int(np.isfinite(found.pit).sum())
    if missed > MISSED * (missed + seen):
        text = f"for {missed} of {missed + seen} observations half of the forecasts or more are not finite numbers"
        remedy = "Look for states that leave their support, or overflow, on the way from one observation to the next"
        findings.append(Finding("forecasts", TRUST_MEANS, f"{text}: what the others say of the model is of a part", remedy))
    if faults:
        text = f"the model does not describe the data: of {least} forecasts one observation ahead, " + "; ".join(faults[:4])
        remedy = "Change the model: heavier tails, another noise, or dynamics it leaves out"
        return [*findings, Finding("model", DO_NOT_TRUST, text, remedy)], figures
    if least < FEWEST:
        few = f"only {least} forecasts of observations: too few to test the model by them"
        return [*findings, Finding("model", TRUST, few)], figures
    fine = f"{least} forecasts one observation ahead are as the model says they should be"
    return [*findings, Finding("model", TRUST, fine)], figures


def _tests(s: np.ndarray) -> dict[str, tuple[float, float, float, float]]:
    """Name -> figure, what it should be, its standard error if the model is right, and what would matter."""
    n = len(s)
    return {
        "mean": (float(s.mean()), 0.0, n**-0.5, EFFECT),
        "spread": (float(s.std()), 1.0, (2 * n) ** -0.5, EFFECT),
        "correlation with the next": (float(np.mean(s[1:] * s[:-1]) / np.mean(s**2)), 0.0, n**-0.5, EFFECT),
        "memory of size": (float(np.corrcoef(np.abs(s[1:]), np.abs(s[:-1]))[0, 1]), 0.0, n**-0.5, EFFECT),
    }
