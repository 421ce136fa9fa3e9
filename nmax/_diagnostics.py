"""Have the chains mixed? R-hat, bulk and tail effective sample size, by ranks (Vehtari et al., 2021)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpyro.diagnostics import effective_sample_size, gelman_rubin
from scipy.special import chdtri, ndtri

TAILS = (0.05, 0.95)
RHAT = 1.01  # what R-hat may be, where there are so many draws that chance does not lead further
BY_CHANCE = 0.005  # how often the R-hat of one statistic of chains that agree may exceed what is allowed


class Mixing(NamedTuple):
    """How well the draws of one quantity have mixed.

    Attributes:
        rhat: 1 where chains and their halves agree; more than `limit` is a reason to go on.
        bulk: effective number of draws for means and medians.
        tail: for the 5 % and 95 % quantiles.
        limit: 1.01, or what chance alone can lead to with draws so few.
    """

    rhat: float
    bulk: float
    tail: float
    limit: float = RHAT


def mixing(draws: Float[np.ndarray, "chain draw"]) -> Mixing:
    """R-hat and effective sample sizes of one quantity."""
    halves = split(np.asarray(draws, np.float64))
    if not np.isfinite(halves).all() or np.ptp(halves) == 0:
        return Mixing(np.nan, np.nan, np.nan)
    ranked, folded = normal_scores(halves), normal_scores(np.abs(halves - np.median(halves)))
    rhat = max(float(gelman_rubin(ranked)), float(gelman_rubin(folded)))
    tails = [(halves <= np.quantile(halves, tail)).astype(float) for tail in TAILS]
    tail = min(float(effective_sample_size(one)) if np.ptp(one) else np.nan for one in tails)
    limit = max(RHAT, rhat_by_chance(ranked), rhat_by_chance(folded))
    return Mixing(rhat, float(effective_sample_size(ranked)), tail, limit)


def rhat_by_chance(halves: Float[np.ndarray, "half draw"]) -> float:
    r"""What R-hat of $m$ half chains with one distribution exceeds in `BY_CHANCE` of cases.

    Their means have a variance of $W / s$ then, with $s$ the effective draws of a half, so that
    $\hat R^2 = 1 - 1/n + \chi^2_{m-1} / ((m-1) s)$. $s$ is found within the halves: chains that disagree do not raise it.
    """
    m, n = halves.shape
    worth = np.mean([effective_sample_size(half[None]) for half in halves])
    return float(np.sqrt(1.0 - 1.0 / n + chdtri(m - 1, BY_CHANCE) / ((m - 1) * worth)))


def split(draws: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "half draw"]:
    """Each chain as two."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def normal_scores(draws: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "chain draw"]:
    """Normal quantiles of the ranks among all draws."""
    from scipy.stats import rankdata  # only here: importing it takes as long as half the rest of the library

    ranks = rankdata(draws).reshape(draws.shape)
    return ndtri((ranks - 0.375) / (draws.size + 0.25))
