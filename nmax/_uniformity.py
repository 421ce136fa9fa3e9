"""Are numbers in (0, 1) uniform? Three exact tests, simultaneous bands for the ECDF, and what they would have seen."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, betaincinv, chdtr, chdtrc, chdtri, gammaln, ndtr, ndtri

TESTS = ("ecdf", "location", "spread")
EDGE = 1e-12  # scores of numbers nearer to 0 or 1 would be infinite
TINY = 1e-12  # p-values below are rounding errors
HALVINGS = 30  # in search of the level of the bands
POWER = 0.9  # probability with which a fault of the size that `visible` names is found


class Uniformity(NamedTuple):
    """What the numbers of one quantity say.

    Attributes:
        count: how many there are.
        mean: of the normal scores; 0 if uniform.
        rms: root mean square of the normal scores; 1 if uniform.
        sd: of the normal scores about their mean.
        ecdf: p-value of the empirical distribution function against simultaneous bands.
        location: p-value of the mean, two-sided.
        spread: p-value of the sum of squares, two-sided.
    """

    count: int
    mean: float
    rms: float
    sd: float
    ecdf: float
    location: float
    spread: float


def uniformity(pit: Float[np.ndarray, " replication"]) -> Uniformity:
    r"""Three tests of uniformity, each exact for any number n of independent entries.

    With normal scores $s = \Phi^{-1}(u)$: $\sqrt n\,\bar s \sim N(0, 1)$ and $\sum s^2 \sim \chi^2_n$. The ECDF is tested by
    the smallest pointwise p-value over the order statistics, $u_{(i)} \sim \mathrm{Beta}(i, n + 1 - i)$.
    """
    n, scores = len(pit), normal_scores(pit)
    square = float(np.sum(scores**2))
    return Uniformity(
        count=n,
        mean=float(scores.mean()),
        rms=float(np.sqrt(square / n)),
        sd=float(scores.std()),
        ecdf=max(1.0 - inside(n, float(pointwise(pit).min())), TINY),
        location=max(float(2.0 * ndtr(-abs(scores.mean()) * np.sqrt(n))), TINY),
        spread=float(np.clip(2.0 * min(chdtr(n, square), chdtrc(n, square)), TINY, 1.0)),
    )


def normal_scores(pit: Float[np.ndarray, " replication"]) -> Float[np.ndarray, " replication"]:
    """Standard normal if the numbers are uniform."""
    return ndtri(np.clip(pit, EDGE, 1.0 - EDGE))


def pointwise(pit: Float[np.ndarray, " replication"]) -> Float[np.ndarray, " replication"]:
    """Two-sided p-value of each order statistic on its own, in rising order."""
    n = len(pit)
    rank = np.arange(1, n + 1)
    below = betainc(rank, n + 1 - rank, np.sort(pit))
    return 2.0 * np.minimum(below, 1.0 - below)


def limits(n: int, level: float) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, " rank"]]:
    """Between which numbers each order statistic lies, with probability 1 - `level` for each on its own."""
    rank = np.arange(1, n + 1)
    low, high = (betaincinv(rank, n + 1 - rank, tail) for tail in (0.5 * level, 1.0 - 0.5 * level))
    return low, high


def inside(n: int, level: float) -> float:
    r"""Probability that all n order statistics of uniform numbers lie within `limits(n, level)`, exactly.

    The count of numbers up to $z$ is followed from one limit to the next as a Poisson process of rate n, without the counts
    that break a limit: at the lower limit of rank i it must be below i, at the upper one at least i. That n have come by
    $z = 1$ is then conditioned on.
    """
    low, high = limits(n, level)
    rank = np.arange(1, n + 1)
    where = np.concatenate([low, high])
    least, most = np.concatenate([0 * rank, rank]), np.concatenate([rank - 1, np.full(n, n)])
    order = np.argsort(where, kind="stable")
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    first, weight, z = 0, np.ones(1), 0.0  # `weight[k]` is the probability of the count `first + k`
    ceiling = np.minimum.accumulate(most[order][::-1])[::-1]  # no count above a later limit can still be right
    for point, floor, top in zip(where[order], least[order], ceiling, strict=True):
        weight = np.convolve(weight, _poisson(n * (point - z), top - first, log_factorial))[: top - first + 1]
        cut = max(floor - first, 0)
        first, weight, z = first + cut, weight[cut:], point
        if not len(weight):
            return 0.0
    last = _poisson(n * (1.0 - z), n - first, log_factorial)[::-1][: len(weight)]
    return float(np.clip(weight @ last / np.exp(n * np.log(n) - n - log_factorial[n]), 0.0, 1.0))


def _poisson(mean: float, most: int, log_factorial: np.ndarray) -> np.ndarray:
    """Probabilities of 0, ..., `most`; none if that is negative."""
    count = np.arange(most + 1)
    return np.exp(count * np.log(max(mean, 1e-300)) - mean - log_factorial[: len(count)])


@lru_cache(maxsize=64)
def band_level(n: int, error_rate: float) -> float:
    """The pointwise level at which uniform numbers leave the bands anywhere with probability `error_rate`."""
    low, high = error_rate / (2 * n), min(2.0 * error_rate, 1.0)  # too cautious by Bonferroni, too bold even for n = 1
    for _ in range(HALVINGS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if 1.0 - inside(n, middle) <= error_rate else (low, middle)
    return low


def bands(n: int, error_rate: float) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, " rank"]]:
    r"""Between which numbers all order statistics lie at once, with probability 1 - `error_rate`.

    The bands of Säilynoja, Bürkner and Vehtari (2022), at every order statistic instead of a grid, and with the exact
    probability of leaving them. As bounds of the ECDF: $\#\{i : h_i \le z\} \le n\,F(z) \le \#\{i : l_i \le z\}$.
    """
    return limits(n, band_level(n, error_rate))


def holm(p: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """p-values adjusted by Holm: those up to α may be rejected, with a family-wise error rate of at most α."""
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    out = np.empty(len(p))
    out[order] = np.minimum(adjusted, 1.0)
    return out


def visible(n: int, error_rate: float) -> tuple[float, float]:
    """The bias in posterior sds, and the ratio of true to posterior sd above 1, that one test at `error_rate` mostly finds.

    Mostly means with probability `POWER`, each fault on its own.
    """
    bias = (ndtri(1.0 - 0.5 * error_rate) + ndtri(POWER)) / np.sqrt(n)
    ratio = np.sqrt(chdtri(n, 0.5 * error_rate) / chdtri(n, POWER))
    return float(bias), float(ratio)
