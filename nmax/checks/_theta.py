"""Is q(θ) where the posterior is, and as wide? By importance weights on short series, by weighted scores on long ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._evidence import Evidence
from nmax._find import partition
from nmax._pareto import GOOD, weighted_moments
from nmax._particles import filter_guide
from nmax._prior_density import PriorDensity
from nmax._scores import Scores
from nmax._start import positive
from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Finding
from nmax.data import Series
from nmax.guides import Guide

DRAWS = 4_096
OFF, OFF_LONG = 0.3, 0.5  # sds by which a mean may be off, by weights and by a Newton step
NARROW, WIDE = 0.8, 1.25  # what a width may be, as a share of the right one
SURE = 3.0  # standard errors by which it must be beyond that
FEWEST = 40.0  # effective draws below which weights say only that q(θ) is bad
WEIGHTED = 16  # draws of a window for its score
PASSES, MANY = 4, 1_000  # over the series; two where it has more windows than this
LOST = 0.01  # share of windows that may have no finite score
LEARNT = 0.85  # of the prior's width, below which the data have said something
MORE = "Sample it exactly with nmax.sample, or fit with more steps or draws"


def moments_of(guide: Guide, *, key: PRNGKeyArray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of q(θ), unconstrained."""
    theta = np.asarray(jax.vmap(lambda e: guide.theta(e)[0])(jr.normal(key, (DRAWS, guide.theta_flow.size))), np.float64)
    return theta.mean(axis=0), np.cov(theta.T).reshape(theta.shape[1], -1)


def by_weights(guide: Guide, evidence: Evidence, *, key: PRNGKeyArray) -> tuple[list[Finding], dict[str, Any]]:
    """Mean and width of every parameter against those of the weighted draws."""
    weight, khat, effective = evidence.smoothed.weight, evidence.khat, evidence.effective
    figures: dict[str, Any] = {"khat": float(khat), "effective draws": float(effective)}
    measured = f"k̂ {khat:.2f}, {len(weight)} weighted draws of θ worth {effective:.0f}"
    if not np.isfinite(evidence.mean) or khat > GOOD or effective < FEWEST:
        text = f"q(θ) is far from the posterior: {measured}; k̂ must be at most {GOOD} and the draws worth {FEWEST:.0f}"
        return [Finding("parameters", DO_NOT_TRUST, text, MORE)], figures
    mean, covariance = moments_of(guide, key=key)
    right_mean, right_sd = weighted_moments(evidence.theta, weight)
    off, ratio = (mean - right_mean) / right_sd, np.sqrt(np.diagonal(covariance)) / right_sd
    labels = guide.model.parameters.labels
    figures |= {"bias / sd": dict(zip(labels, off.tolist())), "sd ratio": dict(zip(labels, ratio.tolist()))}
    return _judged(off, ratio, effective**-0.5, (2 * effective) ** -0.5, OFF, labels, measured), figures


def by_scores(guide: Guide, series: Series, *, key: PRNGKeyArray) -> tuple[list[Finding], dict[str, Any]]:
    r"""One Newton step from the mean of q(θ), with $F$ the covariance of the windows' weighted scores times their number.

    Where it leads says where the posterior is, and $F^{-1}$ how wide; several passes say how sure that is. Windows are
    single blocks.
    """
    look = filter_guide(guide, series)
    scores = Scores(look, series, partition(look, series, min(look.block, series.length)))
    prior, count = PriorDensity(guide.model.parameters), scores.windows.count
    mean, covariance = moments_of(guide, key=key)
    every, steps, widths = np.arange(count), [], []
    for own in jr.split(key, PASSES if count <= MANY else 2):
        _, gradient = scores.weighted(mean, every, WEIGHTED, key=own)
        fine = np.isfinite(gradient).all(axis=1)
        if fine.mean() < 1 - LOST:
            text = f"{1 - fine.mean():.0%} of the windows have no finite score at the mean of q(θ)"
            return [Finding("parameters", DO_NOT_TRUST, text, MORE)], {}
        information = np.cov(gradient[fine].T).reshape(prior.size, -1) * count + prior.curvature(mean)
        inverse = np.linalg.inv(positive(information))
        sd = np.sqrt(np.diagonal(inverse))
        slope = gradient[fine].mean(axis=0) * count + prior.gradient(mean[None])[0]
        steps.append(-(inverse @ slope) / sd)
        widths.append(np.sqrt(np.diagonal(covariance)) / sd)
    off, ratio = np.mean(steps, axis=0), np.mean(widths, axis=0)
    error = float(np.max(np.std(steps, axis=0, ddof=1)) / len(steps) ** 0.5)
    labels = guide.model.parameters.labels
    figures = {"bias / sd": dict(zip(labels, off.tolist())), "sd ratio": dict(zip(labels, ratio.tolist()))}
    measured = f"a Newton step with {WEIGHTED} weighted draws in each of {count} windows"
    wobble = (2 * max(count - prior.size, 1)) ** -0.5  # of a width that the covariance of so many scores gives
    return _judged(off, ratio, error, wobble, OFF_LONG, labels, measured), figures


def _judged(off, ratio, mean_error: float, width_error: float, most: float, labels, measured: str) -> list[Finding]:
    findings = []
    worst = int(np.argmax(np.abs(off)))
    if not np.isfinite(off).all() or abs(off[worst]) > max(most, SURE * mean_error):
        text = f"the mean of {labels[worst]} is off by {off[worst]:+.2f} ± {mean_error:.2f} posterior sd, by {measured}"
        findings.append(Finding("parameters", DO_NOT_TRUST, text, MORE))
    k = int(np.argmax(np.maximum(ratio / WIDE, NARROW / ratio)))
    if not NARROW < ratio[k] < WIDE and abs(ratio[k] - 1) > SURE * width_error:
        text = f"the width of {labels[k]} is {ratio[k]:.2f} ± {width_error:.2f} of the right one, by {measured}"
        findings.append(Finding("parameters", TRUST_MEANS, text, MORE))
    if not findings and (SURE * mean_error > most or SURE * width_error > WIDE - 1):
        known = f"means are known to {mean_error:.2f} sd only and widths to {width_error:.0%}"
        findings.append(Finding("parameters", TRUST_MEANS, f"{known}, by {measured}: too little to tell", MORE))
    if not findings:
        within = f"means within {abs(off[worst]):.2f} sd, widths {ratio.min():.2f} to {ratio.max():.2f} of the right ones"
        findings.append(Finding("parameters", TRUST, f"{within}, by {measured}"))
    return findings


def identified(guide: Guide, known: tuple[str, ...], *, key: PRNGKeyArray) -> tuple[list[Finding], dict[str, Any]]:
    r"""What the data have added to the prior: the largest eigenvalue of the posterior covariance in units of the prior's."""
    prior = guide.model.parameters
    prior_key, own_key = jr.split(key)
    before = np.asarray(prior.sample(prior_key, DRAWS), np.float64)
    low, high = np.quantile(before, [0.1587, 0.8413], axis=0)
    spread = np.maximum(0.5 * (high - low), 1e-12)
    free = np.array([k for k, label in enumerate(prior.labels) if label.split("[")[0] not in known], int)
    if not len(free):
        return [], {}
    _, covariance = moments_of(guide, key=own_key)
    ranks = np.argsort(np.argsort(before[:, free], axis=0), axis=0)
    together = np.corrcoef(ranks.T).reshape(len(free), -1) + 1e-6 * np.eye(len(free))
    apart = np.linalg.inv(np.linalg.cholesky(together))
    values, vectors = np.linalg.eigh(apart @ (covariance / np.outer(spread, spread))[np.ix_(free, free)] @ apart.T)
    vectors = np.linalg.solve(apart, vectors)
    share = float(np.sqrt(max(values[-1], 0.0)))
    figures = {"widest direction / prior": share}
    involved = [prior.labels[free[k]] for k in np.flatnonzero(np.abs(vectors[:, -1]) > 0.3)]
    if share < LEARNT:
        return [Finding("identification", TRUST, f"no direction of θ is wider than {share:.2f} of its prior")], figures
    what = involved[0] if len(involved) == 1 else "a combination of " + ", ".join(involved)
    text = f"the data say nothing about {what}: the posterior is {share:.2f} times as wide as the prior"
    names = ", ".join(repr(label.split("[")[0]) for label in involved)
    remedy = f"Fix it, or give more data; if it is meant to rest on its prior, pass `known=({names},)`"
    return [Finding("identification", DO_NOT_TRUST, text, remedy)], figures
