"""Figures that claims are made of. Each takes the name of a case and gives a function of the results."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from nmax.experiments._declare import NothingToCompare, Result, Results
from nmax.reference import bias_in_sd, mmd2, sd_ratio

Measure = Callable[[Results], float]
CLOSE = 0.02  # MMD² that counts as there; the authors' code stays between 0.016 and 0.115 on AR(1) with T = 5,000


def worst_bias(*cases: str) -> Measure:
    """Largest |bias| of a parameter's mean, in sd of the exact posterior."""
    return _worst(lambda result: np.abs(bias_in_sd(*_pair(result))).max(), cases)


def worst_width(*cases: str) -> Measure:
    """Largest |sd ratio − 1| of a parameter."""
    return _worst(lambda result: np.abs(sd_ratio(*_pair(result)) - 1).max(), cases)


def apart(*cases: str) -> Measure:
    """Largest MMD² between q(θ) and the exact posterior."""
    return _worst(lambda result: mmd2(*_pair(result)), cases)


def truth_off(*cases: str) -> Measure:
    """Largest distance of a true parameter from its posterior mean, in posterior sd."""
    return _worst(lambda r: np.abs((true_theta(r) - r.draws.mean(axis=0)) / r.draws.std(axis=0)).max(), cases)


def band_miss(case: str, component: int) -> Measure:
    """How far from 90 % the share of the kept stretch lies that the 90 % band of a component holds, in per cent."""

    def measure(results: Results) -> float:
        result = results[case]
        if result.data.x is None:
            raise NothingToCompare("The true path is not known.")
        low, high = np.quantile(result.paths[..., component], [0.05, 0.95], axis=0)
        true = result.data.x[result.start : result.start + len(low), component]
        return float(abs(100 * np.mean((true >= low) & (true <= high)) - 90))

    return measure


def seconds(*cases: str) -> Measure:
    """Longest wall clock of a fit, compilation included."""
    return _worst(lambda result: result.facts["seconds"], cases)


def seconds_a_step(result: Result) -> float:
    """Of training, compilation left out: between the first and the last look."""
    taken = result.trace_seconds[-1] - result.trace_seconds[0]
    return float(taken / (result.trace_steps[-1] - result.trace_steps[0]))


def step_cost_ratio(one: str, other: str) -> Measure:
    """Seconds a step of one case over those of another."""
    return lambda results: seconds_a_step(results[one]) / seconds_a_step(results[other])


def trace_of(result: Result) -> np.ndarray:
    """MMD² at every look along the way."""
    exact = _pair(result)[1]
    return np.array([mmd2(draws[:, : exact.shape[1]].astype(float), exact, count=1_000) for draws in result.trace_draws])


def steps_to(result: Result, limit: float) -> float:
    """Training steps after which MMD² stays at or below a limit; infinite if it never does."""
    above = np.flatnonzero(trace_of(result) > limit)
    first = 0 if not len(above) else above[-1] + 1
    return float(result.trace_steps[first]) if first < len(result.trace_steps) else np.inf


def seconds_to(result: Result, limit: float) -> float:
    """Wall clock after which MMD² stays at or below a limit, infinite if it never does; NaN without an exact posterior.

    A guide that is not trained step by step is there at the end of its fit, or never.
    """
    if result.data.exact is None:
        return np.nan
    if mmd2(*_pair(result)) > limit:
        return np.inf
    if not len(result.trace_steps):
        return float(result.facts["seconds"])
    at = np.flatnonzero(result.trace_steps == steps_to(result, limit))
    return float(result.trace_seconds[at[0]]) if len(at) else float(result.facts["seconds"])


def elbo_a_step(case: str) -> Measure:
    """The ELBO divided by the number of steps of the series, in nats."""
    return lambda results: float(results[case].facts["elbo"] / (len(results[case].data.y) - 1))


def far_from_truth(case: str) -> Measure:
    """Largest distance of a posterior mean from the true parameter, unconstrained."""
    return lambda results: float(np.abs(results[case].draws.mean(axis=0) - true_theta(results[case])).max())


def steps_ratio(one: str, other: str, limit: float) -> Measure:
    """Steps to an MMD² of one case over those of another; NaN, which no limit allows, if the other never gets there."""

    def measure(results: Results) -> float:
        needed = steps_to(results[other], limit)
        return steps_to(results[one], limit) / needed if np.isfinite(needed) else np.nan

    return measure


def elbo_gain(one: str, other: str) -> Measure:
    """ELBO of one case minus that of another, in nats."""
    return lambda results: float(results[one].facts["elbo"] - results[other].facts["elbo"])


def true_theta(result: Result) -> np.ndarray:
    """The parameters of the simulation, unconstrained."""
    if result.data.truth is None:
        raise NothingToCompare("The true parameters are not known.")
    return np.asarray(result.data.model.parameters.unconstrain({k: jnp.asarray(v) for k, v in result.data.truth.items()}))


def _worst(figure: Callable[[Result], float], cases: tuple[str, ...]) -> Measure:
    """The largest over cases; NaN if any is."""
    return lambda results: float(np.max([figure(results[name]) for name in cases]))


def _pair(result: Result) -> tuple[np.ndarray, np.ndarray]:
    exact = result.data.exact
    if exact is None:
        raise NothingToCompare("There is no exact posterior to compare with here.")
    return result.draws[:, : exact.shape[1]].astype(float), exact
