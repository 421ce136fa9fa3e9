"""Exact sampling through the guide's noise: the density is the posterior's, the draws are right, a run goes on."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from blackjax.mcmc.integrators import IntegratorState
from helpers import random_walk

import nmax
from nmax._chains import ChainState, Record, begun, go_on, go_on_together, rotation, whole_turns
from nmax._diagnostics import mixing
from nmax._locate import rivals
from nmax._noise_density import Position, noise_density
from nmax.models import log_prob_of_rows
from nmax.reference import ar1_exact

TRUTH = {"level": 2.0, "noise": 1.0}


@pytest.fixture(scope="module")
def fitted():
    _, y = nmax.simulate(random_walk(), TRUTH, 40, key=jr.key(3))
    model = random_walk()
    fit = nmax.fit(model, y, key=jr.key(0), guide=nmax.LookaheadGuide(weighted=1, layers=0), progress=False)
    return model, y, fit


def test_the_density_in_the_noise_is_the_posterior_pulled_back(fitted):
    """log p(θ, x, y) + log |∂(θ, x)/∂(e, z)|, by autodiff, up to a constant."""
    model, _, fit = fitted
    density = noise_density(fit.guide, fit.series)
    size, shape = density.shape

    def pushed(flat):
        theta, x = density.states(Position(flat[:size], flat[size:].reshape(shape)))
        return jnp.concatenate([theta, x[1:].reshape(-1)])

    def exact(flat):
        at = pushed(flat)
        theta = model.parameters.constrain(at[:size])
        x = jnp.concatenate([model.initial(theta)[None], at[size:].reshape(shape)])
        log_p = model.parameters.log_prob(at[:size])
        rows = fit.series.values, fit.series.observed, fit.series.inputs
        log_p += jnp.sum(log_prob_of_rows(model.observation_log_prob, x, *rows, theta=theta))
        log_p += jnp.sum(log_prob_of_rows(model.transition_log_prob, x[:-1], x[1:], fit.series.inputs[1:], theta=theta))
        return log_p + jnp.linalg.slogdet(jax.jacobian(pushed)(flat))[1]

    noise = 1.5 * jr.normal(jr.key(1), (4, size + shape[0] * shape[1]))
    ours = jnp.stack([density(Position(n[:size], n[size:].reshape(shape))) for n in noise])
    theirs = jnp.stack([jax.jit(exact)(n) for n in noise])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=2e-3)


def test_a_bad_guide_has_the_same_posterior(fitted):
    """Widths of q(θ) four times too large: the density at the same (θ, x) changes by the Jacobian only."""
    _, _, fit = fitted
    head = fit.guide.theta_flow.head
    wide = eqx.tree_at(lambda g: g.theta_flow.head, fit.guide, dataclasses.replace(head, matrix=4.0 * head.matrix))
    one, other = noise_density(fit.guide, fit.series), noise_density(wide, fit.series)
    size, shape = one.shape
    z = jr.normal(jr.key(2), shape)
    e = jr.normal(jr.key(3), (3, size))
    flat = [fit.guide.theta(k)[0] for k in e]
    back = [wide.theta_flow.noise(f) for f in flat]
    ours = np.array([one(Position(k, z)) for k in e])
    theirs = np.array([other(Position(k, z)) for k in back])
    scale = np.array([fit.guide.theta(k)[1] + 0.5 * jnp.sum(k**2) for k in e])
    scale -= np.array([wide.theta(k)[1] + 0.5 * jnp.sum(k**2) for k in back])
    np.testing.assert_allclose(np.diff(ours - theirs), np.diff(-scale), atol=2e-3)


def test_a_step_is_reversible_keeps_volume_and_turns_a_normal_density_exactly():
    def bent(q):
        return -0.5 * jnp.sum(q**2) - 0.1 * jnp.sum(q**4) + 0.2 * q[0] * q[1]

    def moved(density, qp, angle):
        q, p = qp[:2], qp[2:]
        start = IntegratorState(q, p, *jax.value_and_grad(density)(q))
        end = rotation(density, None)(start, angle)
        return jnp.concatenate([end.position, end.momentum]), end

    at = jnp.array([0.3, -1.2, 0.7, 0.4])
    there, _ = moved(bent, at, 0.4)
    back, _ = moved(bent, there * jnp.array([1, 1, -1, -1]), 0.4)
    np.testing.assert_allclose(back * jnp.array([1, 1, -1, -1]), at, atol=1e-5)
    volume = jnp.linalg.det(jax.jacobian(lambda qp: moved(bent, qp, 0.4)[0])(at))
    np.testing.assert_allclose(volume, 1.0, atol=1e-5)
    turned, end = moved(lambda q: -0.5 * jnp.sum(q**2), at, 1.1)
    np.testing.assert_allclose(end.logdensity - 0.5 * jnp.sum(end.momentum**2), -0.5 * jnp.sum(at**2), rtol=1e-5)
    np.testing.assert_allclose(turned[0], jnp.cos(1.1) * at[0] + jnp.sin(1.1) * at[2], rtol=1e-5)


def test_every_step_is_seen_to_turn_between_half_a_turn_and_a_whole_one():
    for angle in np.geomspace(0.01, 5.0, 400):
        step = float(whole_turns(jnp.float32(angle)))
        assert 0.6 * min(angle, 1.1) < step <= min(angle, 1.1) + 1e-6
        looks = [(2**k - 1) * step for k in range(1, 13)]
        assert any(np.pi <= span < 2 * np.pi for span in looks), angle


@pytest.mark.extra
def test_chains_know_their_density_once_they_have_moved(fitted):
    _, _, fit = fitted
    density = noise_density(fit.guide, fit.series)
    state, record = go_on(density, begun(density, 3, jr.key(1)), jnp.array(True), jnp.float32(0.8), jnp.int32(2))
    value, slope = jax.vmap(jax.value_and_grad(density))(state.chains.position)
    np.testing.assert_allclose(state.chains.logdensity, value, atol=1e-3)
    np.testing.assert_allclose(state.chains.logdensity_grad.z, slope.z, atol=1e-3)
    assert not np.asarray(record.theta)[2:].any()  # rows beyond those asked for


def test_teams_of_chains_are_what_each_is_alone(fitted):
    """Two teams side by side: the chains of each, one step size for all."""
    _, _, fit = fitted
    density = noise_density(fit.guide, fit.series)
    whole = begun(density, 8, jr.key(1))
    asked = jnp.array(True), jnp.float32(0.8), jnp.int32(2)
    state, record = go_on_together(density, whole, *asked)
    assert record.theta.shape[1] == 8
    sizes = []
    for number, rows in enumerate((slice(0, 4), slice(4, 8))):
        chains = jax.tree.map(lambda a, rows=rows: a[rows], whole.chains)
        alone, own = go_on(density, ChainState(chains, whole.adaptation, jr.fold_in(whole.key, number)), *asked)
        np.testing.assert_array_equal(record.theta[:, rows], own.theta)
        np.testing.assert_array_equal(state.chains.position.z[rows], alone.chains.position.z)
        sizes.append(float(alone.adaptation.log_step_size))
    assert float(state.adaptation.log_step_size) == pytest.approx(np.mean(sizes), abs=1e-6)
    again, _ = go_on_together(density, state, *asked)
    assert not np.array_equal(again.chains.position.e, state.chains.position.e)


class Stopped:
    """A draw that is still being made when the interrupt comes."""

    def __array__(self, *arguments, **options):
        raise KeyboardInterrupt


@pytest.mark.parametrize(("waiting", "chains"), [(False, 8), (True, 2)])
def test_a_run_goes_on_from_its_checkpoint_and_refuses_another(fitted, tmp_path, monkeypatch, waiting, chains):
    model, y, fit = fitted
    file = tmp_path / "chains.npz"
    options = {"key": jr.key(5), "fit": fit, "draws": 50, "warmup": 25, "chains": chains, "progress": False}
    whole = nmax.sample(model, y, **options)
    real, calls = nmax._sample.go_on_together, []

    def stopped(*args):
        calls.append(1)
        if len(calls) == 3:
            if not waiting:
                raise KeyboardInterrupt
            return real(*args)[0], Record(*(Stopped() for _ in Record._fields))
        return real(*args)

    monkeypatch.setattr(nmax._sample, "go_on_together", stopped)
    with pytest.raises(KeyboardInterrupt):
        nmax.sample(model, y, **options, checkpoint=file)
    monkeypatch.setattr(nmax._sample, "go_on_together", real)
    rest = nmax.sample(model, y, **options, checkpoint=file)
    for ours, theirs in zip(rest.record, whole.record, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="must come from the same call"):
        nmax.sample(model, y, **{**options, "draws": 75}, checkpoint=file)
    assert whole.path(5, key=jr.key(0), start=3, stop=6).shape == (5, 3, 1)
    joint = whole.path(5, key=jr.key(0))
    np.testing.assert_array_equal(joint[:, 3:6], whole.path(5, key=jr.key(0), start=3, stop=6))
    chunks = np.concatenate([part for _, part in whole.path_in_chunks(5, chunk=7, key=jr.key(0))], axis=1)
    np.testing.assert_array_equal(chunks, joint)
    assert "R-hat" in str(whole.summary())
    assert any("effective draws" in line for line in whole.warnings())


def test_a_damaged_checkpoint_is_put_aside_and_one_that_cannot_be_written_ends_nothing(fitted, tmp_path, monkeypatch):
    model, y, fit = fitted
    file = tmp_path / "chains.npz"
    options = {"key": jr.key(5), "fit": fit, "draws": 25, "warmup": 0, "chains": 2, "progress": False, "checkpoint": file}
    whole = nmax.sample(model, y, **options)
    (tmp_path / ".chains.npz.4711.partial").write_bytes(b"half")
    damaged = file.read_bytes()[:-100]
    file.write_bytes(damaged)
    with pytest.warns(UserWarning, match="is damaged .* The chains begin anew; it is now chains.npz.damaged"):
        anew = nmax.sample(model, y, **options)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["chains.npz", "chains.npz.damaged"]
    assert (tmp_path / "chains.npz.damaged").read_bytes() == damaged
    file.unlink()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nmax._chain_file.write_arrays", full)
    with pytest.warns(UserWarning, match="could not be kept in .*: No space left on device"):
        unkept = nmax.sample(model, y, **options)
    for record in (anew.record, unkept.record):
        for ours, theirs in zip(record, whole.record, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_long_series_is_warned_of_with_an_estimate_before_anything_starts(fitted, monkeypatch):
    model, y, fit = fitted
    monkeypatch.setattr(nmax._sample, "LONG", 30)
    monkeypatch.setattr(nmax._sample, "_quick_fit", lambda *args, **options: pytest.fail("the estimate came too late"))
    with (
        pytest.warns(UserWarning, match="this one has 40, and the draws will take less than a minute"),
        pytest.raises(pytest.fail.Exception),
    ):
        nmax.sample(model, y, key=jr.key(0), draws=25, warmup=0)
    monkeypatch.undo()
    monkeypatch.setattr(nmax._sample, "LONG", 30)
    with pytest.warns(UserWarning, match="meant for series up to some 30 steps"):
        nmax.sample(model, y, key=jr.key(0), fit=fit, draws=25, warmup=0, progress=False)


def test_a_near_rival_is_no_green_light(fitted):
    model, y, fit = fitted
    draws = nmax.sample(model, y, key=jr.key(0), fit=fit, draws=25, warmup=0, progress=False)
    assert not any("rival" in line for line in draws.warnings() if "mode" in line)
    draws.rival = 0.3
    assert any("a rival has about 0.74 of its mass" in line for line in draws.warnings())
    draws.rival = 6.0
    assert not any("of its mass" in line for line in draws.warnings())


def test_bad_input_is_refused(fitted, tmp_path):
    model, y, fit = fitted
    with pytest.raises(ValueError, match="same model"):
        nmax.sample(random_walk(), y, key=jr.key(0), fit=fit)
    with pytest.raises(ValueError, match="same data"):
        nmax.sample(model, y + 1.0, key=jr.key(0), fit=fit)
    for target in (1.5, "0.8", None):
        with pytest.raises(ValueError, match="`target` must lie"):
            nmax.sample(model, y, key=jr.key(0), fit=fit, target=target)
    with pytest.raises(ValueError, match="`checkpoint` must be a file"):
        nmax.sample(model, y, key=jr.key(0), fit=fit, checkpoint=tmp_path)
    with pytest.raises(TypeError, match="`fit` must be what nmax.fit returns"):
        nmax.sample(model, y, key=jr.key(0), fit=nmax.LookaheadGuide())
    with pytest.raises(ValueError, match="at most 1,000,000 rows"):
        nmax.sample(model, np.zeros(1_000_001), key=jr.key(0))
    with pytest.raises(TypeError, match="Did you mean `warmup`"):
        nmax.sample(model, y, key=jr.key(0), warm_up=3)


def test_chains_that_disagree_are_found_out():
    rng = np.random.default_rng(0)
    good = rng.standard_normal((4, 1_000))
    assert abs(mixing(good).rhat - 1) < 0.01
    assert 3_000 < mixing(good).bulk < 5_500
    assert mixing(good + np.array([0.0, 0.0, 0.0, 2.0])[:, None]).rhat > 1.2
    wide = good * np.array([1.0, 1.0, 1.0, 4.0])[:, None]
    assert mixing(wide).rhat > 1.1  # same means: only the folded ranks see it
    walk = np.cumsum(good, axis=1)
    assert mixing(walk).bulk < 50
    assert np.isnan(mixing(np.zeros((2, 10))).rhat)


@pytest.mark.stat
def test_chains_that_agree_seldom_exceed_the_limit_of_rhat():
    """Independent draws, few of them: 200 cases, each over its limit in at most 1 %; 12 or more happen once in 1e6."""
    rng = np.random.default_rng(1)
    cases = [mixing(rng.standard_normal((8, 60))) for _ in range(200)]
    assert sum(one.rhat > one.limit for one in cases) < 12
    assert sum(one.rhat > 1.01 for one in cases) > 12  # what a fixed limit would say
    assert mixing(rng.standard_normal((8, 4_000))).limit == 1.01
    apart = rng.standard_normal((8, 60)) + np.repeat([0.0, 0.5], 4)[:, None]
    assert mixing(apart).rhat > mixing(apart).limit


@pytest.mark.slow
@pytest.mark.stat
def test_the_draws_are_the_exact_posterior():
    """AR(1), against an independent exact sampler. False alarms: 6 figures, each beyond 4.5 errors once in 150,000."""
    model = nmax.models.ar1()
    _, y = nmax.simulate(model, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 300, key=jr.key(1))
    draws = nmax.sample(model, y, key=jr.key(0), draws=300, warmup=50, progress=False)
    exact = np.asarray(ar1_exact(y[:, 0].astype(float), 20_000, seed=0).theta, float)
    ours = draws.record.theta.reshape(-1, 3)
    error = exact.std(axis=0) / np.sqrt([one.bulk for one in draws.mixing.values()])
    assert (np.abs(ours.mean(axis=0) - exact.mean(axis=0)) < 4.5 * np.hypot(error, exact.std(axis=0) / 100)).all()
    tails = np.array([one.tail for one in draws.mixing.values()])
    assert (np.abs(np.log(ours.std(axis=0) / exact.std(axis=0))) < 4.5 * np.sqrt(1 / (2 * tails)) * 1.5).all()
    assert not draws.divergences


def test_a_fit_that_looked_for_no_modes_can_be_sampled_through():
    assert rivals((), random_walk()) == ()
