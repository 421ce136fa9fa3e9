"""Is there another mode? Several new starts, held against the fit."""

from __future__ import annotations

from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._find import find
from nmax._locate import by_name
from nmax._progress import Silent
from nmax._start import Mode
from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Finding
from nmax.checks._theta import moments_of
from nmax.data import Series
from nmax.guides import Guide, LookaheadGuide, prior_centre

APART = 5.0  # standard deviations of the wider of the two, at least
WEIGHTY, NOTABLE = 2.3, 4.6  # nats below the fit: a tenth of its mass, a hundredth
REMEDY = "Fit with more starts, nmax.LookaheadGuide(starts=16), and look at fit.modes; a narrower prior decides between them"


def by_new_starts(
    guide: Guide, series: Series, level: float, fitted: tuple[Mode, ...], *, key: PRNGKeyArray
) -> tuple[list[Finding], dict[str, Any]]:
    """Modes that new starts lead to, against the log of the mass around the fit, `level`, in nats."""
    model = guide.model
    centre_key, build_key, mode_key, own_key = jr.split(key, 4)
    centre = prior_centre(model.parameters, key=centre_key)
    settings = LookaheadGuide(layers=0, weighted=1)
    try:
        found = find(settings, model, series, centre, width=None, meter=Silent(), build_key=build_key, key=mode_key)
    except (RuntimeError, np.linalg.LinAlgError) as error:
        return [Finding("modes", TRUST_MEANS, f"new starts found no mode: {error}")], {}
    mean, covariance = moments_of(guide, key=own_key)
    rivals = [mode for mode in (*found.modes, *fitted[1:]) if _apart(mode, mean, covariance)]
    if not rivals:
        return [Finding("modes", TRUST, f"{settings.starts} new starts led to no other mode")], {"rival": -np.inf}
    best = max(rivals, key=lambda mode: mode.log_evidence)
    own = [mode.log_evidence for mode in (*found.modes, *fitted[:1]) if mode.arrived and not _apart(mode, mean, covariance)]
    below = max(own, default=level) - best.log_evidence  # like against like, where the fit's own mode was found again
    figures = {"rival": -below}
    text = f"another mode at {by_name(model, best.theta)}, {below:.1f} nats below this one"
    if below > NOTABLE:
        return [Finding("modes", TRUST, f"{text}: less than a hundredth of its mass")], figures
    if below < WEIGHTY:
        what = text if below > 0 else f"a better mode at {by_name(model, best.theta)}, {-below:.1f} nats above this one"
        return [Finding("modes", DO_NOT_TRUST, what, REMEDY)], figures
    return [Finding("modes", TRUST_MEANS, text, REMEDY)], figures


def _apart(mode: Mode, mean: np.ndarray, covariance: np.ndarray) -> bool:
    sd = np.sqrt(np.maximum(np.diagonal(mode.covariance), np.diagonal(covariance)))
    return mode.arrived and bool(np.max(np.abs(mode.theta - mean) / sd) > APART)
