"""Forecasts and simulated observations: exact where the noise is off, by their moments where it is on, against Kalman."""

import dataclasses
import math

import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import assert_mean, random_walk, untrained
from numpyro.distributions import constraints
from scipy.stats import chi2

import nmax
from nmax._joint import JointDraws
from nmax._statistics import Pattern, statistics, tail_limits
from nmax.checks import Residuals
from nmax.data import as_table, make_series
from nmax.reference import LinearGaussian, kalman_filter

TRUTH = {"level": 2.0, "noise": 1.0}
DRAWS = 300  # always as many from the fit, so that its path compiles once


class Known(JointDraws):
    """A posterior whose draws are given, so that what is made of them can be worked out."""

    def __init__(self, model, y, theta, x, inputs=None):
        self.model, self.table = model, as_table(y, inputs)
        self.series = make_series(self.table.y, self.table.inputs)
        self.given, self.x = theta, x

    def theta(self, draws, *, key):
        del key
        return {name: np.asarray(values, np.float32)[:draws] for name, values in self.given.items()}

    def path(self, draws, *, start=0, stop=None, key):
        del key
        return np.asarray(self.x, np.float32)[:draws, start:stop]


def known(model=None, draws=50, rows=6, columns=1, inputs=None, noise=1e-6, seed=0):
    """Draws of a level and a path, from a model whose noise is all but off."""
    rng = np.random.default_rng(seed)
    model = random_walk() if model is None else model
    theta = {"level": rng.normal(2.0, 1.0, draws), "noise": np.full(draws, noise)}
    return Known(model, rng.normal(size=(rows, columns)), theta, rng.normal(size=(draws, rows, model.state_size)), inputs)


def assert_variance(draws, expected, *, false_alarm=1e-6):
    """Fail if the variance of normal draws is further off than chance allows."""
    n = len(draws)
    low, high = chi2.ppf([false_alarm / 2, 1 - false_alarm / 2], n - 1) / (n - 1)
    ratio = np.var(draws, axis=0, ddof=1) / expected
    assert ((ratio > low) & (ratio < high)).all(), (ratio, low, high)


@pytest.fixture(scope="module")
def fitted():
    _, y = nmax.simulate(random_walk(), TRUTH, 150, key=jr.key(3))
    y[40:45] = np.nan
    return untrained(random_walk(), y, TRUTH)


def test_without_noise_each_draw_follows_its_own_theta(key):
    source = known()
    ahead = source.forecast(12, 50, key=key)
    level, h = source.given["level"][:, None], np.arange(1, 13)
    expected = level + 0.8**h * (source.x[:, -1, :1] - level)
    np.testing.assert_allclose(ahead.x[:, :, 0], expected, atol=1e-4)
    np.testing.assert_array_equal(ahead.times, np.arange(6, 18))
    np.testing.assert_array_equal(ahead.theta["level"], source.given["level"].astype(np.float32))
    assert ahead.alive.all()
    assert not ahead.notes


def test_inputs_ahead_push_the_state_and_are_checked_before_any_work(key):
    source = known(random_walk(with_inputs=True), inputs=np.zeros((6, 2)))
    push = np.array([[1.0, 9.0], [0.0, 9.0], [-2.0, 9.0]])
    ahead = source.forecast(3, 50, inputs=push, key=key)
    level, x, expected = source.given["level"], source.x[:, -1, 0], []
    for row in push:
        x = level + 0.8 * (x - level) + row[0]
        expected.append(x)
    np.testing.assert_allclose(ahead.x[:, :, 0].T, expected, atol=1e-4)
    with pytest.raises(ValueError, match=r"needs those of the 3 rows ahead: pass `inputs` of shape \(3, 2\)"):
        source.forecast(3, 5, key=key)
    with pytest.raises(ValueError, match=r"must have shape \(4, 2\).*got \(3, 2\)"):
        source.forecast(4, 5, inputs=push, key=key)
    with pytest.raises(ValueError, match="must be finite"):
        source.forecast(3, 5, inputs=np.where(push > 5, np.nan, push), key=key)
    with pytest.raises(ValueError, match="must be left out"):
        known().forecast(3, 5, inputs=push, key=key)
    with pytest.raises(ValueError, match="`steps` must be a whole number of at least 1"):
        known().forecast(0, 5, key=key)


@pytest.mark.stat
def test_moments_at_given_theta_are_the_formula_s(key):
    """Means of 10 figures, and as many variances: false alarms in 2 of 100,000."""
    draws, noise = 20_000, 0.7
    x = np.full((draws, 6, 1), 5.0)
    theta = {"level": np.full(draws, 2.0), "noise": np.full(draws, noise)}
    ahead = Known(random_walk(), np.zeros((6, 1)), theta, x).forecast(5, draws, key=key)
    h = np.arange(1, 6)
    mean, variance = 2 + 0.8**h * 3, noise**2 * (1 - 0.64**h) / 0.36
    assert_mean(ahead.x[:, :, 0], mean)
    assert_mean(ahead.y[:, :, 0], mean)
    assert_variance(ahead.x[:, :, 0], variance)
    assert_variance(ahead.y[:, :, 0], variance + 0.25)


@pytest.mark.stat
def test_a_fit_forecasts_as_kalman_does_at_each_theta(fitted):
    """Standardised by Kalman's forecast at each draw's own θ. False alarms: 12 figures, once in a million each."""
    draws, steps = DRAWS, 6
    ahead = fitted.forecast(steps, draws, key=jr.key(7))
    y = np.concatenate([fitted.table.y, np.full((steps, 1), np.nan)])
    scores = np.empty((draws, steps))
    one = np.ones((1, 1))
    for k in range(draws):
        level, noise = float(ahead.theta["level"][k]), float(ahead.theta["noise"][k])
        model = LinearGaussian(2 * one[0], 0.2 * level * one[0], 0.8 * one, noise**2 * one, one, 0.25 * one)
        exact = kalman_filter(model, y)
        sd = np.sqrt(exact.forecast_covariance[-steps:, 0, 0] + 0.25)
        scores[k] = (ahead.y[k, :, 0] - exact.forecast_mean[-steps:, 0]) / sd
    assert_mean(scores, 0.0)
    assert_variance(scores, 1.0)


def test_forecasts_are_joint_with_theta_and_path_and_do_not_depend_on_their_number(fitted, key):
    long, short = fitted.forecast(8, DRAWS, key=key), fitted.forecast(3, DRAWS, key=key)
    np.testing.assert_array_equal(long.x[:, :3], short.x)
    np.testing.assert_array_equal(long.y[:, :3], short.y)
    np.testing.assert_array_equal(long.theta["level"], fitted.theta(DRAWS, key=key)["level"])
    end = fitted.path(DRAWS, start=150, stop=151, key=key)[:, 0, 0]
    level, noise = long.theta["level"], long.theta["noise"]
    first = (long.x[:, 0, 0] - level - 0.8 * (end - level)) / noise
    assert np.abs(first).max() < 6  # a normal score of the step from the path's own end


def test_exactly_observed_columns_are_read_off_the_state(key):
    model = random_walk(d=2, observed=1, exactly_observed={1: 0})
    ahead = known(model, columns=2).forecast(4, 30, key=key)
    np.testing.assert_array_equal(ahead.y[:, :, 0], ahead.x[:, :, 1])
    assert np.abs(ahead.y[:, :, 1] - ahead.x[:, :, 0]).max() > 0.1  # with error
    whole = dataclasses.replace(model, observation=lambda x, theta: dist.Normal(x[::-1], 0.5).to_event(1))
    seen = known(whole, columns=2).forecast(4, 30, key=key)
    np.testing.assert_array_equal(seen.y[:, :, 0], seen.x[:, :, 1])
    only = dataclasses.replace(random_walk(exactly_observed={0: 0}), observation=None)
    np.testing.assert_array_equal(known(only).forecast(4, 30, key=key).y, known(only).forecast(4, 30, key=key).x)


def test_draws_that_explode_or_leave_the_support_are_counted(key):
    cubed = dataclasses.replace(random_walk(), transition=lambda x, theta: dist.Normal(x**3, theta["noise"]).to_event(1))
    source = known(cubed, draws=40)
    source.x[:10], source.x[10:] = 9.0, 0.5
    ahead = source.forecast(30, 40, key=key)
    assert len(ahead.notes) == 1
    assert ahead.notes[0].startswith("10 of 40 draws are not finite within 30 steps, the first at step 4")
    assert np.isnan(ahead.y[:10, 10:]).all()
    assert np.isfinite(ahead.quantiles()).all()
    assert ahead.notes[0] in str(ahead)
    gone = known(cubed, draws=10)
    gone.x[:] = 9.0
    assert np.isnan(gone.forecast(9, 10, key=key).quantiles(0.5)[0, -1]).all()

    held = random_walk(support=constraints.positive)
    source = known(held, draws=30)
    source.given["level"][:], source.x[:] = -3.0, 1.0
    source.given["level"][:12] = 2.0
    ahead = source.forecast(10, 30, key=key)
    assert ahead.notes[0].startswith("18 of 30 draws leave the support of the state within 10 steps, the first at step 2")
    assert ahead.alive[:12].all()
    assert not ahead.alive[12:, 1:].any()


def test_a_forecast_prints_itself_with_real_times(fitted, key):
    table = dataclasses.replace(
        fitted.table, columns=("flow",), times=np.datetime64("2024-01-01") + np.arange(151), time_name="day"
    )
    source = known(rows=151)
    source.table = table
    ahead = source.forecast(20, 50, key=key)
    assert ahead.times[0] == np.datetime64("2024-05-31")
    text = str(ahead.summary())
    assert text.splitlines()[0].split() == ["day", "mean", "sd", "5%", "50%", "95%", "flow"]
    assert "2024-05-31" in text
    assert "2024-06-19" in text
    summary = ahead.summary()
    np.testing.assert_allclose(summary.mean[:, 0], ahead.y[:, :, 0].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(ahead.quantiles(0.5)[0, :, 0], np.median(ahead.y[:, :, 0], axis=0), rtol=1e-6)
    np.testing.assert_allclose(ahead.quantiles([0.1], of="x")[0], np.quantile(ahead.x, 0.1, axis=0), rtol=1e-6)
    with pytest.raises(ValueError, match='`of` must be "y"'):
        ahead.quantiles(of="z")
    with pytest.raises(ValueError, match="between 0 and 1"):
        ahead.quantiles([5, 95])


@pytest.mark.stat
def test_simulated_observations_are_those_of_the_joint_draws_however_cut_up(fitted, key):
    """Normal scores of the error around each draw's own path; false alarms in 2 of a million."""
    whole = fitted.predictive(DRAWS, key=key)
    assert whole.shape == (DRAWS, 151, 1)
    np.testing.assert_array_equal(whole[:, 30:50], fitted.predictive(DRAWS, start=30, stop=50, key=key))
    error = ((whole - fitted.path(DRAWS, key=key)) / 0.5).reshape(-1, 1)
    assert_mean(error, 0.0)
    assert_variance(error, 1.0)
    model = random_walk(d=2, observed=1, exactly_observed={1: 0})
    source = known(model, columns=2)
    np.testing.assert_array_equal(source.predictive(9, key=key)[:, :, 0], source.path(9, key=key)[:, :, 1])
    with pytest.raises(ValueError, match="`draws` must be"):
        fitted.predictive(0, key=key)


def test_figures_of_a_series_with_gaps_are_those_of_its_observations():
    rng = np.random.default_rng(1)
    made = rng.normal(size=(3, 40, 2))
    observed = np.zeros((40, 2), bool)
    observed[::2, 0], observed[:, 1] = True, True
    observed[10:14] = False
    pattern = Pattern.of(observed, np.arange(40), 40, ("a", "b"))
    limits = tail_limits(made, observed)
    ours = statistics(made, pattern, limits)
    a = made[1, observed[:, 0], 0]
    pairs = [(i, i + 2) for i in range(0, 38, 2) if observed[i, 0] and observed[i + 2, 0]]
    first, second = (made[1, list(rows), 0] for rows in zip(*pairs, strict=True))
    low = np.quantile(made[:, observed[:, 0], 0], 0.05)
    expected = {
        "a: mean": a.mean(),
        "a: sd": a.std(),
        "a: minimum": a.min(),
        "a: maximum": a.max(),
        "a: correlation at lag 2": np.corrcoef(first, second)[0, 1],
        f"a: share below {low:.4g}": np.mean(a < low),
    }
    for label, value in expected.items():
        np.testing.assert_allclose(ours[label][1], value, err_msg=label)
    assert "b: correlation at lag 1" in ours
    apart = Pattern.of(np.ones((8, 1), bool), np.r_[0:4, 50:54], 4, ("a",))
    assert len(apart.pairs[0]) == 6  # none across the border of two stretches


@pytest.mark.stat
def test_a_right_model_is_replicated_and_a_wrong_one_is_not(fitted):
    """For the right model, false alarms in one of 20 tables at the most, if the data were drawn anew."""
    right = fitted.predictive_check(draws=DRAWS, key=jr.key(1))
    assert not right.extreme, str(right)
    assert right.rate == pytest.approx(0.05, abs=1e-9)
    assert "no figure is extreme" in str(right)
    assert "146 observations" in str(right)
    wrong = Known(
        fitted.model, fitted.table.y**3 / 10, fitted.theta(DRAWS, key=jr.key(2)), fitted.path(DRAWS, key=jr.key(2))
    )
    check = wrong.predictive_check(draws=300, key=jr.key(1))
    assert "y: maximum" in check.extreme
    assert "not replicated by the model" in str(check)
    gone = dataclasses.replace(fitted.model, support=constraints.less_than(-9.0))
    gone = Known(gone, fitted.table.y, wrong.given, wrong.x).predictive_check(draws=50, key=jr.key(1))
    assert not gone.extreme
    assert "nothing can be said: too few series stay finite" in str(gone)
    few = wrong.predictive_check(draws=50, key=jr.key(1))
    assert few.level == pytest.approx(2 / 51)
    assert "pass draws=280 or more" in str(few)
    with pytest.raises(ValueError, match="`rate` must lie"):
        fitted.predictive_check(rate=2.0, key=jr.key(1))


def test_a_long_series_is_replicated_in_stretches(key):
    rows, draws = 21_000, 20
    theta = {"level": np.full(draws, 2.0), "noise": np.full(draws, 1.0)}
    _, y = nmax.simulate(random_walk(), TRUTH, rows - 1, key=key)
    source = Known(random_walk(), y, theta, np.full((draws, rows, 1), 2.0, np.float32))
    check = source.predictive_check(draws=draws, key=key)
    assert "8 stretches of 2,000 rows, 16,000 observations each" in str(check)
    assert not check.extreme


def test_coverage_one_step_ahead_comes_with_its_exact_interval():
    pit = np.concatenate([np.full(7, 0.5), np.full(3, 0.02), [np.nan]])[:, None]
    found = Residuals(np.arange(11), pit, ("flow",)).coverage()["flow"]
    assert found[0.5].share == found[0.8].share == 0.7
    assert found[0.95].share == 0.7
    np.testing.assert_allclose(found[0.5][1:], (0.3475, 0.9333), atol=1e-4)  # Clopper and Pearson, 7 of 10
    full = Residuals(np.arange(3), np.full((3, 1), 0.5)).coverage()["y0"][0.5]
    assert full == (1.0, pytest.approx(0.025 ** (1 / 3)), 1.0)
    text = str(Residuals(np.arange(11), pit, ("flow",)))
    assert text.splitlines()[1].split()[:2] == ["flow", "10"]
    assert "0.700 (0.348–0.933)" in text
    assert math.isnan(Residuals(np.arange(1), np.full((1, 1), np.nan)).coverage()["y0"][0.5].share)
