r"""The exact posterior of the AR(1) model of the paper.

$x_{i+1} = \theta_1 + \theta_2 x_i + \theta_3 \epsilon_i$ from a known $x_0$, $y_i \sim N(x_i, \sigma^2)$, priors
$N(0, 10^2)$ on $\theta_1, \theta_2, \log\theta_3$. Parameters are rows $(\theta_1, \theta_2, \log\theta_3)$ throughout.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

PRIOR_SD = 10.0
FREEDOM = 10.0  # of the Student t proposal: heavier tails than the posterior, so the weights are bounded


class AR1Posterior(NamedTuple):
    """Draws $(\\theta_1, \\theta_2, \\log\\theta_3)$, how often proposals were taken, and the log evidence with its error.

    The evidence is that of $y_0, ..., y_T$; NaN where the sampler does not give it.
    """

    theta: Float[np.ndarray, "draw 3"]
    acceptance: float
    log_evidence: float
    log_evidence_error: float


def ar1_log_likelihood(
    theta: Float[np.ndarray, "draw 3"], y: Float[np.ndarray, " rows"], *, start: float = 10.0, error: float = 1.0
) -> Float[np.ndarray, " draw"]:
    """$\\log p(y_{0:T} \\mid \\theta)$ by the forward filter of supplement A, for many θ at once."""
    theta = np.atleast_2d(theta)
    intercept, coefficient, variance = theta[:, 0], theta[:, 1], np.exp(2 * theta[:, 2])
    y, noise = np.asarray(y, float).ravel(), error**2
    total = np.full(len(theta), _normal(y[0] - start, noise) if not np.isnan(y[0]) else 0.0)
    mean, spread = np.full(len(theta), float(start)), np.zeros(len(theta))
    for value in y[1:]:
        mean = intercept + coefficient * mean
        spread = coefficient**2 * spread + variance
        if np.isnan(value):
            continue
        residual, predicted = value - mean, spread + noise
        total += _normal(residual, predicted)
        gain = spread / predicted
        mean = mean + gain * residual
        spread = spread * (1.0 - gain)
    return total


def ar1_metropolis(
    y: Float[np.ndarray, " rows"],
    draws: int,
    *,
    seed: int,
    chains: int = 32,
    burn_in: int = 200,
    start: float = 10.0,
    error: float = 1.0,
) -> AR1Posterior:
    """Random-walk Metropolis on θ, as in supplement A, with `chains` chains side by side.

    The walk has covariance $2.38^2/3$ times that of the Laplace approximation.
    """
    rng = np.random.default_rng(seed)
    mode, root = _laplace(y, start, error)
    at = mode + rng.standard_normal((chains, 3)) @ root.T
    density = _log_posterior(at, y, start, error)
    kept, taken, rounds = [], 0, burn_in + math.ceil(draws / chains)
    for number in range(rounds):
        proposal = at + (2.38 / math.sqrt(3)) * rng.standard_normal((chains, 3)) @ root.T
        proposed = _log_posterior(proposal, y, start, error)
        accept = np.log(rng.uniform(size=chains)) < proposed - density
        at, density = np.where(accept[:, None], proposal, at), np.where(accept, proposed, density)
        taken += int(accept.sum())
        if number >= burn_in:
            kept.append(at)
    return AR1Posterior(np.concatenate(kept)[:draws], taken / (rounds * chains), math.nan, math.nan)


def ar1_exact(
    y: Float[np.ndarray, " rows"], draws: int, *, seed: int, start: float = 10.0, error: float = 1.0
) -> AR1Posterior:
    """Independence Metropolis with Student t proposals at the mode: all likelihoods are found in one vectorised pass.

    Acceptance is about 0.9, so draws are nearly independent; the same weights give the log evidence.
    """
    rng = np.random.default_rng(seed)
    mode, root = _laplace(y, start, error)
    normal = rng.standard_normal((draws, 3)) / np.sqrt(rng.chisquare(FREEDOM, (draws, 1)) / FREEDOM)
    proposal = mode + normal @ root.T
    log_proposal = (
        math.lgamma((FREEDOM + 3) / 2)
        - math.lgamma(FREEDOM / 2)
        - 1.5 * math.log(FREEDOM * math.pi)
        - np.log(np.abs(np.diagonal(root))).sum()
        - 0.5 * (FREEDOM + 3) * np.log1p((normal**2).sum(axis=1) / FREEDOM)
    )
    log_weight = _log_posterior(proposal, y, start, error) - log_proposal
    current, taken = int(log_weight.argmax()), 0
    index, threshold = np.empty(draws, int), np.log(rng.uniform(size=draws))
    for n in range(draws):
        if threshold[n] < log_weight[n] - log_weight[current]:
            current, taken = n, taken + 1
        index[n] = current
    weight = np.exp(log_weight - log_weight.max())
    evidence = log_weight.max() + math.log(weight.mean())
    return AR1Posterior(
        proposal[index], taken / draws, evidence, float(weight.std(ddof=1) / weight.mean() / math.sqrt(draws))
    )


def _log_posterior(theta: np.ndarray, y: np.ndarray, start: float, error: float) -> np.ndarray:
    prior = _normal(theta, PRIOR_SD**2).sum(axis=1)
    return prior + ar1_log_likelihood(theta, y, start=start, error=error)


def _laplace(y: np.ndarray, start: float, error: float) -> tuple[np.ndarray, np.ndarray]:
    """Mode of the posterior and a lower root of its inverse curvature, by Newton steps with numerical derivatives."""
    mode = np.array([np.nanmean(y) / 2, 0.5, math.log(max(np.nanstd(y), 1e-3))])
    steps = np.array([1e-2, 1e-3, 1e-3])
    for _ in range(30):
        gradient, curvature = _derivatives(mode, steps, y, start, error)
        values, vectors = np.linalg.eigh(-curvature)
        change = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-3))
        scales = 2.0 ** -np.arange(12)  # the longest of these that does not lead downhill
        tried = _log_posterior(mode + scales[:, None] * change, y, start, error)
        change = scales[int(np.nanargmax(tried))] * change
        mode = mode + change
        if np.all(np.abs(change) < 1e-6):
            break
    _, curvature = _derivatives(mode, steps, y, start, error)
    return mode, np.linalg.cholesky(np.linalg.inv(-curvature))


def _derivatives(at: np.ndarray, steps: np.ndarray, y: np.ndarray, start: float, error: float):
    """Gradient and Hessian of the log posterior by central differences, all points in one pass."""
    corners = [(i, j, a, b) for i in range(3) for j in range(3) for a in (1, -1) for b in (1, -1)]
    unit = np.diag(steps)
    points = np.array(
        [at + a * unit[i] + b * unit[j] for i, j, a, b in corners] + [at + s * unit[i] for i in range(3) for s in (1, -1)]
    )
    values = _log_posterior(points, y, start, error)
    hessian = np.zeros((3, 3))
    for (i, j, a, b), value in zip(corners, values, strict=False):
        hessian[i, j] += a * b * value / (4 * steps[i] * steps[j])
    ends = values[len(corners) :].reshape(3, 2)
    return (ends[:, 0] - ends[:, 1]) / (2 * steps), hessian


def _normal(residual, variance):
    return -0.5 * residual**2 / variance - 0.5 * np.log(2 * np.pi * variance)
