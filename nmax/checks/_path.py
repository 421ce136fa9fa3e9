"""Does q(x | θ) describe the path? The gap of the ELBO to the evidence, and weights of windows along the series."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax._evidence import Evidence
from nmax._strip import Strip
from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Finding

SOME, MOST = 0.01, 0.3  # shares of the windows that may be bad before widths, or anything, are in doubt
GAP, GAP_A_WINDOW = 5.0, 0.35  # nats in all, and a window, that the ELBO may fall short of the evidence
SURE = 3.0
NO_DENSITY = "Some draws have no density: give a `support` for states that must stay in one, or a smaller `dt`"
REMEDY = "Look at fit.strip(key=...), use fit.path_summary there, or fit with neural layers, nmax.LookaheadGuide(layers=2)"


def by_strip(strip: Strip) -> tuple[list[Finding], dict[str, Any]]:
    """How many windows are bad, and where."""
    share = float(np.mean(strip.bad))
    figures = {"bad windows": share, "worst effective share": float(strip.effective.min())}
    if share <= SOME:
        text = f"{strip}" if not strip.bad.any() else f"{strip}: too few to matter elsewhere"
        return [Finding("path", TRUST, text)], figures
    level = DO_NOT_TRUST if share > MOST else TRUST_MEANS
    return [Finding("path", level, f"q(x | θ) is bad in {share:.0%} of the windows; {strip}", REMEDY)], figures


def by_gap(elbo: Any, evidence: Evidence, windows: int) -> tuple[list[Finding], dict[str, Any]]:
    """The ELBO must lie below the evidence, and not far."""
    gap, error = evidence.mean - elbo.mean, float(np.hypot(evidence.standard_error, elbo.standard_error))
    figures = {"log evidence": evidence.mean, "its error": evidence.standard_error, "gap": gap, "gap's error": error}
    text = f"the ELBO falls short of the log evidence by {gap:.2f} ± {error:.2f} nats"
    if not np.isfinite(gap):
        text = f"the ELBO is {elbo.mean}, the log evidence {evidence.mean}"
        return [Finding("bound", DO_NOT_TRUST, text, NO_DENSITY)], figures
    if gap < -max(SURE * error, 1.0):
        remedy = "One of the two misses mass: sample it exactly with nmax.sample"
        return [Finding("bound", DO_NOT_TRUST, f"{text}, but can only lie below it", remedy)], figures
    if gap - SURE * error > max(GAP, GAP_A_WINDOW * windows):
        return [Finding("bound", TRUST_MEANS, f"{text}, {gap / windows:.2f} a window", REMEDY)], figures
    return [Finding("bound", TRUST, text)], figures
