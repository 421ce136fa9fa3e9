"""Weights of windows: even where q is exact, telling where it was damaged, and good enough to repair it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from test_lookahead import linear_model, with_gaps

import nmax
from nmax._strip import path_summary, pooled, strip
from nmax.data import make_series
from nmax.guides import DamagedGuide
from nmax.reference import kalman_smoother


@pytest.fixture(scope="module")
def linear():
    """A linear Gaussian model seen with gaps, a look-ahead guide in blocks, and the exact smoother."""
    model, exact = linear_model(2, observed=1)
    y = with_gaps(nmax.simulate(model, {"unused": 0.0}, 400, key=jr.key(1)).y, 0.3)
    series = make_series(y)
    guide = nmax.LookaheadGuide(layers=0, block=64, buffer=40, theta_layers=0).build(model, series, key=jr.key(0))
    return guide, series, kalman_smoother(exact, y)


def weighed(guide, series, **options):
    starts = np.arange(1, series.length + 1, 32)
    return strip(guide, series, starts, 32, thetas=2, draws=32, key=jr.key(2), **options)


def test_windows_of_an_exact_guide_weigh_the_same(linear):
    guide, series, _ = linear
    found = weighed(guide, series)
    assert found.effective.min() > 0.999
    assert not found.bad.any()
    assert found.stretches() == ()
    assert "none is bad" in str(found)
    assert found.stop[-1] == series.length + 1


def test_damage_is_found_where_it_is(linear, tmp_path):
    guide, series, _ = linear
    found = weighed(DamagedGuide(guide, 120, 200, 1.5), series)
    hurt = (found.start < 200) & (found.stop > 120)
    assert found.bad[(found.start >= 120) & (found.stop <= 200)].all()
    assert not found.bad[~hurt].any()
    assert "bad, at steps" in str(found)
    found.plot(tmp_path / "strip.png")
    assert (tmp_path / "strip.png").stat().st_size > 5_000


def test_a_damaged_guide_is_still_a_density():
    """log q is that of the noise less the logarithm of the Jacobian, by autodiff."""
    model, _ = linear_model(2, observed=1)
    series = make_series(nmax.simulate(model, {"unused": 0.0}, 8, key=jr.key(1)).y)
    guide = nmax.LookaheadGuide(layers=0, theta_layers=0).build(model, series, key=jr.key(0))
    hurt = DamagedGuide(guide, 3, 6, 1.7)
    theta = guide.model.parameters.constrain(jnp.zeros(1))
    left, _ = hurt.reach
    z = jr.normal(jr.key(3), (left + 9, 2))

    def steps(own):
        return (
            hurt.path(theta, jnp.zeros(1), z.at[left + 1 :].set(own.reshape(-1, 2)), series, jnp.int32(0)).x[1:].reshape(-1)
        )

    own = z[left + 1 :].reshape(-1)
    expected = jnp.sum(-0.5 * own**2 - 0.5 * jnp.log(2 * jnp.pi)) - jnp.linalg.slogdet(jax.jit(jax.jacobian(steps))(own))[1]
    found = jnp.sum(jax.jit(lambda z: hurt.path(theta, jnp.zeros(1), z, series, jnp.int32(0)).log_q[1:])(z))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.extra
@pytest.mark.stat
def test_weights_repair_a_summary(linear):
    """Scales 1.15 too wide everywhere: raw widths are off by 15 %, corrected ones by less than half of that."""
    guide, series, exact = linear
    hurt = DamagedGuide(guide, 0, series.length + 1, 1.15)
    options = {"width": 16, "thetas": 8, "draws": 128, "key": jr.key(4)}
    found = path_summary(hurt, series, 0, series.length + 1, **options)
    sd = np.sqrt(np.diagonal(exact.covariance, axis1=1, axis2=2))[1:]
    assert found.mean.shape == (series.length + 1, 2)
    raw = path_summary(guide, series, 100, 140, **options)
    np.testing.assert_allclose(raw.sd, sd[99:139], rtol=0.25)  # 1,024 draws: an error of 2 % each
    assert abs(np.mean(raw.sd / sd[99:139]) - 1) < 0.02
    fixed = found.corrected[1:]
    assert fixed.mean() > 0.5
    ratio = np.mean(found.sd[1:][fixed] / sd[fixed])
    assert 0.95 < ratio < 1.07
    assert (found.quantiles[0] <= found.quantiles[1]).all()
    np.testing.assert_allclose(found.mean[0], 1.0)


def test_weights_at_each_theta_add_up_to_the_same():
    log_weight = np.array([[[0.0, 0.0, 0.0, 0.0], [50.0, 50.0, 50.0, 50.0]]])
    np.testing.assert_allclose(pooled(log_weight).weight, 1 / 8)


@pytest.mark.extra
def test_a_guide_without_a_forecast_of_its_own_is_weighed_with_a_look_ahead():
    """The paper's guide, at the exact posterior by construction: independent steps, seen one by one."""
    model = nmax.StateSpaceModel(
        prior={"unused": dist.Normal(0.0, 1.0)},
        initial=lambda theta: jnp.zeros(1),
        transition=lambda x, theta: dist.Normal(0.0 * x, 1.0).to_event(1),
        observation=lambda x, theta: dist.Normal(x, 1e3).to_event(1),
    )
    _, y = nmax.simulate(model, {"unused": 0.0}, 60, key=jr.key(5))
    series = make_series(y)
    guide = nmax.MovingAverageGuide(layers=1, length=2, width=8).build(model, series, key=jr.key(0))
    zero = jax.tree.map(lambda a: jnp.zeros_like(a) if eqx.is_inexact_array(a) else a, guide)
    unit = eqx.tree_at(lambda g: g.theta_flow, zero, guide.theta_flow)
    found = strip(unit, series, np.array([1, 31]), 30, thetas=2, draws=32, key=jr.key(1))
    z = np.asarray(unit.path({"unused": 0.0}, jnp.zeros(1), jnp.ones((20 + sum(unit.reach), 1)), series, jnp.int32(5)).x)
    scale = float(z[10, 0])
    assert found.effective.min() > (0.99 if abs(scale - 1) < 0.02 else 0.0)
    assert np.isfinite(found.khat).all()
