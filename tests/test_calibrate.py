"""Simulation-based calibration: the tests of uniformity are exact, right passes, wrong fails in words, a run goes on."""

import json
import math
import threading

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import random_walk
from scipy.stats import binom

import nmax
from nmax._uniformity import band_level, bands, holm, inside, pointwise, uniformity, visible

SEEN = 0.5  # standard deviation of an observation


def independent_states():
    """x_i ~ N(level, 1), each on its own, and y_i ~ N(x_i, SEEN²): everything is normal given y."""
    return nmax.StateSpaceModel(
        prior={"level": dist.Normal(1.0, 2.0)},
        initial=lambda theta: jnp.zeros(1),
        transition=lambda x, theta: dist.Normal(theta["level"] + 0.0 * x, 1.0).to_event(1),
        observation=lambda x, theta: dist.Normal(x, SEEN).to_event(1),
    )


class Exact:
    """The posterior of that model in closed form, with the interface of a fit; draws may be pulled in and moved."""

    def __init__(self, y, *, width=1.0, shift=0.0):
        self.y, self.width, self.shift = np.asarray(y, np.float64)[:, 0], width, shift

    def _level(self, draws, key):
        seen = self.y[1:][~np.isnan(self.y[1:])]
        precision = 1 / 2.0**2 + len(seen) / (1 + SEEN**2)
        mean = (1.0 / 2.0**2 + seen.sum() / (1 + SEEN**2)) / precision
        return mean + np.asarray(jr.normal(jr.fold_in(key, 0), (draws,)), np.float64) / math.sqrt(precision)

    def theta(self, draws, *, key):
        return {"level": self._changed(self._level(draws, key))}

    def path(self, draws, *, start, stop, key):
        level = self._level(draws, key)[:, None]
        y, known = np.nan_to_num(self.y), ~np.isnan(self.y)
        precision = 1 + known / SEEN**2
        z = np.asarray(jr.normal(jr.fold_in(key, 1), (draws, len(y))), np.float64)
        x = (level + y * known / SEEN**2) / precision + z / np.sqrt(precision)
        return self._changed(x)[:, start:stop, None]

    def _changed(self, draws):
        mean, sd = draws.mean(axis=0), draws.std(axis=0)
        return mean + self.width * (draws - mean) + self.shift * sd


def exactly(model, y, *, key, inputs):
    del model, key, inputs
    return Exact(y)


def calibrated(method=exactly, **options):
    options = {"key": jr.key(1), "replications": 30, "progress": False, "draws": 99, **options}
    return nmax.calibrate(independent_states(), 12, method=method, **options)


def assert_rate(rejected, rate, *, false_alarm=1e-6):
    """Fail if a share of rejections is further from `rate` than chance allows."""
    low, high = (binom.ppf(tail, len(rejected), rate) for tail in (false_alarm / 2, 1 - false_alarm / 2))
    assert low <= np.sum(rejected) <= high


def test_one_number_lies_inside_with_the_pointwise_probability():
    for level in (0.01, 0.3):
        np.testing.assert_allclose(inside(1, level), 1 - level, rtol=1e-9)


def test_two_numbers_lie_inside_with_the_area_of_the_order_statistics():
    """P(l₁ ≤ u₍₁₎ ≤ h₁, l₂ ≤ u₍₂₎ ≤ h₂), by a fine grid over the smaller one."""
    level = 0.2
    (low1, low2), (high1, high2) = bands(2, 1 - inside(2, level))
    first = np.linspace(low1, high1, 200_001)
    area = 2 * np.mean(np.clip(high2 - np.maximum(low2, first), 0, None)) * (high1 - low1)
    np.testing.assert_allclose(inside(2, level), area, atol=1e-4)


@pytest.mark.stat
@pytest.mark.parametrize("n", [5, 50])
def test_the_bands_are_left_as_often_as_they_say(n):
    """False alarms: once in 10⁶ for each rate."""
    u = np.random.default_rng(n).uniform(size=(4_000, n))
    smallest = np.array([pointwise(row).min() for row in u])
    for rate in (0.01, 0.1, 0.5):
        assert_rate(smallest < band_level(n, rate), rate)


@pytest.mark.stat
def test_each_test_and_all_together_keep_their_error_rate():
    """False alarms: once in 10⁶ for each of the three, and for the family, whose rate may be lower."""
    rng = np.random.default_rng(0)
    for n in (3, 40):
        every = [uniformity(rng.uniform(size=n)) for _ in range(1_500)]
        for test in ("ecdf", "location", "spread"):
            assert_rate(np.array([getattr(one, test) for one in every]) < 0.05, 0.05)
    wrong = [not judged(rng.uniform(size=(4, 30)), error_rate=0.1).passes for _ in range(400)]
    assert np.sum(wrong) <= binom.ppf(1 - 1e-6, len(wrong), 0.1)


def judged(pit, *, error_rate=0.01, failures=None):
    pit = {f"quantity {k}": row for k, row in enumerate(np.asarray(pit))}
    return nmax.Calibration(pit, failures or {}, error_rate, np.zeros(len(next(iter(pit.values())))))


def ranks_of(truth, *, width=1.0, bias=0.0):
    """PIT of standard normal truths under normal posteriors of another width and place."""
    cdf = np.vectorize(lambda s: 0.5 * math.erfc(-s / math.sqrt(2)))
    return cdf((truth - bias) / width)


def test_narrow_wide_moved_and_misshapen_posteriors_are_named():
    rng = np.random.default_rng(3)
    truth = rng.standard_normal(500)
    truth = (truth - truth.mean()) / truth.std()  # so that sizes come out as they are put in
    faults = judged(
        [
            ranks_of(truth),
            ranks_of(truth, width=0.75),
            ranks_of(truth, width=1.4),
            ranks_of(truth, bias=0.35),
            ranks_of(truth, bias=-0.35),
            rng.permutation(np.concatenate([rng.uniform(0.0, 0.25, 250), rng.uniform(0.75, 1.0, 250)])) ** 0.9,
        ]
    ).faults
    assert list(faults) == [f"quantity {k}" for k in range(1, 6)]
    assert "too narrow by about 25%" in faults["quantity 1"]
    assert "too wide by about 40%" in faults["quantity 2"]
    assert "biased high by about 0.35" in faults["quantity 3"]
    assert "biased low by about 0.35" in faults["quantity 4"]
    assert "too narrow" not in faults["quantity 3"]
    two = np.repeat([-1.0, 1.0], 250) + 0.1 * truth  # scores of mean 0 and square 1, but never near 0
    assert "of another shape: the truth lies below its" in judged([ranks_of(two)]).faults["quantity 0"]


@pytest.mark.stat
def test_what_is_said_to_be_visible_is_found_that_often():
    """Power 0.9 at n = 100; false alarm once in 10⁶."""
    rng = np.random.default_rng(4)
    bias, ratio = visible(100, 0.01)
    truth = rng.standard_normal((1_000, 100))
    moved = np.abs(np.mean(truth + bias, axis=1)) * 10 > 2.5758
    assert_rate(moved, 0.9)
    spread = np.array([uniformity(ranks_of(row, width=1 / ratio)).spread for row in truth[:500]])
    assert_rate(spread < 0.01, 0.9)


def test_holm_adjusts_step_by_step():
    np.testing.assert_allclose(holm(np.array([0.5, 0.01, 0.015, 0.04])), [0.5, 0.04, 0.045, 0.08])


@pytest.mark.stat
def test_the_exact_posterior_passes_and_a_narrowed_one_fails(tmp_path):
    """False alarm of the first: 1 %. A posterior narrowed by 20 % is missed less than once in 100."""
    options = {"replications": 400, "draws": 199, "observe_every": 2}
    right = calibrated(**options)
    assert right.passes is True
    assert list(right.pit) == ["level", *(f"x at {i}" for i in (1, 4, 6, 9, 12))]
    assert right.verdict.startswith("Calibrated as far as 400 replications show: none of 18 tests of 6 quantities fails")
    narrow = calibrated(lambda model, y, *, key, inputs: Exact(y, width=0.8), **options)
    assert narrow.passes is False
    assert narrow.verdict.startswith("Not calibrated")
    assert "too narrow by about" in narrow.verdict
    assert "fails" in str(narrow)
    assert narrow.plot(tmp_path / "narrow.png").stat().st_size > 10_000
    high = calibrated(lambda model, y, *, key, inputs: Exact(y, shift=0.5), **options)
    assert "posterior of level biased high by about 0." in high.verdict


def test_the_default_is_a_fit_and_exactly_observed_states_are_left_out(monkeypatch):
    def fit(model, y, *, key, inputs, progress):
        assert not progress
        assert inputs.shape == (21, 1)
        assert np.isfinite(y[::4]).all()
        found = Exact(y)
        found.theta = lambda draws, key: {"noise": np.ones(draws), "level": np.zeros(draws)}
        found.path = lambda draws, start, stop, key: np.zeros((draws, stop - start, 2))
        return found

    monkeypatch.setattr(nmax._calibrate, "fit", fit)
    model = random_walk(d=2, observed=1, exactly_observed={1: 1}, with_inputs=True)
    prior = {"noise": dist.LogNormal(0.0, 0.2), "level": dist.Normal(2.0, 0.5)}
    options = {"prior": prior, "replications": 2, "draws": 9, "observe_every": 4, "inputs": np.ones((21, 1))}
    found = nmax.calibrate(model, 20, key=jr.key(0), **options, progress=True)
    assert not found.failures
    assert list(found.pit) == ["level", "noise", *(f"x[0] at {i}" for i in (1, 6, 10, 15, 20))]


@pytest.mark.extra
def test_a_fit_can_be_calibrated():
    prior = {"level": dist.Normal(2.0, 0.5), "noise": dist.LogNormal(0.0, 0.2)}
    found = nmax.calibrate(random_walk(), 20, key=jr.key(0), prior=prior, replications=2, draws=9, workers=2)
    assert not found.failures
    assert found.passes is True


def test_replications_do_not_depend_on_how_many_threads_or_replications_there_are():
    one, other = calibrated(workers=1), calibrated(workers=3, replications=12)
    for label in one.pit:
        np.testing.assert_array_equal(one.pit[label][:12], other.pit[label])


def test_states_far_apart_are_drawn_one_by_one(monkeypatch):
    whole = calibrated(replications=3)
    monkeypatch.setattr(nmax._calibrate, "AT_ONCE", 0)
    parts = calibrated(replications=3)
    for label in whole.pit:
        np.testing.assert_array_equal(whole.pit[label], parts.pit[label])


def test_ties_are_broken_at_random():
    class Same(Exact):
        def theta(self, draws, *, key):
            return {"level": np.full(draws, 3.0)}

        def path(self, draws, *, start, stop, key):
            return np.tile(self.x[None, start:stop], (draws, 1, 1))

    def method(model, y, *, key, inputs):
        found = Same(y)
        found.x = np.zeros((13, 1))
        return found

    def known_state(model):
        return nmax.StateSpaceModel(
            prior=model.prior,
            initial=lambda theta: jnp.zeros(1),
            transition=lambda x, theta: dist.Delta(0.0 * x, event_dim=1),
            observation=model.observation,
        )

    options = {"key": jr.key(0), "replications": 40, "draws": 9, "progress": False, "at": [3]}
    found = nmax.calibrate(known_state(independent_states()), 12, method=method, **options)
    assert set(np.floor(10 * found.pit["level"])) <= {0.0, 9.0}  # all draws are on one side
    assert np.ptp(found.pit["x at 3"]) > 0.5  # all draws equal the truth


def test_a_run_goes_on_and_refuses_other_settings(tmp_path):
    calls, lock = [], threading.Lock()

    def counted(model, y, *, key, inputs):
        with lock:
            calls.append(1)
            if len(calls) == 6:
                raise KeyboardInterrupt
        return Exact(y)

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        calibrated(counted, out=folder, replications=12, workers=1)
    kept = sorted(folder.glob("replication_*.json"))
    assert 5 <= len(kept) < 12
    before = len(calls)
    rest = calibrated(counted, out=folder, replications=12)
    assert len(calls) - before == 12 - len(kept)
    again = calibrated(counted, out=folder, replications=12)
    assert len(calls) - before == 12 - len(kept)
    whole = calibrated(replications=12)
    for label in whole.pit:
        np.testing.assert_array_equal(rest.pit[label], whole.pit[label])
        np.testing.assert_array_equal(again.pit[label], whole.pit[label])
    assert not list(folder.glob("*.partial"))
    assert json.loads((folder / "calibration.json").read_text())["draws"] == 99
    with pytest.raises(ValueError, match=r"begun with draws = 99, and now draws = 50 came\. Pass another folder"):
        calibrated(counted, out=folder, replications=12, draws=50)
    with pytest.raises(ValueError, match="method = <function exactly>"):
        calibrated(out=folder, replications=12)
    with pytest.raises(ValueError, match="begun with prior = "):
        calibrated(counted, out=folder, replications=12, prior={"level": dist.Normal(0.0, 1.0)})


def test_failures_are_counted_and_too_many_are_not_judged(tmp_path):
    def sometimes(share):
        def method(model, y, *, key, inputs):
            if float(jr.uniform(key)) < share:
                raise RuntimeError("no luck")
            return Exact(y)

        return method

    few = calibrated(sometimes(0.02), replications=100)
    assert 0 < len(few.failures) <= 5
    assert few.count + len(few.failures) == len(few.seconds) == 100
    assert few.passes is True
    assert "replications failed; number" in few.verdict
    many = calibrated(sometimes(0.2), replications=60)
    assert many.passes is None
    assert many.verdict.startswith("Not judged: ")
    assert "RuntimeError: no luck" in str(many)
    none = calibrated(sometimes(2.0), replications=2)
    assert none.passes is None
    assert "2 of 2 replications failed" in str(none)
    with pytest.raises(ValueError, match="A figure needs a finished replication"):
        none.plot(tmp_path / "none.png")


def test_simulations_and_draws_that_are_not_finite_are_failures():
    def short(model, y, *, key, inputs):
        found = Exact(y)
        found.theta = lambda draws, key: {"level": np.full(draws, np.nan)}
        return found

    assert "must yield 99 finite draws of level" in calibrated(short, replications=1).failures[0]
    exploding = nmax.StateSpaceModel(
        prior={"level": dist.Normal(0.0, 1.0)},
        initial=lambda theta: jnp.ones(1),
        transition=lambda x, theta: dist.Normal(x * 1e30, 1.0).to_event(1),
        observation=lambda x, theta: dist.Normal(x, SEEN).to_event(1),
    )
    found = nmax.calibrate(exploding, 12, key=jr.key(0), method=exactly, replications=2, progress=False)
    assert "The simulated state must stay finite" in found.failures[0]
    unseen = nmax.StateSpaceModel(
        prior=exploding.prior,
        initial=exploding.initial,
        transition=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
        observation=lambda x, theta: dist.Normal(x * jnp.inf, SEEN).to_event(1),
    )
    found = nmax.calibrate(unseen, 12, key=jr.key(0), method=exactly, replications=1, progress=False)
    assert "The simulated observations must be finite" in found.failures[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": {"levle": dist.Normal(0.0, 1.0)}}, r"missing: \['level'\], unknown: \['levle'\]"),
        ({"prior": {"level": dist.Normal(jnp.zeros(2), 1.0)}}, r"must have the shape \(\) of the model's own; got \(2,\)"),
        ({"at": [0, 5]}, "`at` must hold whole numbers between 1 and 12"),
        ({"at": [1.5]}, "`at` must hold whole numbers"),
        ({"error_rate": 1}, "`error_rate` must be a number between 0 and 1; got 1"),
        ({"replications": 0}, "`replications` must be a whole number"),
        ({"draws": 0}, "`draws` must be a whole number"),
        ({"workers": 0}, "`workers` must be a whole number"),
        ({"observe_every": 0}, "`observe_every` must be a whole number"),
    ],
)
def test_bad_values_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        calibrated(**options)


def test_bad_kinds_are_refused():
    with pytest.raises(TypeError, match="`method` must be a function"):
        calibrated(3)
    with pytest.raises(TypeError, match="`model` must be an nmax.StateSpaceModel"):
        nmax.calibrate(None, 12, key=jr.key(0))
    with pytest.raises(TypeError, match="Did you mean `replications`"):
        calibrated(replication=3)


def test_no_states_are_looked_at_if_none_are_named():
    assert list(calibrated(replications=2, at=()).pit) == ["level"]
