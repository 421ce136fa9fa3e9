"""Kalman filter, smoother and path sampler for linear Gaussian models with missing data."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class LinearGaussian:
    r"""$x_{i+1} = b + A x_i + N(0, Q)$ from a known $x_0$, seen as $y_i = H x_i + N(0, R)$.

    Attributes:
        start: $x_0$, shape (d,).
        offset: $b$, shape (d,).
        matrix: $A$, shape (d, d).
        noise: $Q$, shape (d, d).
        observe: $H$, shape (d_y, d).
        error: $R$, shape (d_y, d_y).
    """

    start: np.ndarray
    offset: np.ndarray
    matrix: np.ndarray
    noise: np.ndarray
    observe: np.ndarray
    error: np.ndarray


class Filtered(NamedTuple):
    """$x_i \\mid y_{0:i}$ for i = 0..T, the one-step forecasts, and $\\log p(y_{0:T})$."""

    mean: Float[np.ndarray, "rows state"]
    covariance: Float[np.ndarray, "rows state state"]
    forecast_mean: Float[np.ndarray, "rows state"]
    forecast_covariance: Float[np.ndarray, "rows state state"]
    log_likelihood: float


class Smoothed(NamedTuple):
    """$x_i \\mid y_{0:T}$ for i = 0..T."""

    mean: Float[np.ndarray, "rows state"]
    covariance: Float[np.ndarray, "rows state state"]


def kalman_filter(model: LinearGaussian, y: Float[np.ndarray, "rows obs"]) -> Filtered:
    """Filter a series; NaN entries are missing, row by row and column by column."""
    d, log_likelihood = len(model.start), 0.0
    mean, covariance = np.asarray(model.start, float), np.zeros((d, d))
    rows = []
    for i, row in enumerate(np.asarray(y, float)):
        if i:
            mean = model.offset + model.matrix @ mean
            covariance = model.matrix @ covariance @ model.matrix.T + model.noise
        forecast = mean, covariance
        seen = ~np.isnan(row)
        if seen.any():
            h, error = model.observe[seen], model.error[np.ix_(seen, seen)]
            spread = h @ covariance @ h.T + error
            gain = np.linalg.solve(spread, h @ covariance).T
            residual = row[seen] - h @ mean
            _, log_det = np.linalg.slogdet(spread)
            square = residual @ np.linalg.solve(spread, residual)
            log_likelihood -= 0.5 * (square + log_det + seen.sum() * math.log(2 * math.pi))
            mean = mean + gain @ residual
            shrink = np.eye(d) - gain @ h
            covariance = shrink @ covariance @ shrink.T + gain @ error @ gain.T
        rows.append((mean, covariance, *forecast))
    means, covariances, forecasts, forecast_covariances = (np.stack(part) for part in zip(*rows, strict=True))
    return Filtered(means, covariances, forecasts, forecast_covariances, log_likelihood)


def kalman_smoother(model: LinearGaussian, y: Float[np.ndarray, "rows obs"]) -> Smoothed:
    """Rauch, Tung and Striebel's smoother."""
    f = kalman_filter(model, y)
    mean, covariance = f.mean.copy(), f.covariance.copy()
    for i in range(len(mean) - 2, -1, -1):
        gain = _gain(model, f, i)
        mean[i] += gain @ (mean[i + 1] - f.forecast_mean[i + 1])
        covariance[i] += gain @ (covariance[i + 1] - f.forecast_covariance[i + 1]) @ gain.T
    return Smoothed(mean, covariance)


def sample_paths(
    model: LinearGaussian, y: Float[np.ndarray, "rows obs"], draws: int, *, seed: int
) -> Float[np.ndarray, "draw rows state"]:
    """Independent draws of the whole path given the data: filter forwards, sample backwards."""
    rng, f = np.random.default_rng(seed), kalman_filter(model, y)
    rows, d = f.mean.shape
    x = np.empty((draws, rows, d))
    for i in range(rows - 1, -1, -1):
        mean, covariance = f.mean[i], f.covariance[i]
        if i < rows - 1:
            gain = _gain(model, f, i)
            mean = mean + (x[:, i + 1] - f.forecast_mean[i + 1]) @ gain.T
            covariance = covariance - gain @ f.forecast_covariance[i + 1] @ gain.T
        x[:, i] = mean + rng.standard_normal((draws, d)) @ _root(covariance).T
    return x


def _gain(model: LinearGaussian, f: Filtered, i: int) -> np.ndarray:
    return np.linalg.solve(f.forecast_covariance[i + 1], model.matrix @ f.covariance[i]).T


def _root(covariance: np.ndarray) -> np.ndarray:
    """A square root that stands zero variances, as at the known start."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return vectors * np.sqrt(np.maximum(values, 0.0))
