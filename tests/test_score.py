"""Scores of forecasts: CRPS by its formula, naive rivals, and origins that nothing after them leaks through."""

import jax
import jax.random as jr
import numpy as np
import pytest
from helpers import random_walk
from scipy.stats import binom, norm, ttest_1samp

import nmax
from nmax._crps import crps
from nmax._naive import naive_forecasts
from nmax._score import up_to
from nmax.data import as_table, make_series

TRUTH = {"level": 2.0, "noise": 1.0}
MODEL = random_walk()


@pytest.fixture(scope="module")
def series():
    _, y = nmax.simulate(MODEL, TRUTH, 160, key=jr.key(3))
    y[100:103] = np.nan
    return y


@pytest.fixture(scope="module")
def scored(series):
    return nmax.score(MODEL, series, horizon=10, origins=(90, 120, 150), draws=200, key=jr.key(0), progress=False)


def test_crps_is_its_double_sum():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 4, 2)), rng.normal(size=(4, 2))
    x[5, 0, 0] = x[7, 0, 0] = np.nan  # left out
    x[1, 1, 1] = np.inf
    y[3, 1] = np.nan
    ours = crps(x, y)
    for i, k in np.ndindex(4, 2):
        draws = x[np.isfinite(x[:, i, k]), i, k]
        n = len(draws)
        double = np.abs(draws[:, None] - draws[None]).sum() / (2 * n * (n - 1))
        np.testing.assert_allclose(ours[i, k], np.abs(draws - y[i, k]).mean() - double, rtol=1e-12)
    assert np.isnan(ours[3, 1])
    assert np.isnan(crps(np.zeros((1, 1)), np.zeros(1)))[0]  # one draw has no spread


@pytest.mark.stat
def test_crps_of_normal_draws_is_the_closed_form_whatever_their_number():
    """400,000 ensembles of 5, and one of 400,000: each off by 5 standard errors once in two million."""
    rng, z = np.random.default_rng(1), 0.8
    exact = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
    small = crps(rng.normal(size=(5, 400_000)), np.full(400_000, z))
    assert abs(small.mean() - exact) < 5 * small.std() / np.sqrt(small.size)
    large = rng.normal(size=(400_000, 1))
    error = np.std(np.abs(large - z)) / np.sqrt(large.size)
    assert abs(crps(large, np.array([z]))[0] - exact) < 5 * error


def test_naive_forecasts_are_made_of_the_past_alone():
    y = np.cumsum(np.random.default_rng(2).normal(size=(60, 2)), axis=0)
    y[55:, 1] = np.nan
    made = naive_forecasts(y, 4, 500)
    last = made["last value"]
    np.testing.assert_allclose(np.sort(last[:57, 2, 0]), np.sort(y[59, 0] + y[3:, 0] - y[:-3, 0]))
    assert np.isnan(last[57:, 2, 0]).all()
    lag = 5 + 3  # the last value of the second column is five rows old
    np.testing.assert_allclose(np.sort(last[:47, 2, 1]), np.sort(y[54, 1] + y[lag:55, 1] - y[: 55 - lag, 1]))
    np.testing.assert_array_equal(made["past values"][:60, 3, 0], y[:, 0])
    few = np.full((40, 1), np.nan)
    few[::8, 0] = [1.0, 3.0, 1.0, 3.0, 1.0]
    normal = naive_forecasts(few, 3, 500)["last value"]
    np.testing.assert_allclose(normal[:, 2, 0].std(), np.sqrt(4 / 8 * (7 + 3)), rtol=0.01)
    assert np.isnan(naive_forecasts(few[:5], 2, 500)["last value"]).all()


def test_nothing_after_an_origin_reaches_its_forecast(series, scored):
    """Other data after row 120: the forecasts from 90 and 120 are the same, bit for bit, and that from 150 is not."""
    other = np.where(np.arange(161)[:, None] > 120, series + 50.0, series)
    again = nmax.score(MODEL, other, horizon=10, origins=(90, 120, 150), draws=200, key=jr.key(0), progress=False)
    for k in (0, 1):
        np.testing.assert_array_equal(again.forecasts[k].y, scored.forecasts[k].y)
        np.testing.assert_array_equal(again.forecasts[k].theta["level"], scored.forecasts[k].theta["level"])
    assert (again.forecasts[2].y != scored.forecasts[2].y).all()
    known = up_to(as_table(other), 90, 150, MODEL)
    assert np.isnan(known.y[91:]).all()
    assert len(known.y) == 152
    series = [make_series(up_to(as_table(other), origin, 150, MODEL).y) for origin in (90, 120, 150)]
    assert len({jax.tree.structure(one) for one in series}) == 1  # fits to all of them share what was compiled
    assert len(up_to(as_table(other), 90, 150, random_walk(exactly_observed={0: 0})).y) == 91


@pytest.mark.stat
def test_scores_are_those_of_the_forecasts_and_cover_as_they_should(series, scored):
    """Of 27 forecasts of the right model as many lie in the 80 % interval as all but 2 in 10,000 independent sets would."""
    assert scored.crps.shape == scored.inside.shape[1:] == (3, 10, 1)
    np.testing.assert_array_equal(scored.observed[1, :, 0], series[121:131, 0])
    np.testing.assert_allclose(scored.crps[0], crps(scored.forecasts[0].y, series[91:101].astype(float)), rtol=1e-12)
    assert np.isnan(scored.crps[0, 9])  # rows 100 to 102 are missing
    assert np.isnan(scored.inside[:, 0, 9]).all()
    low, high = scored.forecasts[1].quantiles([0.1, 0.9])
    inside = (low <= series[121:131]) & (series[121:131] <= high)
    np.testing.assert_array_equal(scored.inside[1, 1], inside)
    count = np.nansum(scored.inside[1])
    assert binom.ppf(1e-4, 29, 0.8) <= count <= binom.ppf(1 - 1e-4, 29, 0.8)
    np.testing.assert_allclose(scored.coverage[1, 0], count / 29)
    mine, theirs = np.nanmean(scored.crps), np.nanmean(scored.naive["past values"])
    np.testing.assert_allclose(scored.skill("past values"), 1 - mine / theirs)
    text = str(scored)
    assert "3 origins, 90 to 150; 10 steps ahead, 200 draws" in text
    assert "of 29 observations" in text
    gain = np.nanmean(scored.naive["past values"], axis=1) - np.nanmean(scored.crps, axis=1)
    told = [line for line in text.splitlines() if "past values: skill" in line]
    error = gain.std(ddof=1) / np.sqrt(3) / np.nanmean(scored.naive["past values"], axis=1).mean()
    assert f" ± {error:.2f}, ahead at {np.sum(gain > 0)} of 3 origins" in told[0]
    assert told[0].startswith("cannot be told apart") == (abs(ttest_1samp(gain[:, 0], 0.0).pvalue) > 0.05)
    with pytest.raises(ValueError, match="`against` must be one of last value, past values"):
        scored.skill("climate")


def test_origins_and_options_are_checked_before_any_fit(series):
    def score(**options):
        return nmax.score(MODEL, series, **{"horizon": 10, "key": jr.key(0), "progress": False, **options})

    with pytest.raises(ValueError, match=r"`horizon` must be at most 80.*got 100"):
        score(horizon=100)
    with pytest.raises(ValueError, match=r"`origins` must be rows from 1 to 150.*got \[90, 155\]"):
        score(origins=[90, 155])
    with pytest.raises(ValueError, match="`levels` must be numbers between 0 and 1"):
        score(levels=(50, 95))
    with pytest.raises(ValueError, match="At least 2 rows up to the first"):
        nmax.score(MODEL, np.where(np.arange(161)[:, None] < 90, np.nan, series), horizon=5, origins=[60], key=jr.key(0))
    with pytest.raises(TypeError, match="Did you mean `origins`"):
        score(origin=3)
