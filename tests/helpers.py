"""Statistical assertions with stated false-alarm rates, small models, and the shared reference series."""

import math
import os
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

import nmax
from nmax._settings import FitSettings
from nmax._train import Outcome
from nmax.data import Windows, as_table, make_series

SHARED = Path(os.environ.get("NMAX_SHARED", Path(__file__).resolve().parents[2] / "shared"))


class ExactCase(NamedTuple):
    """An AR(1) series with T = 5000, its true path, draws of its exact posterior, and log p(y_1..y_T)."""

    y: np.ndarray
    x: np.ndarray
    theta: np.ndarray
    log_evidence: float


def ar1_case() -> ExactCase:
    """The stored reference where it lies beside the clone; elsewhere a simulated series with its own exact posterior."""
    stored = SHARED / "reference" / "ar1_T5000_s11.npz"
    if stored.exists():
        file = np.load(stored)
        y, x, theta = (file[name].astype(float) for name in ("y", "x_true", "theta"))
        return ExactCase(y, x, theta, -12871.400)
    truth = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
    x, y = nmax.simulate(nmax.models.ar1(), truth, 5_000, key=jax.random.key(11))
    exact = nmax.reference.ar1_exact(y[:, 0], 20_000, seed=0)
    first = -0.5 * (float(y[0, 0]) - 10) ** 2 - 0.5 * math.log(2 * math.pi)
    return ExactCase(y[:, 0].astype(float), x[:, 0], exact.theta, exact.log_evidence - first)


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


def untrained(model, y, theta):
    """A posterior as the look-ahead is built: exact in x at each θ of a linear Gaussian model, about `theta` in θ."""
    table = as_table(y)
    series, settings = make_series(table.y, table.inputs), nmax.LookaheadGuide(layers=0, weighted=1)
    guide = settings.build(model, series, key=jax.random.key(0), theta=model.parameters.unconstrain(theta))
    nothing = np.zeros(3)
    unknown = dict.fromkeys(("rhat", "mean", "width", "elbo", "elbo_standard_error"), math.nan)
    rest = nmax.Convergence(converged=True, mean_of="", width_of="", judged_by="nothing", **unknown)
    outcome = Outcome(guide, nmax.History(*[nothing] * 5), "was not trained", rest, 0, 0)
    asked = FitSettings(key=jax.random.key(0), guide=settings, goal=1)
    return nmax.Posterior(model, table, series, Windows(series.length, series.length), outcome, asked, 0.0)
