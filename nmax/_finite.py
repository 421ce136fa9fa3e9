"""A result of which draws are not numbers is none: it is refused, lest somebody has to find that out by themselves."""

from __future__ import annotations

import jax.random as jr
import numpy as np

from nmax._fitted import Fitted
from nmax._start import NoPosteriorError as NoPosteriorError

DRAWS = 200  # of θ, which must all be finite
NOT_FOUND = (
    "The posterior of θ must have a finite mean and covariance; none was found. Is a stretch without observations longer "
    "than the model can bridge, or is a density undefined near the data? Look at `nmax.simulate` at likely parameters, take "
    "narrower priors, a smaller `dt` or a `support`, or fit the stretches between long gaps on their own."
)


def check_finite(posterior: Fitted) -> None:
    """Refuse a posterior with draws of θ that are not finite."""
    draws = posterior.theta(DRAWS, key=jr.key(0))
    bad = max(int((~np.isfinite(values.reshape(DRAWS, -1))).any(axis=1).sum()) for values in draws.values())
    if bad:
        raise NoPosteriorError(f"{NOT_FOUND} ({bad} of {DRAWS} draws of θ are not finite)")
