"""Several series that share θ: the sum of what each is alone, exactly; and the posterior of all of them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from helpers import random_walk
from test_objective import build

import nmax
from nmax._noise import noise
from nmax._objective import draw_elbo, start_term, window_elbo
from nmax._run_folder import save_results
from nmax._scores import Scores
from nmax.data import LongSeries, ManySeries, Tables, Windows, make_series, source, statistics_of, windows_over
from nmax.guides import stretches

LENGTHS = (23, 4, 11)


def some(lengths=LENGTHS, columns=2, share=0.3, seed=0):
    """Series with gaps, whole rows and single entries, that do not all begin with an observation."""
    rng = np.random.default_rng(seed)
    out = []
    for length in lengths:
        y = 2 + rng.standard_normal((length + 1, columns))
        y[rng.uniform(size=y.shape) < share] = np.nan
        y[-1] = 1.0
        out.append(y.astype(np.float32))
    return out


def many(each, inputs=None):
    return ManySeries([make_series(y, None if inputs is None else inputs[k]) for k, y in enumerate(each)])


def test_scales_are_those_of_all_rows_together_also_of_standardised_and_of_constant_columns(tmp_path):
    """A scale of exactly 1 may be that of a column that varies, and a constant's sums may leave a rounding error."""
    rng = np.random.default_rng(1)
    each, inputs = [], []
    for length in (500, 300, 1_000):
        signs = rng.permutation(np.resize([1.0, -1.0], length))  # mean 0 and standard deviation 1, exactly
        inputs.append(np.stack([signs, np.full(length, 0.1), np.full(length, length)], axis=1))
        each.append(np.stack([signs, np.full(length, 0.1)], axis=1))
    in_memory = many(each, inputs)
    on_disk = []
    for k, parts in enumerate(zip(each, inputs, strict=True)):
        np.save(tmp_path / f"{k}.npy", np.concatenate(parts, axis=1))
        place = source(tmp_path / f"{k}.npy", inputs=3)
        on_disk.append(LongSeries(place, statistics_of(place)))
    for series in (in_memory, ManySeries(on_disk)):
        found = series.views([0], 10, [1])
        np.testing.assert_allclose(found.scale[0], [1.0, 1.0], rtol=1e-6)
        np.testing.assert_allclose(found.input_scale[0], [1.0, 1.0, np.concatenate(inputs)[:, 2].std()], rtol=1e-6)


def test_windows_of_several_series_lie_in_one_each_and_are_picked_by_their_sizes():
    windows = Windows(sum(LENGTHS), 5, LENGTHS)
    assert windows.count == 5 + 1 + 3
    steps = []
    for number in range(windows.count):
        host, device = windows.at(np.array(number)), windows.at(jnp.int32(number))
        assert [int(part) for part in (*host, host.which)] == [int(part) for part in (*device, device.which)]
        steps += [(int(host.which), int(host.start) + i) for i in range(int(host.size))]
    assert steps == [(k, i) for k, length in enumerate(LENGTHS) for i in range(1, length + 1)]
    held = windows.holding(np.arange(windows.length))
    np.testing.assert_array_equal(np.bincount(held), [int(windows.at(np.array(n)).size) for n in range(windows.count)])
    np.testing.assert_array_equal(held, windows.holding(jnp.arange(windows.length)))
    picked = [windows.spread(jnp.int32(shift), 4) for shift in range(windows.length)]  # each window size * 4 times in all
    pairs = [(int(k), int(s)) for one in picked for k, s in zip(one.which, one.start, strict=True)]
    for number in range(windows.count):
        window = windows.at(np.array(number))
        assert pairs.count((int(window.which), int(window.start))) == 4 * int(window.size)


def test_windows_of_one_series_are_what_they_were():
    one, several = Windows(23, 5), Windows(23, 5, (23,))
    for number in range(one.count):
        mine, theirs = one.at(jnp.int32(number)), several.at(jnp.int32(number))
        assert mine.which is None
        assert (int(mine.start), int(mine.size)) == (int(theirs.start), int(theirs.size))
    assert windows_over(make_series(np.zeros(9)), 3) == Windows(8, 3)
    assert windows_over(many(some()), 5) == Windows(sum(LENGTHS), 5, LENGTHS)


def test_lanes_are_the_rows_of_their_own_series():
    each = some()
    series = many(each)
    assert (series.length, series.lengths, series.rows, series.partial) == (23, LENGTHS, sum(LENGTHS) + 3, True)
    view = series.views([5, -3, 2, 9], 8, [0, 1, 2, 2])
    np.testing.assert_array_equal(view.first, [5, 0, 2, 4])
    np.testing.assert_array_equal(view.ends, [23, 4, 11, 11])
    for lane, k in enumerate((0, 1, 2, 2)):
        alone, own = make_series(each[k]), jax.tree.map(lambda a, lane=lane: a[lane], view)
        index = jnp.arange(int(own.first), int(own.first) + 8)
        for name in ("values", "observed", "next_observed", "next_value"):
            np.testing.assert_array_equal(getattr(own, name)[own.at(index)], getattr(alone, name)[alone.at(index)])
        jax.tree.map(np.testing.assert_array_equal, own.start, alone.start)
    joined = np.concatenate(each)
    np.testing.assert_allclose(series.centre, np.nanmean(joined, axis=0), rtol=1e-5)
    np.testing.assert_allclose(series.members[1].scale, np.nanstd(joined, axis=0), rtol=1e-5)
    gap = len(joined) / (~np.isnan(joined).all(axis=1)).sum()
    np.testing.assert_allclose(float(series.members[2].typical_gap), gap, rtol=1e-6)


def test_a_series_that_does_not_vary_lends_the_others_no_scale():
    each = [np.full(10, 3.0), 3.0 + 1e-3 * np.arange(10.0)]
    np.testing.assert_allclose(many(each).members[0].scale[0], np.concatenate(each).std(), rtol=1e-3)


def problem(kind):
    """A model with inputs and an exactly observed component, series with gaps, and one guide for all of them."""
    model = random_walk(d=2, exactly_observed={1: 1}, observed=1, with_inputs=True)
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((length + 1, 1)).astype(np.float32) for length in LENGTHS]
    series = many(some(), inputs)
    return series, build(model, series, kind)


def estimate(guide, series, windows, number, key):
    """The estimate from one window, by noise that depends on the series and the step alone; and its gradient."""
    left, right = guide.reach
    window = windows.at(np.array(number))
    which = 0 if window.which is None else int(window.which)
    rows = stretches(guide, series, [int(window.start) - 1], windows.width + 1, [which])
    rows = jax.tree.map(lambda a: a[0], rows) if rows.stacked == 0 else rows
    z = noise(key, jnp.int32(window.start) - 1 - left, windows.width + 1 + left + right, len(guide.drawn))
    window = jax.tree.map(jnp.int32, window)
    (_, elbo), gradient = value_and_gradient(guide, rows, windows, window, z)
    return elbo, jax.flatten_util.ravel_pytree(gradient)[0]


@eqx.filter_jit
def value_and_gradient(guide, rows, windows, window, z):
    params, rest = eqx.partition(guide, eqx.is_inexact_array)

    def total(params):
        elbo = window_elbo(eqx.combine(params, rest), rows, windows, window, jnp.array([0.3, -0.7]), z)
        return elbo.total, elbo

    return jax.value_and_grad(total, has_aux=True)(params)


@pytest.mark.parametrize("kind", ["plain", pytest.param("look-ahead", marks=pytest.mark.extra)])
def test_windows_of_all_series_average_to_the_sum_of_whole_series(kind, key):
    """By their probabilities, each part of the bound: the first rows' densities come in exactly once a series."""
    series, guide = problem(kind)
    windows = windows_over(series, 5)
    shares = np.asarray(windows.at(np.arange(windows.count)).size) / windows.length
    keys = jr.split(key, len(LENGTHS))
    whole = [estimate(guide, one, Windows(one.length, one.length), 0, keys[k]) for k, one in enumerate(series.members)]
    which = windows.at(np.arange(windows.count)).which
    every = [estimate(guide, series, windows, n, keys[which[n]]) for n in range(windows.count)]
    for part in ("dynamics", "data", "entropy", "balance"):
        mean = sum(share * getattr(elbo, part) for share, (elbo, _) in zip(shares, every, strict=True))
        exact = sum(getattr(elbo, part) for elbo, _ in whole)
        np.testing.assert_allclose(mean, exact, rtol=1e-5, atol=2e-4, err_msg=part)
    for elbo, _ in (*whole, *every):
        np.testing.assert_array_equal(elbo.theta, whole[0][0].theta)
    theta_gradient = estimate_of_theta(guide)
    mean = sum(share * gradient for share, (_, gradient) in zip(shares, every, strict=True))
    exact = sum(gradient for _, gradient in whole) - (len(LENGTHS) - 1) * theta_gradient
    assert np.linalg.norm(mean - exact) < 2e-5 * np.linalg.norm(exact)


def estimate_of_theta(guide):
    """The gradient of log p(θ) − log q(θ), which a sum over series must have but once."""
    params, rest = eqx.partition(guide, eqx.is_inexact_array)

    def own(params):
        guide = eqx.combine(params, rest)
        flat, log_q = guide.theta(jnp.array([0.3, -0.7]))
        return guide.model.parameters.log_prob(flat) - log_q

    return jax.flatten_util.ravel_pytree(eqx.filter_jit(jax.grad(own))(params))[0]


@pytest.mark.parametrize("kind", ["plain", pytest.param("look-ahead", marks=pytest.mark.extra)])
def test_the_balance_of_every_series_is_zero_and_nothing_lies_beyond_its_end(kind, key):
    """What the longest series has rows for, a shorter one has not: λ, D and the states there are those of no step."""
    series, guide = problem(kind)
    theta = guide.model.parameters.constrain(guide.theta(jnp.zeros(2))[0])
    z = noise(key, -guide.reach.left, 40 + sum(guide.reach), len(guide.drawn))
    rows = series.views(np.full(3, -guide.rows_around(40)[0]), guide.rows_around(40)[1], range(3))
    path = eqx.filter_jit(lambda guide, *rest: guide.path(*rest))
    for k, one in enumerate(series.members):
        lane = jax.tree.map(lambda a, k=k: a[k], rows)
        mine, alone = (path(guide, theta, jnp.zeros(2), z, s, jnp.int32(0)) for s in (lane, one))
        np.testing.assert_allclose(mine.x, alone.x, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(mine.log_q, alone.log_q, rtol=1e-5, atol=1e-5)
        index = np.arange(40)
        outside = (index < 1) | (index > LENGTHS[k])
        assert not np.asarray(mine.log_q)[outside].any()
        assert not np.asarray(mine.ahead)[outside | (index == LENGTHS[k])].any()
        assert np.asarray(mine.log_q)[~outside].any()
        start = start_term(guide, lane, theta)
        np.testing.assert_allclose(start, start_term(guide, one, theta), rtol=1e-6)


@pytest.mark.extra
def test_rows_of_other_series_do_not_matter():
    """Change all the others: what a window of one series says stays the same, bit for bit, given means and scales."""
    each = some()
    series = many(each)
    guide = build(random_walk(d=2), series, "look-ahead")
    moved = many([y if k == 1 else np.where(np.isnan(y), 1.0, y + 7.0) for k, y in enumerate(each)])
    moved.members = tuple(
        dataclasses.replace(m, centre=s.centre, scale=s.scale, typical_gap=s.typical_gap, complete=s.complete)
        for m, s in zip(moved.members, series.members, strict=True)
    )
    moved.complete, moved.partial = series.complete, series.partial
    windows = windows_over(series, 5)
    number = np.flatnonzero(windows.at(np.arange(windows.count)).which == 1)
    theta = np.zeros((len(number), 2))
    one, other = (Scores(guide, s, windows)(theta, number, key=jr.key(1)) for s in (series, moved))
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.extra
def test_the_score_of_a_whole_series_among_others_is_that_of_it_alone(key):
    series, guide = problem("look-ahead")
    flat = guide.theta(jnp.array([0.3, -0.7]))[0]
    windows = windows_over(series, max(LENGTHS))  # a window a series
    lanes = np.tile(np.asarray(flat), (3, 1))
    value, gradient = Scores(guide, series, windows)(lanes, np.arange(3), key=key, noise=np.zeros(3, int))
    alone = Scores(guide, series.members[1], Windows(LENGTHS[1], max(LENGTHS)))
    exact = alone(lanes[:1], np.zeros(1, int), key=key, noise=np.zeros(1, int))
    np.testing.assert_allclose(value[1], exact[0][0], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(gradient[1], exact[1][0], rtol=1e-4, atol=1e-3)


def test_training_sees_the_windows_that_it_has_read(key):
    """The mean over all shifts of what a step estimates is the mean over windows: rows and windows belong together."""
    from nmax._step import CHUNK, init, rows_of_steps

    series, guide = problem("plain")
    windows = windows_over(series, 5)
    state, training = init(guide, nmax.Optimiser(), windows, 2, key=key)
    rows = rows_of_steps(state, series, training, 0)
    assert rows.values.shape[:2] == (CHUNK, 2)
    for turn in (0, 1, 57):
        shift = windows.shift(state.first_shift, jnp.int32(turn), 2)
        chosen = windows.spread(shift, 2)
        assert rows.ends is not None
        np.testing.assert_array_equal(rows.ends[turn], np.array(LENGTHS)[np.asarray(chosen.which)])
        own = jax.tree.map(lambda a, turn=turn: a[turn], rows)
        elbo = eqx.filter_jit(draw_elbo)(guide, own, windows, 2, shift=shift, key=key)
        assert np.isfinite(elbo.total)
        first = np.asarray(own.first)
        assert ((first <= np.asarray(chosen.start)) & (np.asarray(chosen.start) <= first + own.values.shape[1])).all()


MODEL = nmax.models.ar1()
TRUTH = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
STEPS = (150, 300, 60, 220, 120)


def panel(lengths=STEPS, share=0.15):
    out = []
    for k, length in enumerate(lengths):
        y = nmax.simulate(MODEL, TRUTH, length, key=jr.key(10 + k)).y
        y[np.random.default_rng(k).uniform(size=len(y)) < share] = np.nan
        out.append(y)
    return out


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    jax.config.update("jax_disable_most_optimizations", True)
    folder = tmp_path_factory.mktemp("many") / "run"
    each = panel()
    return each, folder, nmax.fit(MODEL, each, key=jr.key(0), out=folder, progress=False)


def linear(theta):
    """The model at one θ, for the Kalman filter."""
    intercept, coefficient, noise = (np.array([theta[name]]) for name in ("intercept", "coefficient", "noise"))
    return nmax.reference.LinearGaussian(
        np.array([10.0]), intercept, coefficient[:, None], noise[:, None] ** 2, np.eye(1), np.eye(1)
    )


def exact_density(flat, each):
    """Log prior density and the sum of Kalman log likelihoods, y_0 included, at an unconstrained θ."""
    prior = MODEL.parameters
    theta = {name: float(value) for name, value in prior.constrain(jnp.asarray(flat, jnp.float32)).items()}
    total = sum(nmax.reference.kalman_filter(linear(theta), y).log_likelihood for y in each)
    return total + float(prior.log_prob(jnp.asarray(flat, jnp.float32)))


@pytest.mark.extra
def test_the_posterior_is_that_of_all_series_together(fitted):
    """Draws of q(θ) weighted by the exact density: q's own moments against theirs, and the bound against the evidence."""
    each, _, fit = fitted
    e = np.asarray(jr.normal(jr.key(7), (400, 3))) * 1.2  # from wider than q(θ), so that a narrow one is found out
    drawn = jax.vmap(fit.guide.theta)(jnp.asarray(e))
    flat, log_q = (np.asarray(part, np.float64) for part in drawn)
    wide = log_q - 0.5 * (e**2 / 1.44 - e**2).sum(axis=1) - 3 * np.log(1.2)
    log_weight = np.array([exact_density(one, each) for one in flat]) - wide
    weight = np.exp(log_weight - log_weight.max())
    evidence = log_weight.max() + np.log(weight.mean())
    error = weight.std() / weight.mean() / np.sqrt(len(weight))
    weight /= weight.sum()
    mean = weight @ flat
    sd = np.sqrt(weight @ (flat - mean) ** 2)
    own = np.asarray(jax.vmap(lambda e: fit.guide.theta(e)[0])(jr.normal(jr.key(8), (20_000, 3))))
    bias, ratio, gap = (own.mean(axis=0) - mean) / sd, own.std(axis=0) / sd, evidence - fit.elbo(key=jr.key(1)).mean
    print(f"bias {bias}, ratio {ratio}, gap {gap} ± {error}, effective {1 / (weight**2).sum()}")
    assert np.abs(bias).max() < 0.15
    assert 0.85 < ratio.min() <= ratio.max() < 1.15
    assert -4 * error < gap < 0.2 + 4 * error
    found = fit.evidence(key=jr.key(2))
    assert found.reliable
    assert abs(found.mean - evidence) < 4 * np.hypot(error, found.standard_error)


@pytest.mark.extra
def test_one_series_of_a_list_is_the_series(fitted):
    """Another T compiles another program, so to rounding."""
    y = fitted[0][2]
    one, listed = (nmax.fit(MODEL, data, key=jr.key(3), progress=False) for data in (y, [y]))
    here, there = (fit.guide.theta_flow.head for fit in (one, listed))
    np.testing.assert_allclose(there.loc, here.loc, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(there.matrix, here.matrix, rtol=1e-2, atol=1e-3)
    paths = [fit.path(4, start=3, stop=30, key=jr.key(4)) for fit in (one, listed.one(0))]
    np.testing.assert_allclose(*paths, rtol=1e-2, atol=1e-2)
    assert abs(one.elbo(key=jr.key(5)).mean - listed.elbo(key=jr.key(5)).mean) < 0.02
    assert one.summary().length == listed.summary().length == 60


@pytest.mark.extra
def test_every_series_has_a_posterior_of_its_own_under_one_theta(fitted):
    each, _, fit = fitted
    assert len(fit) == 5
    assert "5 series, 850 steps in all" in repr(fit)
    assert "5 independent series of 60 to 300 steps share θ" in fit.notes
    theta = fit.theta(3, key=jr.key(1))
    for k in (1, 2):
        own = fit.one(k)
        assert own.series.length == STEPS[k]
        jax.tree.map(np.testing.assert_array_equal, own.theta(3, key=jr.key(1)), theta)
        path = own.path(400, key=jr.key(1))
        assert path.shape == (400, STEPS[k] + 1, 1)
        seen = ~np.isnan(each[k][:, 0])
        off = (path.mean(axis=0) - each[k])[seen, 0]
        assert np.abs(off[1:]).max() < 4.5  # of observation errors with sd 1: chance allows it once in 10^5 steps
        ahead = own.forecast(3, 50, key=jr.key(1))
        assert ahead.y.shape == (50, 3, 1)
        assert int(ahead.times[0]) == STEPS[k] + 1
        assert own.number == k
        assert f"series {k} of 5" in own.notes[0]


@pytest.mark.extra
def test_what_a_posterior_has_each_of_them_has(fitted, tmp_path):
    each, _, fit = fitted
    own = fit.one(2)
    assert own.predictive(5, start=3, stop=9, key=jr.key(1)).shape == (5, 6, 1)
    assert own.path_summary(start=0, stop=20, key=jr.key(1)).corrected.all()
    assert not own.strip(key=jr.key(1)).bad.any()
    seen = ~np.isnan(each[2][1:])
    np.testing.assert_array_equal(np.isfinite(own.residuals(key=jr.key(1)).pit), seen)
    assert not own.predictive_check(draws=200, key=jr.key(1)).extreme
    assert own.to_datatree(draws=10, paths=2)["posterior_paths"].sizes["time"] == STEPS[2] + 1
    assert own.elbo(key=jr.key(1)).mean < 0.0
    nmax.report.write(own, tmp_path / "one.html", key=jr.key(1))
    assert (tmp_path / "one.html").stat().st_size > 10_000


def test_the_path_of_a_series_is_that_of_a_kalman_smoother(fitted):
    """At the fitted θ, whose spread adds little: within a tenth of a smoothed sd in the mean over the steps."""
    each, _, fit = fitted
    theta = {name: float(draws.mean()) for name, draws in fit.theta(4_000, key=jr.key(1)).items()}
    for k in (1, 2):
        smooth = nmax.reference.kalman_smoother(linear(theta), each[k])
        path = fit.one(k).path(2_000, key=jr.key(2))[:, 1:, 0]
        sd = np.sqrt(smooth.covariance[1:, 0, 0])
        assert np.mean(np.abs(path.mean(axis=0) - smooth.mean[1:, 0]) / sd) < 0.1
        assert 0.95 < np.mean(path.std(axis=0) / sd) < 1.1


def test_what_is_of_one_series_is_asked_of_one(fitted):
    fit = fitted[2]
    for name in ("path", "forecast", "residuals", "strip", "to_datatree", "predictive_check"):
        with pytest.raises(AttributeError, match=rf"`{name}` is of one series, .* Ask `fit.one\(k\).{name}`"):
            getattr(fit, name)
    with pytest.raises(AttributeError, match="has no attribute 'paht'"):
        fit.paht  # noqa: B018
    for k in (5, -1, 1.0, "a", True):
        with pytest.raises(ValueError, match="`k` must be the number of a series, a whole number from 0 to 4; got"):
            fit.one(k)
    with pytest.raises(TypeError, match="`check` must see all series.*Call `check` on what `nmax.fit` returned"):
        fit.one(1).check()
    with pytest.raises(TypeError, match=r"`save` must write all series.*`nmax.load\(folder, model\).one\(1\)`"):
        fit.one(1).save("nowhere")
    with pytest.raises(TypeError, match=r"must be of one series, .* got a fit of 5. Pass `fit.one\(k\)`"):
        nmax.report.write(fit, "nowhere.html")


@pytest.mark.extra
def test_the_check_sees_all_series(fitted):
    """A sound fit is trusted; one with a q(θ) as wide as a single series would have it is not."""
    fit = fitted[2]
    check = fit.check()
    assert check.verdict == "trust", str(check)
    figures = check.figures
    assert abs(figures["gap"]) < 0.5
    hurt = nmax.load(fitted[1], MODEL)
    head = hurt.guide.theta_flow.head
    head = dataclasses.replace(head, loc=head.loc + 0.8 * jnp.sqrt(jnp.diagonal(head.matrix @ head.matrix.T)))
    hurt.guide = eqx.tree_at(lambda g: g.theta_flow.head, hurt.guide, head)
    assert hurt.check().verdict == "do not trust"


@pytest.mark.extra
def test_models_of_several_series_are_compared_by_all_of_them(fitted):
    each, _, fit = fitted
    wide = dataclasses.replace(MODEL, prior={**MODEL.prior, "coefficient": dist.Normal(0.0, 100.0)})
    other = nmax.fit(wide, each, key=jr.key(0), progress=False)
    lost = nmax.compare({"narrow": fit, "wide": other}, key=jr.key(1)).rows["wide"]
    assert abs(lost["below"] - np.log(10.0)) < 4 * lost["its error"] + 0.01  # the prior's height is all that differs
    with pytest.raises(ValueError, match="All fits must be to the same data"):
        nmax.compare([fit, nmax.fit(MODEL, each[:2], key=jr.key(0), progress=False)], key=jr.key(1))


def test_a_run_folder_holds_all_series_and_refuses_others(fitted):
    each, folder, fit = fitted
    loaded = nmax.load(folder, MODEL)
    assert isinstance(loaded, nmax.ManyPosterior)
    jax.tree.map(np.testing.assert_array_equal, loaded.theta(4, key=jr.key(1)), fit.theta(4, key=jr.key(1)))
    paths = [one.one(3).path(2, start=5, stop=9, key=jr.key(1)) for one in (loaded, fit)]
    np.testing.assert_array_equal(*paths)
    again = nmax.resume(folder, MODEL, progress=False)
    np.testing.assert_array_equal(again.history.total, fit.history.total)
    options = {"key": jr.key(0), "out": folder, "progress": False}
    with pytest.raises(ValueError, match="data.series 0.rows was 151, is 301; .*data.series 1.rows was 301, is 151"):
        nmax.fit(MODEL, [each[1], each[0], *each[2:]], **options)
    changed = [np.where(np.arange(len(y))[:, None] == 7, 9.0, y) if k == 3 else y for k, y in enumerate(each)]
    with pytest.raises(ValueError, match="data.series 3.sha256_of_observations is another. Choose another folder"):
        nmax.fit(MODEL, changed, **options)
    with pytest.raises(ValueError, match="data.series was 5, is 4; .*data.series 4.rows was 121, is nothing"):
        nmax.fit(MODEL, each[:4], **options)
    with pytest.raises(ValueError, match="data.series"):
        nmax.fit(MODEL, each[0], **options)


def test_results_hold_theta_of_all_series_and_no_paths(fitted, tmp_path):
    each, _, fit = fitted
    save_results(fit, tmp_path, draws=20)
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as tree:
        assert tree["posterior"]["noise"].sizes["draw"] == 20
        assert "posterior_paths" not in tree
        assert tree.attrs["steps"] == sum(len(y) - 1 for y in each)


@pytest.mark.extra
def test_from_the_disk_as_in_memory(fitted, tmp_path):
    each, _, fit = fitted
    for k, y in enumerate(each):
        np.save(tmp_path / f"{k}.npy", y)
    data = [source(tmp_path / f"{k}.npy") if k != 1 else each[1] for k in range(5)]  # one of them in memory
    kept = nmax.fit(MODEL, data, key=jr.key(0), out=tmp_path / "run", progress=False)
    np.testing.assert_allclose(kept.guide.theta_flow.head.loc, fit.guide.theta_flow.head.loc, rtol=1e-3, atol=1e-3)
    paths = [one.one(2).path(3, start=4, stop=20, key=jr.key(2)) for one in (kept, fit)]
    np.testing.assert_allclose(*paths, rtol=1e-2, atol=2e-2)
    loaded = nmax.load(tmp_path / "run", MODEL)
    own = [one.one(0).path(2, start=0, stop=9, key=jr.key(3)) for one in (loaded, kept)]
    np.testing.assert_array_equal(*own)
    np.save(tmp_path / "3.npy", each[3] + 1.0)
    with pytest.raises(ValueError, match="data.series 3.sha256_of_observations is another"):
        nmax.load(tmp_path / "run", MODEL)


@pytest.mark.extra
def test_windows_read_from_the_disk_are_those_in_memory(tmp_path, key):
    each = [np.ascontiguousarray(y) for y in some((2_300, 40, 1_100), columns=1, share=0.0)]
    members = []
    for k, y in enumerate(each):
        np.save(tmp_path / f"{k}.npy", y)
        place = source(tmp_path / f"{k}.npy")
        members.append(LongSeries(place, statistics_of(place)))
    from_disk, in_memory = ManySeries(members), many(each)
    np.testing.assert_allclose(from_disk.members[0].scale, in_memory.members[0].scale, rtol=1e-5)
    guide = nmax.LookaheadGuide(layers=1, length=3, width=16).build(MODEL, in_memory, key=jr.key(0))
    again = nmax.LookaheadGuide(layers=1, length=3, width=16).build(MODEL, from_disk, key=jr.key(0))
    assert (guide.block, guide.buffer) == (again.block, again.buffer)
    assert guide.block < 2_300
    windows = windows_over(in_memory, 2 * guide.block)
    number = np.arange(windows.count)
    theta = np.tile(np.asarray(guide.theta_flow.head.loc), (len(number), 1))
    one, other = (Scores(guide, series, windows)(theta, number, key=key) for series in (in_memory, from_disk))
    np.testing.assert_allclose(other[0], one[0], rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(other[1], one[1], rtol=1e-3, atol=1e-2)


SMALL = nmax.MovingAverageGuide(layers=1, length=3, width=16, depth=1, radius=2, theta_layers=1)


@pytest.mark.extra
def test_the_papers_guide_goes_on_where_it_was_stopped(tmp_path):
    """Interrupted and taken up again: bit for bit what it would have been."""
    each = panel((40, 90, 25))
    options = {"guide": SMALL, "pretrain": 10, "steps": 300, "draws": 2, "window": 20, "key": jr.key(3), "progress": False}
    through = nmax.fit(MODEL, each, **options)
    assert np.isfinite(through.history.total).all()
    assert through.one(1).path(2, key=jr.key(1)).shape == (2, 91, 1)

    def stop(step, guide):
        if step == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nmax.fit(MODEL, each, **options, watch=stop, out=tmp_path / "run", checkpoint_every=1e-9)
    rest = nmax.resume(tmp_path / "run", MODEL, progress=False)
    np.testing.assert_array_equal(rest.history.total, through.history.total)
    np.testing.assert_array_equal(rest.guide.theta_flow.head.loc, through.guide.theta_flow.head.loc)


def frame(rows=9, names=("a", "b"), start="2020-01-01", freq="D"):
    pandas = pytest.importorskip("pandas")
    values = np.random.default_rng(0).standard_normal((rows, len(names)))
    return pandas.DataFrame(values, columns=list(names), index=pandas.date_range(start, periods=rows, freq=freq))


Y = np.arange(9.0)
BAD = {
    "no series": (dict(y=[]), "`y` must not be empty"),
    "other columns": (
        dict(y=[Y, np.stack([Y, Y], axis=1)]),
        "of `y`; series 0 has 1 .y., series 1 has 2 .y0, y1",
    ),
    "other names": (
        dict(y=lambda: [frame(), frame(names=("b", "a"))]),
        r"same columns of `y`; series 0 has 2 \(a, b\), series 1 has 2 \(b, a\). Choose them with `nmax.read",
    ),
    "other steps": (
        dict(y=lambda: [frame(names=("a",)), frame(names=("a",), freq="7D")]),
        "same step between rows; those of series 0 and 1 differ. Read them with",
    ),
    "other inputs": (
        dict(y=[Y, Y], inputs=[Y, np.stack([Y, Y], axis=1)]),
        "same inputs; series 0 has 1 .u., series 1 has 2 .u0, u1",
    ),
    "too few inputs": (dict(y=[Y, Y], inputs=[Y]), "an entry for each of the 2 series, or None; got 1 of them"),
    "one array of inputs": (dict(y=[Y, Y], inputs=Y), "an entry for each of the 2 series, or None; got one ndarray"),
    "inputs of another length": (
        dict(y=[Y, Y], inputs=[Y, Y[:4]]),
        "Series 1 of the list: `inputs` must have one row for each of the 9 rows of `y`; got 4",
    ),
    "a number among them": (
        dict(y=[Y, 3.0]),
        "must hold arrays, frames, .* or sources alone; entry 1 is a float",
    ),
    "an empty one": (dict(y=[Y, np.full(5, np.nan)]), "Series 1 of the list: `y` must hold at least one observation"),
    "an infinite one": (dict(y=[Y, np.array([1.0, np.inf])]), "Series 1 of the list: `y` must be finite"),
    "text": (dict(y=[Y, np.array(["a", "b"])]), "Series 1 of the list: `y` must hold numbers"),
    "rows of one series": (
        dict(y=list(Y[:, None])),
        r"at least two rows, y_0 and y_1; series 0 has one. If they are the rows of one series, pass `numpy.stack\(y\)`",
    ),
    "no such file": (dict(y=["nowhere.csv", Y]), "nowhere.csv"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lists(name):
    options, message = BAD[name]
    options = {name: value() if callable(value) else value for name, value in options.items()}
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        nmax.fit(MODEL, options.pop("y"), key=jr.key(0), progress=False, **options)


def test_a_refusal_names_the_series_that_it_is_about():
    counts = nmax.StateSpaceModel(
        prior={"level": dist.Normal(0.0, 1.0)},
        initial=lambda theta: theta["level"][None],
        transition=lambda x, theta: dist.Normal(x, 0.3).to_event(1),
        observation=lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1),
    )
    fine, bad = np.arange(9.0), np.where(np.arange(9) == 4, -1.0, np.arange(9.0))
    with pytest.raises(ValueError, match="-1|support"):
        nmax.fit(counts, [fine, bad], key=jr.key(0), progress=False)


def test_a_start_far_from_the_first_row_of_some_series_is_said_of_it(monkeypatch):
    def stopped(*args, **kwargs):
        raise RuntimeError("work started")

    monkeypatch.setattr("nmax._fit.locate", stopped)
    near, far = panel((30, 30))
    far = np.where(np.arange(31)[:, None] == 0, 510.0, far)
    with pytest.warns(UserWarning, match="it puts column y of series 1 at 10"), pytest.raises(RuntimeError, match="started"):
        nmax.fit(MODEL, [near, far], key=jr.key(0), progress=False)


def test_lists_of_numbers_are_one_series_as_ever():
    from nmax.data import Table, tables_of

    for y, shape in (([1.0, 2.0, 3.0], (3, 1)), ([[1.0, 2.0], [3.0, 4.0]], (2, 2)), (list(jnp.arange(3.0)), (3, 1))):
        table = tables_of(y)
        assert isinstance(table, Table)
        assert table.y.shape == shape
    table = tables_of((Y, Y[:4]), [Y, Y[:4]])
    assert isinstance(table, Tables)
    assert [one.y.shape for one in table.each] == [(9, 1), (4, 1)]
    assert tables_of(table) is table
    named = tables_of([frame(), frame(4)], ["b"])
    assert isinstance(named, Tables)
    assert (named.columns, named.each[1].input_columns) == (("a",), ("b",))
    with pytest.raises(ValueError, match="must come with the tables"):
        tables_of(table, Y)


def test_exact_sampling_takes_one_series():
    with pytest.raises(ValueError, match=r"`y` must be one series here; got a list of 2. .* `fit.one\(k\)`"):
        nmax.sample(MODEL, [Y, Y], key=jr.key(0), progress=False)
