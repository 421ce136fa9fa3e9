"""The continuous ranked probability score of an ensemble."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def crps(ensemble: Float[np.ndarray, "draw *shape"], y: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:  # noqa: F821
    r"""$\frac1n \sum_i |x_i - y| - \frac1{2n(n-1)} \sum_{i,j} |x_i - x_j|$: in the unit of y, lower is better.

    The fair form: its mean over ensembles is the score of the distribution they are drawn from, whatever their size. The
    double sum is $2 \sum_i (2i - n - 1)\, x_{(i)}$ over the sorted draws. Draws that are not finite are left out; NaN where
    fewer than two are left, or nothing was observed.
    """
    draws = np.sort(np.where(np.isfinite(ensemble), ensemble, np.nan).astype(np.float64), axis=0)  # NaN last
    fine = np.isfinite(draws)
    n = fine.sum(axis=0)
    rank = np.arange(1, len(draws) + 1).reshape(-1, *(1,) * np.ndim(y))
    spread = np.where(fine, (2 * rank - n - 1) * np.where(fine, draws, 0.0), 0.0).sum(axis=0)
    distance = np.where(fine, np.abs(np.where(fine, draws, 0.0) - y), 0.0).sum(axis=0)
    enough = n > 1
    score = distance / np.where(enough, n, 1) - spread / np.where(enough, n * (n - 1), 1)
    return np.where(enough & np.isfinite(y), score, np.nan)
