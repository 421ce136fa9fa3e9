"""The particle filter: exact where the model is linear and Gaussian, unbiased where not; evidence, weights, forecasts."""

import copy
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import assert_mean, random_walk
from test_lookahead import linear_model, with_gaps

import nmax
from nmax._evidence import evidence, log_mean_exp
from nmax._objective import start_term
from nmax._pareto import smoothed
from nmax._particles import filter_guide, filtered
from nmax.checks import residuals
from nmax.data import make_series
from nmax.reference import LinearGaussian, ar1_exact, kalman_filter


def built(model, y, **options):
    series = make_series(y)
    guide = nmax.LookaheadGuide(layers=0, **options).build(model, series, key=jr.key(0))
    return filter_guide(guide, series), series


def log_likelihoods(guide, series, flat, particles, keys):
    """log p̂(y | θ) of several runs, y_0 included."""
    numbers = jnp.arange(-(-(series.length + 1) // guide.block), dtype=jnp.int32)
    run = jax.jit(jax.vmap(lambda key: filtered(guide, series, flat, numbers, particles, key=key).log_factors))
    start = start_term(guide, series, guide.model.parameters.constrain(flat))
    return np.asarray(run(keys), np.float64).sum(axis=1) + float(start)


@pytest.mark.parametrize(
    ("d", "observed", "block"), [(1, 1, None), (2, 1, None), (3, 3, 64)], ids=["d=1", "one of two", "blocks"]
)
def test_a_linear_gaussian_likelihood_is_exact_for_every_noise(d, observed, block):
    model, exact = linear_model(d, observed=observed)
    y = with_gaps(nmax.simulate(model, {"unused": 0.0}, 150, key=jr.key(d)).y, 0.3)
    guide, series = built(model, y, block=block, buffer=None if block is None else 40)
    values = log_likelihoods(guide, series, jnp.zeros(1), 4, jr.split(jr.key(1), 3))
    np.testing.assert_allclose(values, kalman_filter(exact, y).log_likelihood, atol=0.02)


@pytest.mark.extra
def test_a_component_that_the_data_show_counts_by_its_own_density():
    """Two independent components, one seen with error and with gaps, one exactly: two scalar models, exact each."""
    model = random_walk(d=2, observed=1, exactly_observed={1: 1})
    theta = {"level": 2.0, "noise": 1.0}
    y = np.array(nmax.simulate(model, theta, 60, key=jr.key(9)).y, float)
    y[0, 1], y[10:20, 0] = 3.3, np.nan  # the start of what is shown is read off the data, too
    guide, series = built(model, y)
    flat = jnp.asarray(model.parameters.unconstrain(theta))
    values = log_likelihoods(guide, series, flat, 4, jr.split(jr.key(1), 2))
    one = np.ones((1, 1))
    scalar = LinearGaussian(np.array([2.0]), np.array([0.4]), 0.8 * one, one, one, 0.25 * one)
    shown = y[1:, 1] - 0.4 - 0.8 * y[:-1, 1]
    expected = kalman_filter(scalar, y[:, :1]).log_likelihood + np.sum(-0.5 * shown**2 - 0.5 * math.log(2 * math.pi))
    np.testing.assert_allclose(values, expected, atol=0.01)


@pytest.mark.stat
def test_the_likelihood_is_unbiased_where_the_guide_is_not_exact():
    """Three steps of a model with Student t noise, against a sum over a grid; false alarms: one in a million."""
    model = nmax.StateSpaceModel(
        prior={"unused": dist.Normal(0.0, 1.0)},
        initial=lambda theta: jnp.zeros(1),
        transition=lambda x, theta: dist.Normal(jnp.sin(x), 0.7).to_event(1),
        observation=lambda x, theta: dist.StudentT(5.0, x, 1.0).to_event(1),
    )
    y = np.array([[0.1], [1.5], [np.nan], [-2.0]])
    guide, series = built(model, y)
    grid = np.linspace(-8.0, 8.0, 4_001)

    def normal(x, mean, sd):
        return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))

    def student(value, x):
        return np.exp(np.asarray(dist.StudentT(5.0, x, 1.0).log_prob(value), np.float64))

    mass = normal(grid, 0.0, 0.7) * student(1.5, grid)
    for seen in (None, -2.0):
        mass = normal(grid[:, None], np.sin(grid)[None], 0.7) @ mass * (grid[1] - grid[0])
        mass = mass if seen is None else mass * student(seen, grid)
    expected = float(mass.sum() * (grid[1] - grid[0]) * student(0.1, np.zeros(1))[0])
    values = log_likelihoods(guide, series, jnp.zeros(1), 4, jr.split(jr.key(3), 20_000))
    assert_mean(np.exp(values - np.log(expected))[:, None], np.ones(1))


@pytest.fixture(scope="module")
def fitted():
    model = nmax.models.ar1()
    truth = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
    _, y = nmax.simulate(model, truth, 200, key=jr.key(4))
    return y, nmax.fit(model, y, key=jr.key(0), progress=False)


def test_the_evidence_of_ar1_is_the_exact_one(fitted):
    y, fit = fitted
    found = fit.evidence(key=jr.key(1))
    exact = ar1_exact(y[:, 0], 4_000, seed=0).log_evidence
    assert found.reliable
    assert abs(found.mean - exact) < 5 * found.standard_error + 0.01
    assert found.standard_error < 0.05
    elbo = fit.elbo(key=jr.key(2))
    assert elbo.mean < found.mean + 5 * np.hypot(found.standard_error, elbo.standard_error)
    assert "log evidence" in str(found)
    comparison = nmax.compare({"right": fit, "again": fit}, key=jr.key(3))
    assert "cannot be told apart" in str(comparison)


def test_draws_of_theta_with_heavy_tails_lead_to_the_same_evidence(fitted):
    y, fit = fitted
    found = evidence(fit.guide, fit.series, error=0.05, most=1_024, freedom=4.0, key=jr.key(5))
    assert abs(found.mean - ar1_exact(y[:, 0], 4_000, seed=0).log_evidence) < 5 * found.standard_error + 0.01
    assert found.standard_error < 0.05
    assert np.std(found.theta, axis=0).min() > 1.2 * np.std(fit.evidence(key=jr.key(1)).theta, axis=0).min()


def test_a_poor_q_of_theta_is_not_relied_on():
    rng = np.random.default_rng(0)
    e = rng.standard_normal(2_000)
    fine = smoothed(-0.01 * e**2)
    assert fine.khat <= 0.0  # all but equal: no tail to speak of
    assert fine.effective > 1_900
    assert smoothed(-0.2 * e**2).khat < 0.5  # a proposal somewhat too wide
    heavy = smoothed(0.45 * e**2)  # a proposal whose width is a third of what it should be
    assert heavy.khat > 0.7
    assert smoothed(np.zeros((3, 100))).khat.tolist() == [0.0, 0.0, 0.0]
    lost = smoothed(np.full((2, 100), -np.inf))  # nothing has a density: worse than any weight
    assert lost.effective.tolist() == [0.0, 0.0]
    assert np.isinf(lost.khat).all()
    assert log_mean_exp(np.array([np.nan, -np.inf])) == (-np.inf, np.inf)
    mean, error = log_mean_exp(np.log([1.0, 3.0]))
    assert mean == pytest.approx(math.log(2.0))
    assert error == pytest.approx(0.5)


@pytest.mark.extra
@pytest.mark.stat
def test_forecasts_are_uniform_under_the_model_and_not_under_another():
    """Kolmogorov–Smirnov on 1,500 forecasts; false alarms: one in a million."""
    model = random_walk()
    x, y = nmax.simulate(model, {"level": 2.0, "noise": 1.0}, 1_500, key=jr.key(7))
    y[::7] = np.nan
    guide, series = built(model, y)
    centre = jnp.asarray(model.parameters.unconstrain({"level": 2.0, "noise": 1.0}))
    guide = _at(guide, centre)
    pit = residuals(guide, series, key=jr.key(1)).pit[:, 0]
    fine = np.sort(pit[np.isfinite(pit)])
    assert len(fine) == np.isfinite(y[1:]).sum()
    gap = np.max(np.abs(fine - (np.arange(len(fine)) + 0.5) / len(fine)))
    assert gap < math.sqrt(-0.5 * math.log(1e-6 / 2) / len(fine))
    wrong = _at(guide, jnp.asarray(model.parameters.unconstrain({"level": 2.0, "noise": 0.3})))
    scores = residuals(wrong, series, key=jr.key(1)).scores[:, 0]
    assert np.nanstd(scores) > 1.2


def _at(guide, loc):
    return eqx.tree_at(lambda g: g.theta_flow.head.loc, guide, loc)


def test_bad_comparisons_are_refused(fitted):
    y, fit = fitted
    other, unsearched = copy.copy(fit), copy.copy(fit)
    other.series, unsearched.modes = make_series(y + 1.0), ()
    with pytest.raises(ValueError, match="same data"):
        nmax.compare([fit, other], key=jr.key(0))
    with pytest.raises(ValueError, match="'evidence' or 'elbo'"):
        nmax.compare([fit, fit], by="aic", key=jr.key(0))
    with pytest.raises(ValueError, match="at least one fit"):
        nmax.compare([], key=jr.key(0))
    with pytest.raises(TypeError, match="what nmax.fit returns"):
        nmax.compare([fit, 3], key=jr.key(0))
    with pytest.raises(ValueError, match="rival modes"):
        nmax.compare([unsearched], key=jr.key(0))
    by_elbo = nmax.compare([fit, fit], by="elbo", key=jr.key(0))
    assert sum(row["weight"] for row in by_elbo.rows.values()) == pytest.approx(1.0)
    assert "bounds, not evidence" in str(by_elbo)
    rival = fit.modes[0]._replace(theta=fit.modes[0].theta + 1.0, log_evidence=fit.modes[0].log_evidence - np.log(3.0))
    unsearched.modes = (fit.modes[0], rival)
    weights = [row["weight"] for row in nmax.compare([unsearched], key=jr.key(0)).rows.values()]
    np.testing.assert_allclose(weights, [0.75, 0.25], rtol=1e-6)


def test_what_cannot_be_asked_is_refused(fitted):
    _, fit = fitted
    with pytest.raises(ValueError, match="0 <= start < stop"):
        fit.strip(start=10, stop=5, key=jr.key(0))
    with pytest.raises(ValueError, match="`known` must name parameters"):
        fit.check(known=("sd",))
    with pytest.raises(ValueError, match="`error`"):
        fit.evidence(error=-1.0, key=jr.key(0))
