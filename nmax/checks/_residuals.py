"""Does the model describe the data? Forecasts one observation ahead, and where the real ones lie among them."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from scipy.special import ndtri
from scipy.stats import binom

from nmax._particles import filter_guide, filtered
from nmax.checks._finding import DO_NOT_TRUST, TRUST, Finding
from nmax.data import Series
from nmax.guides import Guide, LookaheadSampler

PARTICLES = 256
WHOLE = 6_000  # steps up to which the whole series is looked at
STRETCHES, STEPS = 16, 512  # beyond: so many stretches, with so many steps each at least
SURE = 4.0  # standard errors
EFFECT = 0.1  # and what a mean, spread or correlation must be off by to matter
TAIL = 0.005  # share in each tail
TAIL_EFFECT, BY_CHANCE = 0.02, 3e-5  # share of both tails that matters, and the probability of as many by chance
FEWEST = 20  # forecasts below which nothing is said


@dataclasses.dataclass(frozen=True)
class Residuals:
    """Where observations lie among forecasts of them: uniform between 0 and 1 and independent if the model is right.

    Attributes:
        index: the steps.
        pit: share of the forecasts below what was observed, a column each; NaN where nothing was.
    """

    index: Int[np.ndarray, " time"]
    pit: Float[np.ndarray, "time obs"]

    @property
    def scores(self) -> Float[np.ndarray, "time obs"]:
        """The same as normal scores: standard normal if the model is right."""
        return ndtri(self.pit)


def residuals(guide: Guide, series: Series, *, key: PRNGKeyArray) -> Residuals:
    """Forecast each observation from those before it, at the centre of q(θ); a long series in stretches spread over it."""
    look = filter_guide(guide, series)
    flat, _ = guide.theta(jnp.zeros(guide.theta_flow.size))
    total = -(-(series.length + 1) // look.block)
    each = -(-STEPS // look.block) + 1
    if series.length <= WHOLE or total <= 2 * each * STRETCHES:
        numbers = np.arange(total)[None]
    else:
        first = np.linspace(0, total - each, STRETCHES).astype(np.int64)
        numbers = first[:, None] + np.arange(each)
    keys = jr.split(key, len(numbers))
    pit = np.asarray(_pit(look, series, flat, jnp.asarray(numbers, jnp.int32), keys), np.float64)
    index = numbers[:, :, None] * look.block + np.arange(look.block)
    if len(numbers) > 1:  # a stretch in the middle begins at what all data say: its first block has seen the future
        keep = (np.arange(numbers.shape[1])[None] > 0) | (numbers[:, :1] == 0)
        pit = np.where(keep[:, :, None, None], pit, np.nan)
    index, pit = index.reshape(-1), pit.reshape(-1, series.columns)
    inside = (index >= 1) & (index <= series.length)
    return Residuals(index[inside], pit[inside])


@eqx.filter_jit
def _pit(
    look: LookaheadSampler, series: Series, flat: Array, numbers: Int[Array, "stretch block"], keys: PRNGKeyArray
) -> Float[Array, "stretch block time obs"]:
    def one(own, key):
        return filtered(look, series, flat, own, PARTICLES, forecasts=True, key=key).pit

    return jax.vmap(one)(numbers, keys)


def by_residuals(found: Residuals) -> tuple[list[Finding], dict[str, Any]]:
    """Mean, spread, tails and memory of the normal scores, column by column."""
    faults, figures, least = [], {}, 0
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
        if extreme > TAIL_EFFECT * len(s) and binom.sf(extreme - 1, len(s), 2 * TAIL) < BY_CHANCE:
            faults.append(f"{extreme}{where} lie in the tails where {2 * TAIL * len(s):.0f} should")
    if faults:
        text = f"the model does not describe the data: of {least} forecasts one observation ahead, " + "; ".join(faults[:4])
        remedy = "Change the model: heavier tails, another noise, or dynamics it leaves out"
        return [Finding("model", DO_NOT_TRUST, text, remedy)], figures
    if least < FEWEST:
        return [Finding("model", TRUST, f"only {least} observations: too few to test the model by its forecasts")], figures
    return [
        Finding("model", TRUST, f"{least} forecasts one observation ahead are as the model says they should be")
    ], figures


def _tests(s: np.ndarray) -> dict[str, tuple[float, float, float, float]]:
    """Name -> figure, what it should be, its standard error if the model is right, and what would matter."""
    n = len(s)
    return {
        "mean": (float(s.mean()), 0.0, n**-0.5, EFFECT),
        "spread": (float(s.std()), 1.0, (2 * n) ** -0.5, EFFECT),
        "correlation with the next": (float(np.mean(s[1:] * s[:-1]) / np.mean(s**2)), 0.0, n**-0.5, EFFECT),
        "memory of size": (float(np.corrcoef(np.abs(s[1:]), np.abs(s[:-1]))[0, 1]), 0.0, n**-0.5, EFFECT),
    }
