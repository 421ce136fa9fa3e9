import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import assert_mean, random_walk

import nmax
from nmax.models import Prior
from nmax.models._observe import masked_log_prob, separable
from nmax.models._sde import cholesky

PRIORS = {
    "scalar": {"a": dist.Normal(1.0, 2.0)},
    "positive": {"a": dist.LogNormal(0.0, 1.0), "b": dist.Gamma(2.0, 3.0)},
    "vector": {"a": dist.Normal(0.0, 1.0), "b": dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2) + 0.3)},
    "independent vector": {"b": dist.HalfNormal(jnp.array([1.0, 2.0, 3.0])).to_event(1)},
    "bounded": {"b": dist.Uniform(-1.0, 3.0), "c": dist.Beta(2.0, 2.0)},
    "simplex": {"p": dist.Dirichlet(jnp.array([1.0, 2.0, 3.0]))},
    "matrix": {"m": dist.Normal(jnp.zeros((2, 3)), 1.0).to_event(2)},
}


@pytest.mark.parametrize("name", PRIORS)
def test_unconstrained_density_and_round_trip(name, key):
    prior = Prior(PRIORS[name])
    flat = prior.sample(key, 5)
    assert flat.shape == (5, prior.size)
    theta = prior.constrain(flat[0])
    assert list(theta) == list(PRIORS[name])
    np.testing.assert_allclose(prior.unconstrain(theta), flat[0], rtol=1e-3, atol=1e-3)
    density = sum(jnp.sum(PRIORS[name][k].log_prob(v)) for k, v in theta.items())
    np.testing.assert_allclose(prior.log_prob(flat[0]), density + prior.log_jacobian(flat[0]), rtol=1e-5)
    if name not in ("simplex",):  # whose coordinates are one fewer than its entries
        values = jax.jacobian(lambda f: jnp.concatenate([jnp.ravel(v) for v in prior.constrain(f).values()]))(flat[0])
        np.testing.assert_allclose(prior.log_jacobian(flat[0]), jnp.linalg.slogdet(values)[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("observed", [[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]])
@pytest.mark.parametrize("kind", ["independent", "normal", "student"])
def test_marginal_density_of_what_was_observed(kind, observed):
    loc = jnp.array([0.5, -1.0, 2.0])
    root = jnp.array([[1.0, 0.0, 0.0], [0.5, 1.2, 0.0], [-0.3, 0.4, 0.8]])
    seen = np.flatnonzero(observed)
    marginal_root = jnp.linalg.cholesky((root @ root.T)[np.ix_(seen, seen)]) if len(seen) else None
    y = jnp.array([1.0, 0.3, 0.7])
    whole, part = {
        "independent": (dist.Normal(loc, 0.7).to_event(1), lambda: dist.Normal(loc[seen], 0.7).to_event(1)),
        "normal": (
            dist.MultivariateNormal(loc, scale_tril=root),
            lambda: dist.MultivariateNormal(loc[seen], scale_tril=marginal_root),
        ),
        "student": (
            dist.MultivariateStudentT(5.0, loc, root),
            lambda: dist.MultivariateStudentT(5.0, loc[seen], marginal_root),
        ),
    }[kind]
    expected = part().log_prob(y[seen]) if len(seen) else 0.0
    assert separable(whole)
    np.testing.assert_allclose(masked_log_prob(whole, y, jnp.array(observed, bool)), expected, rtol=1e-5, atol=1e-6)


def test_other_distributions_count_in_full_or_not_at_all():
    whole = dist.Dirichlet(jnp.ones(2))
    y = jnp.array([0.4, 0.6])
    assert not separable(whole)
    np.testing.assert_allclose(masked_log_prob(whole, y, jnp.array([True, True])), whole.log_prob(y))
    assert masked_log_prob(whole, y, jnp.array([True, False])) == 0


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
def test_cholesky(d, key):
    root = jr.normal(key, (d, d))
    matrix = root @ root.T + jnp.eye(d)
    np.testing.assert_allclose(cholesky(matrix), np.linalg.cholesky(matrix), rtol=1e-4, atol=1e-5)


def test_ar1_is_the_paper_s():
    model, theta = nmax.models.ar1(), {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
    step = model.transition(jnp.array([4.0]), theta)
    np.testing.assert_allclose(step.log_prob(jnp.array([8.0])), dist.Normal(7.0, 3.0).log_prob(8.0))
    assert list(model.prior) == ["intercept", "coefficient", "noise"]


def test_lotka_volterra_is_the_paper_s():
    model, theta = nmax.models.lotka_volterra(), {"growth": 0.5, "predation": 0.0025, "death": 0.3}
    step = model.transition(jnp.array([100.0, 50.0]), theta)
    np.testing.assert_allclose(step.mean, [100 + 0.1 * (50 - 12.5), 50 + 0.1 * (12.5 - 15)], rtol=1e-6)
    expected = 0.1 * np.array([[62.5, -12.5], [-12.5, 27.5]])
    np.testing.assert_allclose(step.covariance_matrix, expected, rtol=1e-5)


def test_fitzhugh_nagumo_is_the_paper_s():
    model = nmax.models.fitzhugh_nagumo()
    theta = {"rate": 2.0, "current": 1.0, "recovery": 1.5, "noise_v": 0.5, "noise_w": 0.3}
    step = model.transition(jnp.array([2.0, 3.0]), theta)
    np.testing.assert_allclose(step.mean, [2 + 0.1 * 2 * (-8 + 2 - 3 + 1), 3 + 0.1 * (3 - 3 + 1.4)], rtol=1e-6)
    np.testing.assert_allclose(step.variance, [0.05, 0.03], rtol=1e-5)
    assert model.observation(jnp.array([2.0, 3.0]), theta).event_shape == (1,)


@pytest.mark.parametrize("elasticity", [1.0, 2.0])
def test_stochastic_volatility_is_the_paper_s(elasticity):
    model = nmax.models.stochastic_volatility(elasticity=elasticity)
    theta = {"trend": 0.1, "level": -0.2, "reversion": 0.3, "volatility": 0.4, "z0": -1.0}
    step = model.transition(jnp.array([4.0, -1.0]), theta)
    np.testing.assert_allclose(step.mean, [4.4, -1 - 0.2 + 0.3], rtol=1e-5)
    np.testing.assert_allclose(step.variance, [4.0**elasticity * np.exp(-1.0), 0.16], rtol=1e-5)
    np.testing.assert_allclose(model.initial(theta), [1.0, -1.0])


@pytest.mark.stat
def test_simulated_increments_have_the_model_s_moments(key):
    """Mean and variance of 20,000 standardised increments; false alarm 1e-6 each."""
    theta = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
    x, y = nmax.simulate(nmax.models.ar1(), theta, 20_000, key=key)
    assert x.shape == y.shape == (20_001, 1)
    assert x[0] == 10
    step = (x[1:] - 5 - 0.5 * x[:-1]) / 3
    error = y - x
    for z in (step, error):
        assert_mean(z, 0.0)
        assert_mean(z**2, 1.0)


def test_simulate_observes_what_is_asked(key):
    theta = {"growth": 0.5, "predation": 0.0025, "death": 0.3}
    _, y = nmax.simulate(nmax.models.lotka_volterra(), theta, 50, key=key, observe_every=10)
    np.testing.assert_array_equal(np.isfinite(y).all(axis=1), np.arange(51) % 10 == 0)
    theta = {"trend": 0.0, "level": -0.5, "reversion": 0.1, "volatility": 0.1, "z0": -5.0}
    x, y = nmax.simulate(nmax.models.stochastic_volatility(start=4.0), theta, 30, key=key)
    np.testing.assert_array_equal(y[:, 0], x[:, 0])


def test_simulate_with_inputs_and_exact_columns(key):
    model = random_walk(d=2, with_inputs=True, exactly_observed={0: 1}, observed=1)
    inputs = np.zeros((11, 1))
    inputs[5] = 100.0
    x, y = nmax.simulate(model, {"level": 2.0, "noise": 0.1}, 10, key=key, inputs=inputs)
    assert y.shape == (11, 2)
    np.testing.assert_array_equal(y[:, 1], x[:, 0])
    assert x[5, 0] > 90 > x[4, 0]  # row i of the inputs enters the step that produces x_i


def test_simulate_refuses_nonsense(key):
    model = nmax.models.ar1()
    theta = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
    with pytest.raises(ValueError, match=r"missing: \['noise'\], unknown: \['nois'\]"):
        nmax.simulate(model, {"intercept": 5.0, "coefficient": 0.5, "nois": 3.0}, 10, key=key)
    with pytest.raises(ValueError, match="`length` must be a whole number"):
        nmax.simulate(model, theta, 0, key=key)
    with pytest.raises(ValueError, match="must stay finite"):
        nmax.simulate(model, theta | {"coefficient": 1e30}, 10, key=key)
    with pytest.raises(ValueError, match="must have `length` . 1 = 11 rows"):
        nmax.simulate(model, theta, 10, key=key, inputs=np.zeros((3, 1)))
