"""Have the chains mixed? R-hat, bulk and tail effective sample size, by ranks (Vehtari et al., 2021)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpyro.diagnostics import effective_sample_size, gelman_rubin
from scipy.special import ndtri
from scipy.stats import rankdata

TAILS = (0.05, 0.95)


class Mixing(NamedTuple):
    """How well the draws of one quantity have mixed.

    Attributes:
        rhat: 1 where chains and their halves agree; more than 1.01 is a reason to go on.
        bulk: effective number of draws for means and medians.
        tail: for the 5 % and 95 % quantiles.
    """

    rhat: float
    bulk: float
    tail: float


def mixing(draws: Float[np.ndarray, "chain draw"]) -> Mixing:
    """R-hat and effective sample sizes of one quantity."""
    halves = split(np.asarray(draws, np.float64))
    if not np.isfinite(halves).all() or np.ptp(halves) == 0:
        return Mixing(np.nan, np.nan, np.nan)
    ranked, folded = normal_scores(halves), normal_scores(np.abs(halves - np.median(halves)))
    rhat = max(float(gelman_rubin(ranked)), float(gelman_rubin(folded)))
    tails = [(halves <= np.quantile(halves, tail)).astype(float) for tail in TAILS]
    tail = min(float(effective_sample_size(one)) if np.ptp(one) else np.nan for one in tails)
    return Mixing(rhat, float(effective_sample_size(ranked)), tail)


def split(draws: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "half draw"]:
    """Each chain as two."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def normal_scores(draws: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, "chain draw"]:
    """Normal quantiles of the ranks among all draws."""
    ranks = rankdata(draws).reshape(draws.shape)
    return ndtri((ranks - 0.375) / (draws.size + 0.25))
