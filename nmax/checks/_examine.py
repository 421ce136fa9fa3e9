"""All examinations of a fit, one after the other."""

from __future__ import annotations

import time
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._evidence import evidence as weighed
from nmax._strip import DRAWS as STRIP_DRAWS
from nmax._strip import THETAS, Strip, strip
from nmax.checks._catalogue import by_catalogue
from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Check, Finding
from nmax.checks._path import NO_DENSITY, by_gap, by_strip
from nmax.checks._residuals import by_residuals, residuals
from nmax.checks._rivals import by_new_starts
from nmax.checks._theta import by_scores, by_weights, identified
from nmax.data import ManySeries, windows_over

SHORT = 20_000  # steps up to which θ is weighted by a particle filter
ERROR = 0.05  # of the log evidence, in nats
DRAWS, WORTH = 1_536, 250.0  # draws of θ at the most, and what they are to be worth
AGAIN, MORE_PARTICLES = 512, 512  # draws of θ, and particles for each, where these do not do
WINDOWS = 400  # of the strip
PER_WINDOW = 64  # steps
SKIPPED = 0.02


def examine(fit: Any, *, known: tuple[str, ...], key: PRNGKeyArray) -> Check:
    """Examine an `nmax.Posterior`, or an `nmax.ManyPosterior`."""
    begun = time.perf_counter()
    evidence_key, elbo_key, theta_key, strip_key, pit_key, mode_key, prior_key = jr.split(key, 7)
    guide, series = fit.guide, fit.series
    findings: list[Finding] = []
    figures: dict[str, Any] = {}

    def note(result: tuple[list[Finding], dict[str, Any]]) -> None:
        findings.extend(result[0])
        figures.update(result[1])

    elbo = fit.elbo(key=elbo_key)
    level = elbo.mean
    if not np.isfinite(elbo.mean):
        findings.append(Finding("bound", DO_NOT_TRUST, f"the ELBO is {elbo.mean}: some draws have no density", NO_DENSITY))
    steps = sum(series.lengths)
    if steps <= SHORT:
        evidence = weighed(guide, series, error=ERROR, most=DRAWS, effective=WORTH, key=evidence_key)
        if not evidence.reliable or evidence.effective < WORTH / 2:  # q(θ) may be fine, and the filter too noisy to tell
            again = {"most": AGAIN, "effective": WORTH, "particles": MORE_PARTICLES}
            evidence = weighed(guide, series, error=ERROR, key=evidence_key, **again)
        level = evidence.mean if evidence.reliable else elbo.mean
        note(by_weights(guide, evidence, key=theta_key))
        if evidence.reliable and np.isfinite(elbo.mean):
            note(by_gap(elbo, evidence, max(steps // PER_WINDOW, 1)))
    else:
        note(by_scores(guide, series, key=theta_key))
    note(by_strip(_strip(fit, key=strip_key)))
    note(by_residuals(residuals(guide, series, key=pit_key)))
    note(by_new_starts(guide, series, level, fit.modes, key=mode_key))
    note(identified(guide, known, key=prior_key))
    note(by_catalogue(fit, known, key=jr.fold_in(key, 7)))
    findings.append(_convergence(fit))
    figures["elbo"] = elbo.mean
    return Check(tuple(findings), figures, time.perf_counter() - begun)


def _strip(fit: Any, *, key: PRNGKeyArray) -> Strip:
    """Of windows along the series, or along several."""
    if not isinstance(fit.series, ManySeries):
        return fit.strip(most=WINDOWS, key=key)
    width = min(PER_WINDOW, fit.series.length)
    windows = windows_over(fit.series, width)
    chosen = windows.at(np.unique(np.linspace(0, windows.count - 1, min(WINDOWS, windows.count)).astype(np.int64)))
    starts, which = np.asarray(chosen.start), np.asarray(chosen.which)
    return strip(fit.guide, fit.series, starts, width, thetas=THETAS, draws=STRIP_DRAWS, key=key, which=which)


def _convergence(fit: Any) -> Finding:
    """Why the fit ended; whether it was at rest weighs less than what the other examinations measure."""
    if fit.skipped > SKIPPED * max(fit.steps, 1):
        text = f"{fit.skipped} of {fit.steps} steps had gradients that were not finite"
        return Finding("training", TRUST_MEANS, text, "A `support`, a smaller `dt` or narrower priors mend that")
    if not np.isfinite(fit.convergence.mean) and not fit.converged:
        return Finding("training", TRUST_MEANS, f"{fit.reason}; {fit.convergence.could_change}", "Go on for more steps")
    return Finding("training", TRUST, f"{fit.reason}; {fit.convergence.could_change}")
