"""Exact laws of the windowed ELBO, the noise held fixed."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import assert_mean, random_walk
from numpyro.distributions import constraints

import nmax
from nmax._noise import noise
from nmax._objective import Elbo, draw_elbo, window_elbo
from nmax.data import Windows, make_series

LENGTH = 23


def trained_looking(guide, scale=0.1):
    """A guide whose weights have left the identity, as after some training."""
    params, rest = eqx.partition(guide, eqx.is_inexact_array)
    head = params.theta_flow.head
    leaves, tree = jax.tree.flatten(params)
    leaves = [leaf + scale * jr.normal(jr.key(n), leaf.shape) for n, leaf in enumerate(leaves)]
    params = eqx.tree_at(lambda g: g.theta_flow.head, jax.tree.unflatten(tree, leaves), head)
    return eqx.combine(params, rest)


def with_gaps(y, share=0.4, seed=0):
    y = np.array(y)
    y[np.random.default_rng(seed).uniform(size=y.shape) < share] = np.nan
    return y


def problem(name):
    """A model, data with every kind of gap, and a guide."""
    positive = (constraints.positive, constraints.real)
    cases = {
        "d=1": (random_walk(), 1),
        "d=2, one component unobserved": (random_walk(d=2, observed=1), 1),
        "d=2, constrained": (random_walk(d=2, support=positive), 2),
        "d=3, inputs": (random_walk(d=3, with_inputs=True), 3),
        "d=2, one exactly observed, with gaps": (random_walk(d=2, exactly_observed={1: 1}, observed=1), 2),
    }
    model, columns = cases[name]
    y = with_gaps(2 + np.random.default_rng(1).standard_normal((LENGTH + 1, columns)))
    inputs = np.random.default_rng(2).standard_normal((LENGTH + 1, 1)) if "inputs" in name else None
    return model, make_series(y, inputs)


CASES = [
    "d=1",
    "d=2, one component unobserved",
    "d=2, constrained",
    "d=3, inputs",
    "d=2, one exactly observed, with gaps",
]


def seldom(cases):
    """What compiles for long and differs from its neighbours in little: left to `make test-all`."""
    return [pytest.param(*case, marks=pytest.mark.extra) for case in cases]


HARDER = CASES[2:]  # for the look-ahead, which takes long to compile without optimisation


def build(model, series, kind):
    """The paper's guide, with or without order reversal, or the look-ahead in blocks that do not fit the windows."""
    if kind == "look-ahead":
        settings = nmax.LookaheadGuide(layers=2, length=2, width=8, block=7, buffer=3, theta_layers=1, iterations=3)
        return trained_looking(settings.build(model, series, key=jr.key(3)))
    reverse = kind == "reversed"
    settings = nmax.MovingAverageGuide(layers=3, length=2, width=8, radius=2, reverse=reverse, theta_layers=int(reverse))
    return trained_looking(settings.build(model, series, key=jr.key(3)))


def elbo_of(guide, series, windows, number, key):
    """The estimate from one window of one path, whose noise depends on the step alone."""
    left, right = guide.reach
    window = windows.at(jnp.int32(number))
    z = noise(key, window.start - 1 - left, windows.width + 1 + left + right, len(guide.drawn))
    e = jnp.array([0.3, -0.7])
    return window_elbo(guide, series, windows, window, e, z)


@pytest.mark.parametrize(
    ("name", "kind", "width"),
    [
        *itertools.product(CASES[1:], ["plain"], [1]),
        *itertools.product(CASES[1:], ["reversed"], [5]),
        *seldom([(CASES[0], "plain", 1), (CASES[0], "reversed", 5)]),
        *seldom(itertools.product(CASES, ["plain"], [5])),
        *seldom(itertools.product(CASES, ["reversed"], [1])),
        *seldom(itertools.product(HARDER[:2], ["look-ahead"], [5])),
        (HARDER[2], "look-ahead", 5),
    ],
)
def test_windows_average_to_the_series(name, kind, width, key):
    """The average over all windows, by their probabilities, is the ELBO of the whole: parts, total and gradient."""
    model, series = problem(name)
    guide = build(model, series, kind)
    params, rest = eqx.partition(guide, eqx.is_inexact_array)
    whole, windows = Windows(LENGTH, LENGTH), Windows(LENGTH, width)
    shares = np.asarray(windows.at(jnp.arange(windows.count)).size) / LENGTH

    @eqx.filter_jit
    def value_and_gradient(params, windows, number):
        def total(params):
            elbo = elbo_of(eqx.combine(params, rest), series, windows, number, key)
            return elbo.total, elbo

        return jax.value_and_grad(total, has_aux=True)(params)

    (_, exact), exact_gradient = value_and_gradient(params, whole, jnp.int32(0))
    every = [value_and_gradient(params, windows, jnp.int32(n)) for n in range(windows.count)]
    for part in ("theta", "dynamics", "data", "entropy", "balance", "total"):
        mean = sum(p * getattr(elbo, part) for p, ((_, elbo), _) in zip(shares, every, strict=True))
        np.testing.assert_allclose(mean, getattr(exact, part), rtol=1e-5, atol=1e-4)
    gradients = [jax.flatten_util.ravel_pytree(g)[0] for _, g in every]
    mean = sum(p * g for p, g in zip(shares, gradients, strict=True))
    exact_gradient = jax.flatten_util.ravel_pytree(exact_gradient)[0]
    error = np.linalg.norm(mean - exact_gradient) / np.linalg.norm(exact_gradient)
    assert error < 1e-5


def test_elbo_is_the_log_ratio_written_out(key):
    """Against a plain sum over steps, term by term, with the densities by NumPyro and NaN left out by hand."""
    model, series = problem("d=2, constrained")
    guide, windows = build(model, series, "plain"), Windows(LENGTH, LENGTH)
    elbo = elbo_of(guide, series, windows, 0, key)
    e = jnp.array([0.3, -0.7])
    flat, log_q_theta = guide.theta(e)
    theta = model.parameters.constrain(flat)
    left, right = guide.reach
    z = noise(key, -left, LENGTH + 1 + left + right, 2)
    x, log_q, *_ = guide.path(theta, e, z, series, jnp.int32(0))
    np.testing.assert_allclose(x[0], [2.0, 2.0])
    assert (np.asarray(x[:, 0]) > 0).all()
    assert log_q[0] == 0
    level, sd = theta["level"], theta["noise"]
    dynamics = sum(
        float(dist.Normal(level + 0.8 * (x[i - 1] - level), sd).log_prob(x[i]).sum()) for i in range(1, LENGTH + 1)
    )
    data = 0.0
    for i in range(LENGTH + 1):
        for k in range(2):
            if series.observed[i, k]:
                data += float(dist.Normal(x[i, k], 0.5).log_prob(series.values[i, k]))
    prior = dist.Normal(2.0, 1.0).log_prob(level) + dist.LogNormal(0.0, 0.5).log_prob(sd) + flat[1]
    np.testing.assert_allclose(elbo.dynamics, dynamics, rtol=1e-5)
    np.testing.assert_allclose(elbo.data, data, rtol=1e-5)
    np.testing.assert_allclose(elbo.entropy, -jnp.sum(log_q[1:]), rtol=1e-5)
    np.testing.assert_allclose(elbo.theta, prior - log_q_theta, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *itertools.product(CASES[1:3], ["reversed"]),
        *seldom(itertools.product([CASES[0], *CASES[3:]], ["reversed"])),
        *seldom(itertools.product(HARDER, ["look-ahead"])),
    ],
)
def test_log_q_of_a_path_is_the_density_of_its_drawn_entries(name, kind, key):
    """log q(x | θ) from the flow against the change of variables by autodiff, over the whole series."""
    model, series = problem(name)
    guide = build(model, series, kind)
    left, right = guide.reach
    e = jnp.array([0.3, -0.7])
    theta = model.parameters.constrain(guide.theta(e)[0])
    z = noise(key, 1 - left, LENGTH + left + right, len(guide.drawn))
    live = np.asarray(guide.live(series, jnp.arange(1, LENGTH + 1)))
    free = np.flatnonzero(live)
    inner = z[left : left + LENGTH].ravel()

    def path(values):
        filled = inner.at[free].set(values).reshape(LENGTH, -1)
        whole = z.at[left : left + LENGTH].set(filled)
        return guide.path(theta, e, whole, series, jnp.int32(1))

    x, log_q, *_ = path(inner[free])
    jacobian = jax.jit(jax.jacobian(lambda v: path(v)[0][:, np.array(guide.drawn)].ravel()[free]))(inner[free])
    expected = dist.Normal(0, 1).log_prob(inner[free]).sum() - jnp.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(log_q.sum(), expected, rtol=1e-4, atol=1e-3)
    if model.exactly_observed:
        shown = np.asarray(series.observed[1:, 1])
        np.testing.assert_array_equal(x[shown, 1], series.values[1:][shown, 1])
        assert 0 < (~live[:, 1]).sum() < LENGTH


@pytest.mark.stat
def test_mirrored_draws_and_spread_windows_are_unbiased(key):
    """Mean of many estimates against the whole-series ELBO with independent draws; false alarm 1e-6."""
    model, series = problem("d=1")
    guide, windows, whole = build(model, series, "plain"), Windows(LENGTH, 5), Windows(LENGTH, LENGTH)

    def estimate(key, windows, count):
        shift_key, draw_key = jr.split(key)
        shift = jr.randint(shift_key, (), 0, LENGTH)
        return draw_elbo(guide, series, windows, count, shift=shift, key=draw_key).total

    one, two = jr.split(key)
    windowed = jax.jit(jax.vmap(lambda k: estimate(k, windows, 3)))(jr.split(one, 4_000))
    exact = jax.jit(jax.vmap(lambda k: estimate(k, whole, 1)))(jr.split(two, 4_000))
    assert_mean(np.asarray(windowed - exact, np.float64), 0.0, false_alarm=1e-6)


def test_the_total_is_the_sum_of_the_parts():
    parts = Elbo(*(jnp.float32(v) for v in (1.0, 2.0, 4.0, 8.0, 16.0)))
    assert parts.total == 31
