"""The look-ahead: exact in linear Gaussian models, sound where models are not, and honest about what it chose."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import random_walk
from numpyro.distributions import constraints

import nmax
from nmax import _natural, _small, _start
from nmax._find import forgetting
from nmax._scores import Scores
from nmax._start import Mode
from nmax._surface import DEGREES, fitted, moved_to, through_gradients
from nmax.data import Windows, make_series
from nmax.flows import Side, Skew, ThetaFlow
from nmax.lookahead import Dynamics, around, draw, linearised, look_ahead, rows_of, smoothed
from nmax.lookahead._information import marginals
from nmax.lookahead._moments import transition_moments
from nmax.reference import LinearGaussian, kalman_filter, kalman_smoother


def spd(n, seed=0):
    a = np.random.default_rng(seed).standard_normal((n, n))
    return jnp.asarray(a @ a.T + n * np.eye(n), jnp.float32)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_small_matrices(n):
    a, b = spd(n), jnp.asarray(np.random.default_rng(1).standard_normal((n, n)), jnp.float32)
    u = _small.unpack
    np.testing.assert_allclose(_small.pack(_small.times(u(a), u(b))), a @ b, rtol=1e-4, atol=1e-4)
    inverse = _small.pack(_small.inverse_cholesky(u(a)))
    np.testing.assert_allclose(inverse @ a @ inverse.T, np.eye(n), atol=1e-4)
    root = _small.pack(_small.semidefinite_cholesky(u(a)))
    np.testing.assert_allclose(root @ root.T, a, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        _small.pack(_small.solve_lower_transposed(u(root), u(b))), np.linalg.solve(root.T, b), atol=1e-3
    )


def test_a_singular_matrix_keeps_its_zero_rows():
    a = jnp.array([[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 3.0]])
    root = _small.pack(_small.semidefinite_cholesky(_small.unpack(a)))
    np.testing.assert_allclose(root @ root.T, a, atol=1e-6)
    assert not np.asarray(root)[1].any()


def linear_model(d, seed=0, observed=None):
    """A stable linear Gaussian model with one parameter that it does not use, its matrices, and where it starts."""
    rng = np.random.default_rng(seed)
    move = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    noise = np.asarray(spd(d, seed)) / d
    show = rng.standard_normal((observed or d, d))
    start = np.ones(d)
    f, q, h = (jnp.asarray(a, jnp.float32) for a in (move, np.linalg.cholesky(noise), show))
    model = nmax.StateSpaceModel(
        prior={"unused": dist.Normal(0.0, 1.0)},
        initial=lambda theta: jnp.ones(d),
        transition=lambda x, theta: dist.MultivariateNormal(f @ x, scale_tril=q),
        observation=lambda x, theta: dist.Normal(h @ x, 0.5).to_event(1),
    )
    return model, LinearGaussian(start, np.zeros(d), move, noise, show, 0.25 * np.eye(len(show)))


def with_gaps(y, share, seed=0):
    y = np.array(y, float)
    y[np.random.default_rng(seed).uniform(size=y.shape) < share] = np.nan
    return y


@pytest.mark.parametrize(("d", "observed", "every"), [(4, 4, 1), (8, 2, 1), (2, 1, 150)])
def test_a_linear_gaussian_path_is_exact(d, observed, every):
    """40 % missing, components unobserved, 150 steps without data: log p(y) for every noise, the smoother's moments."""
    model, exact = linear_model(d, observed=observed)
    simulated = nmax.simulate(model, {"unused": 0.0}, 400, key=jr.key(d), observe_every=every)
    y = with_gaps(simulated.y, 0.4 if every == 1 else 0.0)
    series = make_series(y)
    filtered = kalman_filter(exact, y)
    dynamics = Dynamics({"unused": jnp.float32(0.0)}, model, tuple(range(d)))
    rows = rows_of(model, series, jnp.arange(402))
    first = (dynamics.start, jnp.zeros((d, d)))

    @jax.jit
    def run(key):
        reference = smoothed(dynamics, around(jnp.zeros((401, d)), jnp.ones(d)), jnp.ones(d), rows, first, jnp.int32(3))
        linear = linearised(dynamics, reference, rows, first)
        ahead = look_ahead(linear)
        own = jax.tree.map(lambda a: a[:-1], rows)
        z = jr.normal(key, (401, d))
        u, log_det = draw(dynamics, reference, ahead, own, z)
        log_q = jnp.sum(dist.Normal(0, 1).log_prob(z), axis=1) - log_det
        move = jax.vmap(lambda a, b: model.transition(a, {}).log_prob(b))(u[:-1], u[1:])
        seen = jax.vmap(lambda x, y, o: model.observation_log_prob(x, y, o, {}, jnp.zeros(0)))(
            u, series.values, series.observed
        )
        mean, root = marginals(linear, ahead)
        return jnp.sum(move - log_q[1:]) + jnp.sum(seen), reference.mean + mean, root

    values, means, roots = jax.vmap(run)(jr.split(jr.key(1), 8))
    assert np.abs(values - filtered.log_likelihood).max() < 0.15  # rounding of some thousand terms in single precision
    assert 0.5 * np.var(values) < 0.005
    smooth = kalman_smoother(exact, y)
    sd = np.sqrt(np.diagonal(smooth.covariance, axis1=1, axis2=2))[1:]
    assert np.max(np.abs(means[0][1:] - smooth.mean[1:]) / sd) < 0.01
    np.testing.assert_allclose(np.linalg.norm(roots[0][1:], axis=2), sd, rtol=0.01)


@pytest.mark.parametrize(
    "transition",
    [
        lambda x: dist.LogNormal(0.9 * jnp.log(x), 0.3).to_event(1),
        lambda x: dist.Gamma(4.0, 4.0 / x).to_event(1),
        lambda x: dist.StudentT(3.0, x, 0.3).to_event(1),
        lambda x: dist.MultivariateNormal(x - 3.0, 0.25 * jnp.eye(2)),  # a mean outside the support
    ],
)
def test_other_transitions_have_moments_in_unconstrained_coordinates(transition):
    model = nmax.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 1.0)},
        initial=lambda theta: jnp.array([2.0, 1.0]),
        transition=lambda x, theta: transition(x),
        observation=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
        support=constraints.positive,
    )
    u = jnp.array([2.0, 0.5])
    mean, root = transition_moments(model, u, {"a": 0.0}, ())
    assert np.isfinite(mean).all()
    assert (np.diagonal(root) > 0).all()
    draws = jax.vmap(lambda k: transition(jax.nn.softplus(u)).sample(k))(jr.split(jr.key(0), 20_000))
    inside = (draws > 0).all(axis=1)
    if inside.mean() > 0.99 and not isinstance(transition(jnp.ones(2)), dist.MultivariateNormal):
        back = np.log(np.expm1(np.asarray(draws)[np.asarray(inside)]))
        assert np.max(np.abs(np.median(back, axis=0) - mean) / back.std(axis=0)) < 0.35


def double_well():
    return nmax.SDE(
        prior={"depth": dist.LogNormal(0.0, 1.0)},
        initial=lambda theta: jnp.array([1.0]),
        drift=lambda x, theta: 4.0 * theta["depth"] * (x - x**3),
        diffusion=lambda x, theta: jnp.array([1.6]),
        dt=0.05,
        observation=lambda x, theta: dist.Normal(x, 0.2).to_event(1),
    )


def test_the_reference_path_crosses_a_double_well_where_the_data_do():
    """Few observations, jumps between the wells: the reference is finite, near the data, and the path follows the jumps."""
    model = double_well()
    x, y = nmax.simulate(model, {"depth": 1.0}, 600, key=jr.key(4), observe_every=20)
    assert (x > 0.5).any()
    assert (x < -0.5).any()
    guide = nmax.LookaheadGuide().build(model, make_series(y), key=jr.key(0), theta=jnp.zeros(1))
    _, reference = jax.jit(lambda s: guide.reference({"depth": jnp.float32(1.0)}, s, jnp.int32(0)))(make_series(y))
    assert np.isfinite(reference.mean).all()
    seen = ~np.isnan(y[:, 0])
    off = np.abs(np.asarray(reference.mean)[seen, 0] - y[seen, 0])
    assert np.mean(off) < 0.2
    assert np.mean(np.sign(reference.mean[:, 0]) == np.sign(x[:, 0])) > 0.85


def mode_at(theta):
    size = len(theta)
    return Mode(np.asarray(theta, float), 1e-4 * np.eye(size), 0.0, np.zeros((1, size)), True)


def test_forgetting_is_that_of_the_kalman_smoother():
    """AR(1) in its steady state: a deviation shrinks by φ(1 − K) a step, in closed form."""
    model = nmax.models.ar1(observation_sd=3.0)
    y = nmax.simulate(model, {"intercept": 0.0, "coefficient": 0.98, "noise": 0.5}, 4_000, key=jr.key(0)).y
    series = make_series(y)
    guide = nmax.LookaheadGuide().build(model, series, key=jr.key(0))
    steps = forgetting(guide, series, mode_at([0.0, 0.98, np.log(0.5)]))
    p = 1.0
    for _ in range(1_000):
        p = 0.98**2 * p / (p + 9.0) * 9.0 + 0.25
    factor = 0.98 * 9.0 / (p + 9.0)
    tolerance = np.sqrt(2 * 0.05 * guide.block / series.length)
    assert abs(steps - np.log(tolerance) / np.log(factor)) <= 3


def test_a_surface_goes_through_gradients():
    """Gradients of a quartic give back the quartic, and q(θ) fitted to a Gaussian's is that Gaussian."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((600, 2))
    gradient = np.stack([-u[:, 0] + 0.3 * u[:, 0] * u[:, 1] - 0.1 * u[:, 0] ** 3, -u[:, 1] + 0.15 * u[:, 0] ** 2], axis=1)
    surface = through_gradients(u, gradient)
    found = jax.vmap(jax.grad(surface))(jnp.asarray(u[:50], jnp.float32))
    inside = np.linalg.norm(u[:50], axis=1) < float(surface.edge)
    np.testing.assert_allclose(found[inside], gradient[:50][inside], atol=2e-3)

    precision = np.array([[2.0, 0.8], [0.8, 1.0]])
    flow = ThetaFlow(jnp.zeros(2), jnp.ones(2), layers=2, width=8, depth=1, key=jr.key(0))
    flow = fitted(flow, through_gradients(u, -(u - 0.3) @ precision), key=jr.key(1))
    flow = moved_to(flow, np.array([5.0, -1.0]), np.array([[0.1, 0.0], [0.0, 10.0]]))
    draws = np.asarray(jax.vmap(flow)(jr.normal(jr.key(2), (20_000, 2)))[0])
    scale = np.diag([0.1, 10.0])
    np.testing.assert_allclose(draws.mean(axis=0), [5.03, 2.0], atol=0.3)
    np.testing.assert_allclose(np.cov(draws.T), scale @ np.linalg.inv(precision) @ scale, rtol=0.1, atol=0.05)


@pytest.mark.stat
def test_a_fitted_flow_has_the_widths_of_a_curved_ridge():
    """A bent, skewed density whose moments a grid gives: the ELBO alone would prefer a flow that is too narrow.

    40,000 draws: a standard error of 0.4 % of each width, so that 4 % are ten of them; the rest is for the surface's own
    error, gradients having noise.
    """

    def log_density(u):
        return -0.5 * u[0] ** 2 - 3.0 * (u[1] - 0.4 * u[0] ** 2) ** 2

    rng = np.random.default_rng(0)
    u = rng.standard_normal((1_500, 2)) * np.array([1.3, 1.0])
    gradient = np.asarray(jax.vmap(jax.grad(log_density))(jnp.asarray(u, jnp.float32)), float)
    surface = through_gradients(u, gradient + 0.05 * rng.standard_normal(u.shape))
    flow = ThetaFlow(jnp.zeros(2), jnp.ones(2), layers=4, width=16, depth=1, key=jr.key(0))
    flow = fitted(flow, surface, key=jr.key(1))
    draws = np.asarray(jax.vmap(flow)(jr.normal(jr.key(2), (40_000, 2)))[0], float)

    axis = np.linspace(-5, 9, 701)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.exp(log_density(grid.T))
    weight /= weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 0.05
    np.testing.assert_allclose(draws.std(axis=0) / sd, 1.0, atol=0.04)


def test_a_surface_that_leads_astray_is_not_followed(monkeypatch):
    """A fit to gradients that lie: fresh draws show a lower ELBO, and the mode's Gaussian is kept."""
    model = random_walk()
    series = make_series(2 + np.random.default_rng(0).standard_normal((41, 1)))
    guide = nmax.LookaheadGuide().build(model, series, key=jr.key(0))
    scores = Scores(guide, series, Windows(40, 40))
    mode = _start.newton(scores, _start.PriorDensity(model.parameters), np.array([2.0, 0.0]), 8, key=jr.key(1))
    astray = moved_to(guide.theta_flow, np.full(2, 20.0), np.eye(2))
    monkeypatch.setattr(_natural, "fitted", lambda flow, surface, *, key: astray)
    settled = _natural.settle(scores, guide.theta_flow, mode, 6, key=jr.key(2))
    assert settled.refused
    np.testing.assert_allclose(settled.flow.head.loc, mode.theta, rtol=1e-5)


@pytest.mark.extra
def test_where_a_bent_surface_leads_astray_a_plainer_one_is_followed(monkeypatch):
    """Only fits to a surface of the highest degree lie: the quadratic one's is taken, and no round is refused."""
    model = random_walk()
    series = make_series(2 + np.random.default_rng(0).standard_normal((41, 1)))
    guide = nmax.LookaheadGuide().build(model, series, key=jr.key(0))
    scores = Scores(guide, series, Windows(40, 40))
    mode = _start.newton(scores, _start.PriorDensity(model.parameters), np.array([2.0, 0.0]), 8, key=jr.key(1))
    astray, seen = moved_to(guide.theta_flow, np.full(2, 20.0), np.eye(2)), []

    def lying(flow, surface, *, key):
        seen.append(max(map(sum, surface.exponents)))
        return astray if seen[-1] == DEGREES[0] else fitted(flow, surface, key=key)

    monkeypatch.setattr(_natural, "fitted", lying)
    settled = _natural.settle(scores, guide.theta_flow, mode, 6, key=jr.key(2))
    assert seen[:4] == [*DEGREES, *DEGREES]
    assert not settled.refused


def test_a_few_draws_that_are_not_finite_end_nothing():
    last = np.array([1.0, np.nan, 1.2, 0.9])
    assert not _natural._fell(last, last + 0.1)
    assert _natural._fell(last, last - 5.0)
    assert _natural._fell(last, np.full(4, np.nan))
    assert not _natural._fell(np.full(4, np.nan), np.full(4, np.nan))
    rows = np.ones((24, 5))
    rows[3] = np.nan
    assert np.isfinite(_natural._mean_of_finite(rows)).all()
    assert np.isnan(_natural._mean_of_finite(np.full((24, 5), np.nan))).all()


def test_weighted_scores_are_the_gradient_of_a_log_mean():
    model = random_walk()
    series = make_series(2 + np.random.default_rng(0).standard_normal((41, 1)))
    guide = nmax.LookaheadGuide(block=8, buffer=4).build(model, series, key=jr.key(0))
    scores = Scores(guide, series, Windows(40, 8))
    theta, number = np.array([2.0, 0.1]), np.array([1, 3])
    value, gradient = scores.weighted(theta, number, 3, key=jr.key(1))
    step = 1e-2
    for k in range(2):
        up, down = (scores.weighted(theta + s * step * np.eye(2)[k], number, 3, key=jr.key(1))[0] for s in (1, -1))
        np.testing.assert_allclose((up - down) / (2 * step), gradient[:, k], rtol=0.05, atol=0.02)


def test_skew_starts_at_the_identity_and_knows_its_slope():
    layer = Skew(state=2, side=3, theta=0)
    side = Side(
        jnp.asarray(np.random.default_rng(0).standard_normal((5, 3)), jnp.float32), jnp.zeros(0), jnp.ones((5, 2), bool)
    )
    z = jnp.asarray(np.random.default_rng(1).standard_normal((5, 2)), jnp.float32)
    np.testing.assert_allclose(layer(z, side)[0], z, atol=1e-6)
    moved = (0.3 * jr.normal(jr.key(0), (3, 4)), jnp.array([0.2, -0.1, 0.3, -0.4]))
    bent = eqx.tree_at(lambda layer: (layer.weight, layer.bias), layer, moved)
    slope = jax.jacfwd(lambda v: bent(v.reshape(5, 2), side)[0].ravel())(z.ravel())
    np.testing.assert_allclose(bent(z, side)[1].ravel(), jnp.log(jnp.diagonal(slope)), atol=1e-4)


def test_settings_are_checked():
    for wrong in ({"block": 0}, {"buffer": -1}, {"layers": -1}, {"starts": 0}, {"weighted": 0}, {"width": 2.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            nmax.LookaheadGuide(**wrong)
    with pytest.raises(TypeError, match="buffer"):
        nmax.LookaheadGuide(bufer=3)


def test_a_pivot_left_by_rounding_is_none():
    """Rank one but for rounding: the factor must stay that of the rank-one matrix, not divide by the root of an error."""
    a = jnp.array([[1.0, 1.0, 1.0], [1.0, 1.0 + 1e-7, 1.0 - 3e-4], [1.0, 1.0 - 3e-4, 2.0]], jnp.float32)
    root = _small.pack(_small.semidefinite_cholesky(_small.unpack(a)))
    assert float(root[1, 1]) == 0.0
    np.testing.assert_allclose(root @ root.T, a, atol=1e-3)


@pytest.mark.extra
def test_references_begun_at_a_known_one_are_those_found_from_nothing():
    model = nmax.models.lotka_volterra()
    y = nmax.simulate(model, {"growth": 0.5, "predation": 0.0025, "death": 0.3}, 60, key=jr.key(3), observe_every=10).y
    series = make_series(y)
    guide = nmax.LookaheadGuide().build(model, series, key=jr.key(0))
    known = around(jnp.zeros((61, 2)), guide.spread)
    cold = Scores(dataclasses.replace(guide, known=known), series, Windows(60, 60))
    theta = np.log([0.5, 0.0025, 0.3])
    warm = cold.around(theta, key=jr.key(1))
    assert bool(warm.guide.warm)
    points = theta + 0.05 * np.random.default_rng(0).standard_normal((8, 3))
    number = np.zeros(8, np.int64)
    one, two = (scores(points, number, key=jr.key(2)) for scores in (cold, warm))
    np.testing.assert_allclose(two[0], one[0], atol=0.02)
    np.testing.assert_allclose(two[1], one[1], rtol=0.02, atol=0.2)


def test_nowhere_to_start_is_said(monkeypatch):
    model = random_walk()
    series = make_series(2 + np.random.default_rng(0).standard_normal((41, 1)))
    guide = nmax.LookaheadGuide().build(model, series, key=jr.key(0))
    monkeypatch.setattr(_start, "_heights", lambda scores, prior, points, *rest, **options: np.full(len(points), -np.inf))
    monkeypatch.setattr(_start, "_adam", lambda scores, prior, points, *rest, **options: points)
    with pytest.raises(RuntimeError, match="finite somewhere"):
        _start.modes(Scores(guide, series, Windows(40, 40)), np.zeros(2), 8, key=jr.key(0))


@pytest.mark.slow
def test_rival_modes_are_found_and_compared():
    """The data know a parameter up to its sign; the prior prefers the positive one by 2 nats."""
    model = nmax.StateSpaceModel(
        prior={"root": dist.Normal(0.5, 1.0)},
        initial=lambda theta: jnp.zeros(1),
        transition=lambda x, theta: dist.Normal(0.5 * x, 0.5).to_event(1),
        observation=lambda x, theta: dist.Normal(x + theta["root"] ** 2 - 4.0, 0.5).to_event(1),
    )
    y = nmax.simulate(model, {"root": 2.0}, 60, key=jr.key(0)).y
    fit = nmax.fit(model, y, key=jr.key(0), progress=False)
    assert [round(float(mode.theta[0]), 0) for mode in fit.modes] == [2.0, -2.0]
    assert abs(fit.modes[0].elbo - fit.modes[1].elbo - 2.0) < 0.3
    assert "rival mode at root = -2.0" in str(fit.summary())
    assert (fit.theta(100, key=jr.key(1))["root"] > 0).all()
