"""Statistical assertions with stated false-alarm rates, small models, and the shared reference series."""

import math
import os
from pathlib import Path
from statistics import NormalDist

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

import nmax

SHARED = Path(os.environ.get("NMAX_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def assert_mean(draws, expected, *, false_alarm=1e-6):
    """Fail if the mean of `draws` is further off than chance allows."""
    error = np.abs(np.mean(draws, axis=0) - expected)
    standard_error = np.std(draws, axis=0, ddof=1) / math.sqrt(len(draws))
    limit = NormalDist().inv_cdf(1 - false_alarm / (2 * np.size(error)))
    worst = np.max(error / standard_error)
    assert worst < limit, f"mean off by {worst:.1f} standard errors (limit {limit:.1f})"


def random_walk(*, d=1, support=constraints.real, with_inputs=False, exactly_observed=None, observed=None):
    """A d-dimensional autoregression with two parameters; the first `observed` components are seen with error."""
    observed = d if observed is None else observed

    def transition(x, theta, *inputs):
        push = inputs[0][0] if with_inputs else 0.0
        return dist.Normal(theta["level"] + 0.8 * (x - theta["level"]) + push, theta["noise"]).to_event(1)

    def observation(x, theta, *inputs):
        del theta, inputs
        return dist.Normal(x[:observed], 0.5).to_event(1)

    return nmax.StateSpaceModel(
        prior={"level": dist.Normal(2.0, 1.0), "noise": dist.LogNormal(0.0, 0.5)},
        initial=lambda theta: jnp.full(d, 2.0),
        transition=transition,
        observation=observation if observed else None,
        support=support,
        exactly_observed=exactly_observed or {},
    )
