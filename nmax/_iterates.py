"""Is a sequence at rest? R-hat of its halves, its rise, and the standard error of a mean of values that hang together."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import fdtri

CHAINS = 2  # pieces that iterates are cut into for R-hat
FEWEST = 4  # looks in a piece below which nothing is said of them
FALSE_ALARM = 0.05  # how often iterates at rest may be taken for moving ones where there are few looks
NATS = 0.5  # of the ELBO that do not matter


class Change(NamedTuple):
    """How much the ELBO of the whole series rose, in nats, and the standard error of that."""

    nats: float
    standard_error: float

    @property
    def slight(self) -> bool:
        """Whether it is not clearly, by two standard errors, more than what does not matter."""
        return bool(self.nats - 2 * self.standard_error <= NATS)

    def __str__(self) -> str:
        digits = 2 if self.standard_error < 1 else 1 if self.standard_error < 10 else 0
        return f"{self.nats:,.{digits}f} ± {self.standard_error:,.{digits}f} nats"


def rhat(looks: Float[np.ndarray, "look quantity"]) -> Float[np.ndarray, " quantity"]:
    r"""$\hat R = \sqrt{(n-1)/n + B/(nW)}$ with the halves of a sequence as chains of $n$ looks each.

    $W$ is the mean of the variances within the halves and $B/n$ the variance of their means. 1 for what never moved, NaN
    where there are too few looks.
    """
    n = len(looks) // CHAINS
    if n < FEWEST:
        return np.full(looks.shape[1], np.nan)
    chains = np.asarray(looks[len(looks) - CHAINS * n :], np.float64).reshape(CHAINS, n, -1)
    within, between = chains.var(axis=1, ddof=1).mean(axis=0), chains.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 1 / n), where=within > 0)
    return np.sqrt((n - 1) / n + ratio)


def rhat_by_chance(looks: int, quantities: int) -> float:
    """What the largest R-hat of so many quantities exceeds, independent looks at rest given, in `FALSE_ALARM` of cases.

    $B/W$ has an F distribution then; quantities that hang together exceed it less often.
    """
    n = looks // CHAINS
    if n < FEWEST:
        return math.nan
    return math.sqrt((n - 1 + fdtri(CHAINS - 1, CHAINS * (n - 1), 1 - FALSE_ALARM / quantities)) / n)


def last_half(sequence: np.ndarray) -> np.ndarray:
    """The last half of a sequence, whose own halves are equally long."""
    return sequence[len(sequence) - 2 * (len(sequence) // 4) :]


def rise(values: Float[np.ndarray, " step"]) -> Change:
    """From the mean of the first half to that of the second."""
    half = len(values) // 2
    before, after = (part[np.isfinite(part)] for part in (values[:half], values[half:]))
    if min(len(before), len(after)) < 2:
        return Change(math.nan, math.nan)
    return Change(float(after.mean() - before.mean()), math.hypot(standard_error(before), standard_error(after)))


def standard_error(values: Float[np.ndarray, " step"]) -> float:
    """The standard error of the mean of a sequence whose values hang together, by the means of $n^{1/3}$ batches."""
    count = max(2, round(len(values) ** (1 / 3)))
    size = len(values) // count
    batches = np.asarray(values[len(values) - count * size :], np.float64).reshape(count, size).mean(axis=1)
    return float(batches.std(ddof=1) / math.sqrt(count))


def change_of(values: Float[np.ndarray, " pair"]) -> Change:
    """The mean of independent differences, those that are finite."""
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return Change(math.nan, math.nan)
    return Change(float(finite.mean()), float(finite.std(ddof=1) / math.sqrt(len(finite))))
