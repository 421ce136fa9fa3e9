"""What usually goes wrong: each case is recognised, with a remedy; sound models are left alone; the FAQ knows them all."""

import ast
import re
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import random_walk
from numpyro.distributions import constraints

import nmax
from nmax._validate import check_model
from nmax.checks import DO_NOT_TRUST, TRUST, before
from nmax.checks._catalogue import by_catalogue, by_prior, by_rates, by_support, stretches
from nmax.data import as_table, make_series

FAQ = (Path(__file__).resolve().parents[1] / "docs" / "errors.md").read_text(encoding="utf-8")
Y = 2 + np.random.default_rng(0).standard_normal((60, 1)).cumsum(axis=0)
PRIOR = {"level": dist.Normal(0.0, 10.0), "noise": dist.LogNormal(0.0, 1.0)}


def walk(**parts):
    """A sound model of `Y`, with parts replaced by unsound ones."""
    sound = {
        "prior": PRIOR,
        "initial": lambda theta: theta["level"][None],
        "transition": lambda x, theta: dist.Normal(x, theta["noise"]).to_event(1),
        "observation": lambda x, theta: dist.Normal(x, 0.5).to_event(1),
    }
    return nmax.StateSpaceModel(**(sound | parts))


def seen(scale):
    return lambda x, theta: dist.Normal(x, scale).to_event(1)


def coded():
    y = Y.copy()
    y[[3, 7, 20]] = -999.0
    return y


def half_empty():
    observation = lambda x, theta: dist.Normal(jnp.concatenate([x, x]), 0.5).to_event(1)  # noqa: E731
    return walk(observation=observation), np.concatenate([Y, np.full_like(Y, np.nan)], axis=1)


SPARE = {**PRIOR, "spare": dist.Normal(0.0, 1.0)}
WARNED = {  # case -> model and data, what it is about, and the phrase by which the FAQ knows it
    "spare parameter": (lambda: (walk(prior=SPARE), Y), "unused parameter", "the model does not use"),
    "transition ignores x": (
        lambda: (walk(transition=lambda x, theta: dist.Normal(jnp.zeros(1), theta["noise"]).to_event(1)), Y),
        "transition",
        "the transition ignores the state before",
    ),
    "scale with a normal prior": (
        lambda: (walk(prior={**PRIOR, "noise": dist.Normal(0.1, 1.0)}), Y),
        "prior",
        "densities of the model are NaN at",
    ),
    "start far away": (
        lambda: (walk(initial=lambda theta: jnp.array([-500.0])), Y),
        "start",
        "is far from the first observation",
    ),
    "large units": (lambda: (walk(), 1e6 * Y), "start", "is far from the first observation"),
    "small units": (
        lambda: (walk(observation=lambda x, theta: dist.Normal(x, theta["noise"]).to_event(1)), 1e-6 * Y),
        "scale",
        "the model is too wide for column",
    ),
    "rough series": (lambda: (walk(), 1e5 * (Y - Y[0])), "scale", "the model is too narrow for column"),
    "noise of nearly zero": (lambda: (walk(observation=seen(1e-6)), Y), "observation noise", "as good as none"),
    "lost digits": (lambda: (walk(prior={**PRIOR, "level": dist.Normal(1e6, 10.0)}), 1e6 + Y), "digits", "loses digits"),
    "a code for missing": (lambda: (walk(), coded()), "missing values", "the code for a missing value?"),
    "an empty column": (half_empty, "empty column", "nothing was observed in column"),
}


def found(model, data):
    table = as_table(data)
    series = make_series(table.y, table.inputs)
    check_model(model, series)
    return before(model, table, series)


@pytest.mark.parametrize("name", WARNED)
def test_what_is_likely_wrong_is_said_with_a_remedy(name):
    make, about, phrase = WARNED[name]
    hits = [finding for finding in found(*make()) if finding.about == about]
    assert len(hits) == 1
    assert phrase in hits[0].text
    assert hits[0].remedy
    assert phrase in FAQ


def slept(x, theta):
    return dist.Normal(x, 0.0 * theta["noise"]).to_event(1)


REFUSED = {  # case -> parts of the model, data, and the phrase by which the FAQ knows it
    "discrete state": (
        {"transition": lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1)},
        Y,
        "must be a continuous distribution",
    ),
    "transition of positive numbers": (
        {"transition": lambda x, theta: dist.Exponential(jnp.exp(-x)).to_event(1)},
        Y,
        "must lie within that of the transition",
    ),
    "fractions as counts": (
        {"observation": lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1)},
        np.abs(Y),
        "must lie in the support of `observation`",
    ),
    "negative numbers as counts": (
        {"observation": lambda x, theta: dist.NegativeBinomial2(jnp.exp(x), 2.0).to_event(1)},
        np.round(Y) - 100.0,
        "must lie in the support of `observation`",
    ),
    "no observation noise": (
        {"observation": lambda x, theta: dist.Normal(x, 0.0 * theta["noise"]).to_event(1)},
        Y,
        "A column that shows a state without error has no density",
    ),
    "a scale of zero, written out": ({"observation": seen(0.0)}, Y, "NumPyro refuses the distribution that"),
    "no noise in the dynamics": ({"transition": slept}, Y, "A component that moves without noise has no density"),
    "negative scale": (
        {"prior": {**PRIOR, "noise": dist.Normal(-3.0, 1.0)}},
        Y,
        "is negative: give it a positive prior",
    ),
    "forgotten event": ({"transition": lambda x, theta: dist.Normal(x, 1.0)}, Y, "Did you forget `.to_event(1)`?"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_certainly_wrong_is_refused(name):
    parts, y, phrase = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(phrase)):
        nmax.fit(walk(**parts), y, key=jr.key(0), progress=False)
    assert phrase in FAQ


def test_supports_that_agree_are_accepted():
    positive = {"support": constraints.positive, "initial": lambda theta: jnp.exp(theta["level"])[None]}
    check_model(
        walk(transition=lambda x, theta: dist.LogNormal(jnp.log(x), theta["noise"]).to_event(1), **positive), series(Y)
    )
    check_model(walk(observation=lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1)), series(np.round(np.abs(Y))))
    check_model(walk(observation=lambda x, theta: dist.Bernoulli(logits=x).to_event(1)), series((Y > 2) * 1.0))


def series(y):
    return make_series(as_table(y).y)


SOUND = {
    "ar1": (nmax.models.ar1, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}),
    "lotka_volterra": (nmax.models.lotka_volterra, {"growth": 0.5, "predation": 0.0025, "death": 0.3}),
    "fitzhugh_nagumo": (
        nmax.models.fitzhugh_nagumo,
        {"rate": 2.0, "current": 1.0, "recovery": 1.5, "noise_v": 0.5, "noise_w": 0.3},
    ),
    "stochastic_volatility": (
        nmax.models.stochastic_volatility,
        {"trend": 0.0005, "level": -0.2, "reversion": 0.033, "volatility": 0.33, "z0": -6.0},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_models_are_left_alone(name):
    make, theta = SOUND[name]
    model = make()
    _, y = nmax.simulate(model, theta, 200, key=jr.key(1))
    assert found(model, y) == []
    y[np.arange(len(y)) % 10 > 0] = np.nan  # nothing compiles anew
    assert found(model, y) == []


def test_long_series_are_looked_at_in_stretches():
    y = np.random.default_rng(0).standard_normal((300_000, 1)).cumsum(axis=0)
    assert found(walk(), y) == []
    assert stretches(300) == [(0, 300)]
    assert all(0 <= start < stop <= 100_000 for start, stop in stretches(100_000))


def flow(rate, dt, turn=0.0, rows=50):
    """Slopes of Euler steps of a spiral with this rate and angular velocity."""
    return np.repeat((np.eye(2) + dt * np.array([[-rate, -turn], [turn, -rate]]))[None], rows, axis=0)


def test_steps_are_held_against_the_flow():
    assert by_rates(flow(1.0, 0.1), 0.1, 300)[0] == []
    assert by_rates(flow(0.1, 0.1, turn=1.0), 0.1, 300)[0] == []
    [unstable], _ = by_rates(flow(30.0, 0.1), 0.1, 300)
    assert unstable.level == DO_NOT_TRUST
    assert "the steps are unstable in 100% of the rows" in unstable.text
    assert "`dt=0.00667`, 15 times smaller, with 14 rows of NaN" in unstable.remedy
    [over], _ = by_rates(flow(9.0, 0.1), 0.1, 300)
    assert "over within a step" in over.text
    [still], _ = by_rates(flow(1e-6, 0.1), 0.1, 300)
    assert still.level == TRUST
    assert "does nothing within the series" in still.text
    assert by_rates(flow(0.0, 0.1), 0.1, 300)[0] == []  # a random walk
    assert all(
        phrase in FAQ for phrase in ("the steps are unstable in", "over within a step", "does nothing within the series")
    )


def test_states_that_leave_their_support_are_counted():
    model, steps = random_walk(), 10_000
    fine = np.zeros((steps, 1), bool)
    assert by_support(model, fine, fine[:, 0]) == []
    some = np.arange(steps) % 100 == 0
    [left] = by_support(model, some[:, None], fine[:, 0])
    assert "one step in 100 takes x out of its support" in left.text
    [broken] = by_support(model, fine, some)
    assert "one step in 100 leads to a state where the transition is NaN" in broken.text
    assert all(phrase in FAQ for phrase in ("out of its support", "leads to a state where the transition is NaN"))


@pytest.fixture(scope="module")
def hasty():
    """Noise above zero that swings to and fro, fitted by an equation whose rate the prior holds for ten times slower."""
    noise = np.random.default_rng(0).standard_normal(151)
    y = np.abs(1.0 + 0.6 * (noise[1:] - 0.3 * noise[:-1]))
    model = nmax.SDE(
        prior={"rate": dist.LogNormal(0.0, 0.5), "noise": dist.LogNormal(0.5, 1.0)},
        initial=lambda theta: jnp.array([float(abs(y[0]))]),
        drift=lambda x, theta: theta["rate"] * (1.0 - x),
        diffusion=lambda x, theta: theta["noise"][None] ** 2,
        dt=0.1,
        observation=seen(0.1),
        support=constraints.positive,
    )
    return nmax.fit(model, y, key=jr.key(0), guide=nmax.LookaheadGuide(weighted=1, layers=0), progress=False)


def test_a_fit_with_several_faults_shows_them_all(hasty):
    findings, figures = by_catalogue(hasty, (), key=jr.key(1))
    assert {finding.about for finding in findings} == {"step", "support", "prior"}
    assert figures["dt times the fastest rate"] > 0.8
    [edge] = [finding for finding in findings if finding.about == "prior"]
    assert "rate lies above" in edge.text
    assert "which has next to no mass there" in edge.text
    assert by_prior(hasty.guide, ("rate",), key=jr.key(1)) == []


COVERED = ["_validate", "_check", "_finite", "_fit", "_asked", "_start", "_sample", "models", "data/_series", "checks"]


def messages(name):
    """What a module raises, warns of or finds: the texts of its strings, with … for what is filled in."""
    path = Path(nmax.__file__).parent / name
    for file in sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                yield file.name, written(node.exc.args[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn" and node.args:
                yield file.name, written(node.args[0])


def written(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    return written(node.left) + written(node.right) if isinstance(node, ast.BinOp) else "…"


def test_the_faq_knows_every_message_and_no_other():
    known = re.findall("“([^”]+)”", FAQ)
    for name in COVERED:
        for file, message in messages(name):
            if message.strip("….") and not file.startswith("_before"):
                assert any(phrase in message for phrase in known), f"docs/errors.md does not know of {file}: {message}"
    files = Path(nmax.__file__).parent.rglob("*.py")
    strings = [written(node) for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))) if is_string(node)]
    for phrase in known:
        assert any(phrase.replace("∣", "|") in string for string in strings), f"nothing says “{phrase}” any more"


def is_string(node):
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
