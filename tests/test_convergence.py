"""When training comes to rest, by what that is judged, and what a fit says could still change."""

import math
from statistics import NormalDist

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import nmax
from nmax._convergence import Converged, Look, Movement, judged, moments, movement
from nmax._iterates import Change, change_of, rhat, rhat_by_chance, rise, standard_error
from nmax._natural import Settlement
from nmax._start import Mode
from nmax.flows import ThetaFlow
from nmax.models import Prior

SMALL = nmax.MovingAverageGuide(layers=2, length=3, width=8, radius=2, theta_layers=0)
SURE = NormalDist().inv_cdf(1 - 1e-6 / 2)  # standard errors that chance exceeds once in a million times


@pytest.fixture(scope="module")
def series():
    theta = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
    return nmax.simulate(nmax.models.ar1(), theta, 500, key=jr.key(1))[1]


def small_fit(y, **options):
    settings = {"guide": SMALL, "pretrain": 50, "progress": False, "window": 25, "draws": 4}
    return nmax.fit(nmax.models.ar1(), y, key=jr.key(0), **(settings | options))


def test_rhat_is_that_of_the_formula():
    chains = np.array([[0.0, 1.0, 2.0, 1.0], [2.0, 4.0, 3.0, 3.0]])  # means 1 and 3, variances 2/3 and 2/3
    expected = math.sqrt(3 / 4 + 2.0 / (2 / 3))
    np.testing.assert_allclose(rhat(chains.reshape(-1, 1)), [expected])
    np.testing.assert_allclose(rhat(np.r_[99.0, chains.reshape(-1)][:, None]), [expected])  # what does not fit is left out
    np.testing.assert_array_equal(rhat(np.full((8, 1), 0.3)), [1.0])
    assert np.isnan(rhat(np.zeros((7, 2)))).all()
    assert math.isnan(rhat_by_chance(7, 2))


@pytest.mark.parametrize("looks", [8, 17, 60])
def test_iterates_at_rest_exceed_the_limit_as_often_as_stated(looks):
    """Six independent quantities: one of them is above its limit with probability 1 − (1 − 0.05/6)⁶. False alarm 1e-6."""
    rng = np.random.default_rng(looks)
    times, quantities = 4_000, 6
    above = [rhat(rng.standard_normal((looks, quantities))).max() > rhat_by_chance(looks, quantities) for _ in range(times)]
    expected = 1 - (1 - 0.05 / quantities) ** quantities
    assert abs(np.mean(above) - expected) < SURE * math.sqrt(expected * (1 - expected) / times)


@pytest.mark.parametrize(
    ("trend", "stationary"), [(0.0, True), (0.5, False)], ids=["jitter alone", "half a jitter's sd a look"]
)
def test_iterates_with_a_trend_are_not_at_rest(trend, stationary):
    """Fixed draws; of jitter alone one sequence in 20 is taken for a moving one."""
    jitter = np.random.default_rng(0).standard_normal((40, 2, 3))
    jitter[:, 1, 2] += trend * np.arange(40)
    assert Converged().stationary(jitter) is stationary
    jitter[:20] += 1e3  # the first half is past
    assert Converged().stationary(jitter) is stationary


def test_too_few_iterates_are_not_at_rest():
    assert not Converged().stationary(np.random.default_rng(0).standard_normal((15, 2, 3)))


def variance_of_the_mean(n: int, memory: float) -> float:
    """Of n values of a stationary AR(1) sequence with variance 1."""
    lags = np.arange(1, n)
    return float((1 + 2 * np.sum((1 - lags / n) * memory**lags)) / n)


def ar1_sequences(count: int, n: int, memory: float) -> np.ndarray:
    noise = np.random.default_rng(3).standard_normal((n, count))
    x = np.empty_like(noise)
    x[0] = noise[0]
    for i in range(1, n):
        x[i] = memory * x[i - 1] + math.sqrt(1 - memory**2) * noise[i]
    return x.T


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_standard_errors_by_batch_means_are_those_of_an_autoregression(memory):
    """20 batches of 400: the expected square is known exactly, and near the truth. False alarm 1e-6."""
    n, batches, count = 8_000, 20, 1_000
    squares = np.array([standard_error(x) ** 2 for x in ar1_sequences(count, n, memory)])
    exact = variance_of_the_mean(n, memory)
    expected = (variance_of_the_mean(n // batches, memory) - exact) / (batches - 1)
    assert abs(expected / exact - 1) < 0.02
    assert abs(squares.mean() - expected) < SURE * squares.std() / math.sqrt(count)


def test_a_rise_and_its_error():
    change = rise(np.r_[np.zeros(500), np.nan, np.ones(499)] + np.tile([-0.1, 0.1], 500))
    np.testing.assert_allclose(change.nats, 1.0, atol=1e-3)
    assert change.standard_error < 0.01
    assert np.isnan(rise(np.full(100, np.nan)).nats)
    assert change_of(np.array([1.0, np.inf, 3.0])) == Change(2.0, 1.0)
    assert Change(0.4, 0.0).slight
    assert Change(3.0, 2.0).slight
    assert not Change(3.0, 1.0).slight
    assert not Change(math.nan, math.nan).slight
    assert str(Change(-1234.5, 20.0)) == "-1,234 ± 20 nats"


def test_a_rise_that_a_large_error_hides_is_not_taken_for_rest():
    rng = np.random.default_rng(0)
    slow = np.repeat(rng.standard_normal(40) * 100, 50) + np.linspace(0, 300, 2_000)  # batches vary more than it rises
    assert not Converged(least=1).still(slow)
    assert Converged(least=1, jitter=10.0, rise=10.0).still(slow)
    assert Converged(least=1).still(np.linspace(0, 1.0, 2_000))  # a quarter of a nat


def test_movement_is_in_standard_deviations_and_shares_of_widths():
    flow = ThetaFlow(jnp.array([1.0, -2.0]), jnp.array([0.5, 2.0]), layers=0, key=jr.key(0))
    wider = ThetaFlow(jnp.array([1.1, -2.0]), jnp.array([0.5, 1.0]), layers=0, key=jr.key(0))
    moved = movement(np.asarray(moments(flow))[None], np.asarray(moments(wider)))
    np.testing.assert_allclose(moved.means, [0.2, 0.0], rtol=0.1, atol=1e-5)  # the base noise has not quite unit width
    np.testing.assert_allclose(moved.widths, [0.0, 0.5], atol=1e-5)
    assert not moved.slight
    said = moved.described(["a", "b"])
    assert (said["mean_of"], said["width_of"]) == ("a", "b")


def judged_looks(means, *, full=3_000, gain=0.0):
    """A record of 60 looks at one parameter with sd 1, its averaged mean given, the iterates jittering about it."""
    rng = np.random.default_rng(1)
    looks = []
    for k, mean in enumerate(means):
        jitter = np.array([[0.5], [0.1]]) * rng.standard_normal((2, 1))
        average = np.array([[mean], [0.0]])
        looks.append(Look(100 * k, average + jitter, average))
    return judged(looks, rng.standard_normal(6_000), Change(gain, 0.1), full, Converged(), ["level"])


def test_what_moved_over_the_last_third_is_recorded():
    record = judged_looks(np.r_[np.zeros(41), np.linspace(0.0, 0.05, 20)])
    assert record.converged
    np.testing.assert_allclose(record.mean, 0.05)
    assert record.could_change == (
        "as many steps again could move means by up to 0.05 sd (level), widths by up to 0.0 % (level) and the ELBO by "
        "0.00 ± 0.10 nats, judging by the last 2,000 of 6,000 steps"
    )
    assert not judged_looks(np.r_[np.zeros(41), np.linspace(0.0, 0.3, 20)]).converged
    assert not judged_looks(np.zeros(61), gain=3.0).converged
    assert not judged_looks(np.zeros(61), full=1_000).converged  # too few looks at full learning rates
    assert not judged_looks(np.r_[np.linspace(0, 30, 31), np.full(30, 30.0)]).converged


def test_a_fit_stops_when_it_has_come_to_rest(series):
    fit = small_fit(series, until=nmax.Converged(least=500, most=9_000, cooldown=1.0))
    record = fit.convergence
    assert fit.converged is record.converged is True
    assert fit.reason.startswith("converged: after")
    assert fit.steps < 9_000
    assert record.rhat < rhat_by_chance(8, 6)
    assert record.mean <= 0.1
    assert record.width <= 0.1
    assert record.could_change in str(fit.summary(100))


@pytest.mark.extra
def test_a_fit_stopped_too_early_says_what_could_change(series):
    fit = small_fit(series, steps=60)
    assert not fit.converged
    assert fit.reason == "did all 60 steps"
    assert math.isnan(fit.convergence.rhat)
    assert fit.convergence.mean > 0.1
    assert fit.convergence.elbo > 10
    said = str(fit.summary(100))
    assert "as many steps again could move means by up to" in said
    assert "judging by 60 steps" in said


@pytest.mark.extra
def test_a_look_ahead_fit_has_the_record_too(series):
    fit = nmax.fit(nmax.models.ar1(), series, key=jr.key(0), progress=False)
    record = fit.convergence
    assert fit.converged
    assert record.converged
    assert math.isnan(record.rhat)
    assert record.mean < 0.1
    assert record.width < 0.05
    assert record.could_change.startswith("another round could move means by up to")
    assert record.could_change in str(fit.summary(100))


def settlement(refused=False, rounds=3, nats=0.1):
    moved = Movement(np.array([0.02, 0.01]), np.array([0.01, 0.03]) if rounds else np.full(2, np.nan))
    gain = Change(nats, 0.1) if rounds else Change(math.nan, math.nan)
    unused: dict = {"flow": None, "history": None}
    return Settlement(**unused, refused=refused, moved=moved, gain=gain, rounds=rounds)


def test_what_the_look_ahead_s_rounds_say():
    here, away = (Mode(np.zeros(2), np.eye(2), 0.0, np.zeros((1, 2)), arrived) for arrived in (True, False))
    rest = settlement().convergence(here, ["a", "b"])
    assert rest.converged
    assert (rest.mean_of, rest.width_of) == ("a", "b")
    assert not settlement().convergence(away, ["a", "b"]).converged
    assert not settlement(nats=2.0).convergence(here, ["a", "b"]).converged
    refused = settlement(refused=True).convergence(here, ["a", "b"])
    assert not refused.converged
    assert "lowered the bound and was refused" in refused.could_change
    narrow = settlement(rounds=0).convergence(here, ["a", "b"])
    assert narrow.converged
    assert (
        narrow.could_change == "another Newton step could move means by up to 0.02 sd (a), judging by the last Newton step"
    )


def test_every_unconstrained_coordinate_has_a_name():
    prior = Prior({"beta": dist.Normal(jnp.zeros(2), 1.0).to_event(1), "noise": dist.LogNormal(0.0, 1.0)})
    assert prior.labels == ("beta[0]", "beta[1]", "noise")
    assert Prior({"p": dist.Dirichlet(jnp.ones(3))}).labels == ("p[0]", "p[1]")


def test_an_rhat_that_nothing_can_reach_is_refused():
    with pytest.raises(ValueError, match="`rhat` must be larger than 1.*got 0.9"):
        nmax.Converged(rhat=0.9)
