"""Training: deterministic, compiled once, proof against non-finite steps, and honest about why it stopped."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import random_walk

import nmax
from nmax import _train
from nmax._optimiser import clip_by_global_l1_norm
from nmax._progress import Silent
from nmax._train import init, step, train
from nmax.data import Windows, make_series

KEY = jr.key(0)
SMALL = nmax.MovingAverageGuide(layers=2, length=3, width=8, radius=2, theta_layers=0)


def data(rows=60, columns=1, seed=0):
    return 2 + np.random.default_rng(seed).standard_normal((rows, columns))


def quick(y, model=None, *, steps: int | None = 50, key=KEY, **options):
    settings = {"guide": SMALL, "pretrain": 0, "progress": False, "window": 10, "draws": 4}
    return nmax.fit(model or random_walk(), y, key=key, steps=steps, **(settings | options))


@pytest.fixture(scope="module")
def posterior():
    return quick(data(rows=1_201), steps=100)


@pytest.mark.extra
def test_the_same_key_gives_the_same_fit_and_another_key_another():
    one, two, other = (quick(data(), key=jr.key(k)) for k in (0, 0, 1))
    np.testing.assert_array_equal(one.history.total, two.history.total)
    for a, b in zip(jax.tree.leaves(one.guide), jax.tree.leaves(two.guide), strict=True):
        if eqx.is_array(a):
            np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.history.total, other.history.total)


def test_step_compiles_once():
    series = make_series(data())
    guide = SMALL.build(random_walk(), series, key=jr.key(0))
    state, training = init(guide, nmax.Optimiser(), Windows(series.length, 10), 4, key=jr.key(1))
    once = eqx.filter_jit(eqx.debug.assert_max_traces(step, max_traces=1))
    for _ in range(3):
        state, _ = once(state, series, training)
    assert state.count == 3


@pytest.mark.extra
def test_many_steps_at_once_are_the_same_steps():
    series = make_series(data())
    guide = SMALL.build(random_walk(), series, key=jr.key(0))
    state, training = init(guide, nmax.Optimiser(), Windows(series.length, 10), 4, key=jr.key(1))
    together, record = _train.advance(state, series, training, jnp.int32(3))
    elbos = []
    for _ in range(3):
        state, elbo = eqx.filter_jit(step)(state, series, training)
        elbos.append(float(elbo.total))
    np.testing.assert_allclose(record.total[:3], elbos, rtol=1e-5)
    assert np.isnan(record.total[3:]).all()
    for a, b in zip(jax.tree.leaves(together.params), jax.tree.leaves(state.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_training_raises_the_elbo():
    fit = quick(data(rows=301), steps=600)
    assert fit.history.total[-50:].mean() > fit.history.total[:50].mean() + 20
    assert fit.reason == "did all 600 steps"
    assert fit.steps == len(fit.history.total) == 600


def sometimes_not_finite(share):
    """A model whose density is NaN where θ's first coordinate is above a quantile of where q starts."""

    def transition(x, theta):
        bad = theta["level"] > share
        return dist.Normal(0.8 * x + jnp.where(bad, jnp.nan, 0.0), theta["noise"]).to_event(1)

    model = random_walk()
    return nmax.StateSpaceModel(model.prior, model.initial, transition, model.observation)


def test_non_finite_steps_change_nothing_and_are_counted():
    series = make_series(data())
    guide = SMALL.build(sometimes_not_finite(-9.0), series, key=jr.key(0))
    state, training = init(guide, nmax.Optimiser(), Windows(series.length, 10), 4, key=jr.key(1))
    after, _ = step(state, series, training)
    assert (after.count, after.skipped, after.skipped_in_a_row) == (1, 1, 1)
    before, now = ((s.params, s.average, s.opt_state) for s in (state, after))
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(now), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_of_non_finite_steps_ends_in_an_error_that_keeps_what_there_was():
    series = make_series(data())
    guide = SMALL.build(sometimes_not_finite(-9.0), series, key=jr.key(0))
    state, training = init(guide, nmax.Optimiser(), Windows(series.length, 10), 4, key=jr.key(1))
    with pytest.raises(nmax.DivergedError, match="Try a smaller learning rate") as caught:
        train(state, series, training, 1_000, Silent())
    assert caught.value.outcome.steps == 100


@pytest.mark.extra
def test_some_non_finite_steps_are_survived():
    # q(level) starts at 2 with sd 0.1: above 2.25 in one window's draws every few steps
    with pytest.warns(UserWarning, match="of the model are NaN at"):
        fit = quick(data(), sometimes_not_finite(2.25), steps=60, draws=2)
    assert 0 < fit.skipped < 60
    assert np.isfinite(fit.theta(10, key=jr.key(0))["level"]).all()
    assert "their gradient was not finite" in str(fit.summary())


def test_convergence_is_noticed_and_said():
    until = nmax.Converged(least=200, most=3_000, cooldown=0.5)
    fit = quick(data(rows=201), steps=None, until=until)
    assert fit.converged
    assert fit.reason.startswith("converged: after")
    assert 300 <= fit.steps < 3_000


def test_no_convergence_is_said_too():
    fit = quick(data(rows=201), steps=None, until=nmax.Converged(least=10_000, most=200))
    assert not fit.converged
    assert "most steps allowed, 200" in fit.reason
    assert fit.steps == 200


@pytest.mark.parametrize(
    ("elbo", "still"),
    [
        (np.r_[np.arange(1_000.0)], False),
        (np.r_[np.arange(2_000) / 100 + 10 * np.random.default_rng(0).standard_normal(2_000)], False),
        (np.r_[np.full(500, -1e6), np.random.default_rng(0).standard_normal(1_500)], True),
        (np.zeros(100), False),
        (np.r_[np.full(1_000, np.nan)], False),
    ],
    ids=["rising", "rising in noise", "noise", "too early", "never finite"],
)
def test_when_the_elbo_stands_still(elbo, still):
    assert nmax.Converged(least=200).still(elbo) is still


def test_interruption_keeps_what_there_was(monkeypatch):
    advance, calls = _train.advance, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return advance(*args)

    monkeypatch.setattr(_train, "advance", interrupted)
    fit = quick(data(), steps=1_000)
    assert fit.steps == 200
    assert fit.reason == "interrupted after 200 steps"
    assert len(fit.theta(3, key=jr.key(0))["level"]) == 3


def test_progress_shows_the_elbo_and_the_speed(capsys):
    quick(data(), steps=100, progress=True)
    shown = capsys.readouterr().err
    assert "ELBO" in shown
    assert "step/s" in shown or "s/step" in shown


def test_a_watch_sees_the_guide_along_the_way():
    seen = []
    fit = quick(data(), steps=250, watch=lambda steps, guide: seen.append((steps, guide)))
    assert [steps for steps, _ in seen] == [100, 200, 250]
    last = jax.tree.leaves(eqx.filter(seen[-1][1], eqx.is_array))
    for a, b in zip(last, jax.tree.leaves(eqx.filter(fit.guide, eqx.is_array)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_global_l1_clipping():
    clipped = clip_by_global_l1_norm({"a": jnp.array([3.0, -4.0]), "b": jnp.array(3.0)}, 5.0)
    np.testing.assert_allclose(clipped["a"], [1.5, -2.0])
    np.testing.assert_allclose(clipped["b"], 1.5)
    same = clip_by_global_l1_norm({"a": jnp.array([3.0, -4.0])}, 50.0)
    np.testing.assert_allclose(same["a"], [3.0, -4.0])


def test_the_schedule_rises_stays_and_falls():
    o = nmax.Optimiser(warmup=10, final=0.01)
    at = [float(o.multiplier(jnp.int32(n), jnp.int32(100), jnp.int32(50))) for n in (0, 9, 50, 100, 125, 150, 500)]
    np.testing.assert_allclose(at, [0.1, 1, 1, 1, 0.505, 0.01, 0.01], rtol=1e-5)


def test_the_paper_s_recipe_runs():
    fit = quick(data(), optimiser=nmax.Optimiser.paper(), steps=100)
    assert np.isfinite(fit.history.total).all()


@pytest.mark.parametrize("rows", [2, 3, 8])
def test_series_shorter_than_a_window(rows):
    fit = quick(data(rows=rows), window=None)
    assert fit.windows.width == rows - 1
    assert np.isfinite(fit.elbo(key=jr.key(0)).mean)


@pytest.mark.extra
def test_inputs_exact_columns_gaps_and_vectors_together(key):
    base = random_walk(d=2, with_inputs=True, exactly_observed={1: 1}, observed=1)
    model = nmax.StateSpaceModel(
        {"level": dist.Normal(jnp.zeros(2), 1.0).to_event(1), "noise": dist.LogNormal(0.0, 0.5)},
        base.initial,
        base.transition,
        base.observation,
        exactly_observed={1: 1},
    )
    y = data(40, 2)
    y[3:9] = np.nan
    y[20, 1] = np.nan
    fit = quick(y, model, inputs=np.ones(40), pretrain=5)
    assert fit.theta(5, key=key)["level"].shape == (5, 2)
    assert list(fit.summary().parameters) == ["level[0]", "level[1]", "noise"]
    x = fit.path(5, key=key)
    assert np.isfinite(x).all()
    seen = ~np.isnan(y[:, 1])
    np.testing.assert_allclose(x[:, seen, 1], np.tile(y[seen, 1], (5, 1)).astype(np.float32))
    assert x[:, 20, 1].std() > 0


def test_paths_cut_in_pieces_are_the_same_path(posterior, key):
    whole = posterior.path(4, key=key)
    assert whole.shape == (4, 1_201, 1)
    for start, stop in [(0, 1), (0, 600), (511, 513), (700, 701), (1_000, 1_201)]:
        np.testing.assert_array_equal(posterior.path(4, start=start, stop=stop, key=key), whole[:, start:stop])
    for chunk in (100, 512, 5_000):
        pieces = list(posterior.path_in_chunks(4, chunk=chunk, key=key))
        np.testing.assert_array_equal(np.concatenate([x for _, x in pieces], axis=1), whole)
        assert [start for start, _ in pieces] == list(range(0, 1_201, chunk))
    np.testing.assert_array_equal(whole[:, 0, 0], 2.0)


def test_draws_are_joint_and_do_not_depend_on_their_number(posterior, key):
    few, many = posterior.theta(3, key=key), posterior.theta(7, key=key)
    np.testing.assert_allclose(few["level"], many["level"][:3], rtol=1e-6)
    np.testing.assert_allclose(posterior.path(3, stop=5, key=key), posterior.path(7, stop=5, key=key)[:3], rtol=1e-5)
    assert list(few) == ["level", "noise"]


def test_paths_in_posterior_are_those_of_the_objective(posterior):
    """Same noise, same path, whether drawn for a window of training or for the user."""
    from nmax._noise import noise

    guide, series, key = posterior.guide, posterior.series, jr.fold_in(jr.key(5), 0)
    e = jr.normal(jr.fold_in(key, 0), (2,))
    theta = posterior.model.parameters.constrain(guide.theta(e)[0])
    left, right = guide.reach
    z = noise(jr.fold_in(key, 1), 600 - left, 20 + left + right, 1)
    x = guide.path(theta, e, z, series, jnp.int32(600)).x
    np.testing.assert_allclose(posterior.path(1, start=600, stop=620, key=jr.key(5))[0], x, rtol=1e-5)


def test_log_prob_is_the_density_of_the_draws(posterior):
    """On the user's scale: integrates to one over a fine grid around the draws."""
    theta = posterior.theta(2_000, key=jr.key(0))
    grids = [np.linspace(v.mean() - 7 * v.std(), v.mean() + 7 * v.std(), 120) for v in theta.values()]
    cell = np.prod([g[1] - g[0] for g in grids])
    total = 0.0
    for level in grids[0][::4]:
        for noise_sd in grids[1][::4]:
            if noise_sd > 0:
                total += np.exp(posterior.log_prob({"level": level, "noise": noise_sd})) * cell * 16
    assert abs(total - 1) < 0.02


def test_elbo_and_summary(posterior):
    elbo = posterior.elbo(key=jr.key(1))
    again = posterior.elbo(key=jr.key(2))
    assert abs(elbo.mean - again.mean) < 6 * np.hypot(elbo.standard_error, again.standard_error)
    text = str(posterior.summary())
    for word in ("level", "noise", "mean", "sd", "5%", "50%", "95%", "ELBO", "100 steps"):
        assert word in text
    assert "level" in repr(posterior)
