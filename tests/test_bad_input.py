"""What a user can get wrong: refused before work starts, in words that say what must hold, what came, what to do."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from helpers import random_walk
from numpyro.distributions import constraints

import nmax

Y = 2 + np.random.default_rng(0).standard_normal((30, 1))


@pytest.fixture(autouse=True)
def no_work_may_start(monkeypatch):
    def started(*args, **kwargs):
        raise AssertionError("work started")

    monkeypatch.setattr("nmax._fit.train", started)
    monkeypatch.setattr("nmax._fit.locate", started)
    monkeypatch.setattr("nmax._fit.pretrain_guide", started)


def fit(y=Y, model=None, key=None, **options):
    return nmax.fit(model or random_walk(), y, key=jr.key(0) if key is None else key, progress=False, **options)


def changed(**parts):
    base = random_walk()
    given = {name: getattr(base, name) for name in ("prior", "initial", "transition", "observation", "support")}
    return nmax.StateSpaceModel(**(given | parts))


def infinite():
    y = Y.copy()
    y[[3, 4]] = np.inf
    return y


BAD_Y = {
    "three dimensions": (np.zeros((5, 1, 1)), "must have shape .* got 3 dimensions"),
    "two columns": (np.zeros((30, 2)), r"event shape \(2,\), one entry a column of `y`.* got event shape \(1,\)"),
    "all NaN": (np.full((30, 1), np.nan), "at least one observation; got only NaN"),
    "infinite": (infinite(), "got 2 infinite entries. Replace them by NaN"),
    "too large for single precision": (Y * 1e40, "numbers up to 3.4e.38, the largest of single precision.* in other units"),
    "too small for single precision": (Y * 1e-40, "must vary by 1.2e-38 or more.*of column 0 is .*e-4[01]. Pass"),
    "true and false": (np.arange(30) > 3, r"must hold numbers.* got dtype bool. Pass `y.astype\(float\)`"),
    "complex numbers": (np.arange(30) * 1j, "must hold numbers.* got dtype complex128"),
    "objects": (np.array([1.0, None], dtype=object), "must hold numbers.* got dtype object"),
    "empty": (np.zeros((0, 1)), "must not be empty"),
    "one row": (np.zeros((1, 1)), "at least two rows, y_0 and y_1; got 1"),
}


@pytest.mark.parametrize("name", BAD_Y)
def test_bad_series(name):
    y, message = BAD_Y[name]
    with pytest.raises(ValueError, match=message):
        fit(y)


BAD_MODELS = {
    "prior not a distribution": ({"prior": {"level": 3.0}}, TypeError, r"prior\['level'\]` must be a NumPyro distr"),
    "prior not a dict": ({"prior": dist.Normal(0.0, 1.0)}, TypeError, "must be a dict"),
    "empty prior": ({"prior": {}}, ValueError, "must name at least one parameter"),
    "a name twice": (
        {"prior": [("a", dist.Normal(0.0, 1.0)), ("a", dist.Normal(0.0, 1.0))]},
        ValueError,
        "named more than once: a",
    ),
    "discrete prior": ({"prior": {"n": dist.Poisson(3.0)}}, ValueError, "must be continuous"),
    "scalar initial": (
        {"initial": lambda theta: jnp.array(1.0)},
        ValueError,
        r"vector of shape \(d,\).* got shape \(\)",
    ),
    "initial of another size": (
        {"initial": lambda theta: jnp.zeros(3), "transition": lambda x, theta: dist.Normal(x[:1], 1.0).to_event(1)},
        ValueError,
        r"event shape \(3,\).*`initial\(theta\)`.* got event shape \(1,\)",
    ),
    "initial not finite": (
        {"initial": lambda theta: jnp.log(-theta["noise"])[None]},
        ValueError,
        "must be finite for every θ of the prior; it is not for 100 of 100",
    ),
    "transition without event": (
        {"transition": lambda x, theta: dist.Normal(x, 1.0)},
        ValueError,
        r"batch shape \(1,\). Did you forget `.to_event\(1\)`",
    ),
    "transition not a distribution": ({"transition": lambda x, theta: x}, TypeError, "must return a NumPyro distrib"),
    "observation too wide": (
        {"observation": lambda x, theta: dist.Normal(jnp.zeros(2), 1.0).to_event(1)},
        ValueError,
        r"`observation\(x, theta\)` must return a distribution with event shape \(1,\)",
    ),
    "no observation": ({"observation": None}, ValueError, "must describe the 1 columns"),
    "impossible data": (
        {"observation": lambda x, theta: dist.LogNormal(x - 1e3, 1.0).to_event(1)},
        ValueError,
        "must lie in the support of `observation`: LogNormal is for numbers from 0, and column 0 holds .* at row 0 ",
    ),
    "NaN at the data": (
        {"observation": lambda x, theta: dist.Normal(jnp.sqrt(-jnp.abs(x) - 1.0), 1.0).to_event(1)},
        ValueError,
        "must be finite at the data; it is nan at row",
    ),
    "NaN in the dynamics": (
        {"transition": lambda x, theta: dist.Normal(jnp.sqrt(x - 100.0), 1.0).to_event(1)},
        ValueError,
        r"`transition\(x, theta\).log_prob` must not be NaN",
    ),
    "start outside its support": (
        {"initial": lambda theta: -jnp.ones(1), "support": constraints.positive},
        ValueError,
        "must lie in `support`; component 0 does not: it is -1",
    ),
    "support for other components": (
        {"support": (constraints.positive, constraints.real)},
        ValueError,
        "one for each of the 1 state components; got 2",
    ),
    "support not a constraint": ({"support": "positive"}, TypeError, "must be a NumPyro constraint"),
    "joint support": ({"support": constraints.simplex}, ValueError, "each state component on its own"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models(name):
    parts, error, message = BAD_MODELS[name]
    y = -np.abs(Y) if name == "impossible data" else Y
    with pytest.raises(error, match=message):
        fit(y, changed(**parts))


BAD_OPTIONS = {
    "zero window": ({"window": 0}, ValueError, "`window` must be a whole number of at least 1; got 0"),
    "negative draws": ({"draws": -3}, ValueError, "`draws` must be a whole number of at least 1; got -3"),
    "fractional steps": ({"steps": 2.5}, ValueError, "`steps` must be a whole number of at least 1; got 2.5"),
    "steps and until": ({"steps": 5, "until": nmax.Converged()}, ValueError, "Pass `steps`.*or `until`.*got both"),
    "misspelt option": ({"widnow": 3}, TypeError, "`fit` has no option `widnow`. Did you mean `window`"),
    "inputs too short": ({"inputs": np.zeros((3, 1))}, ValueError, "one row for each of the 30 rows of `y`; got 3"),
    "inputs with gaps": ({"inputs": np.full((30, 1), np.nan)}, ValueError, "must be finite at every step"),
    "inputs not expected": ({"inputs": np.zeros((30, 1))}, ValueError, r"must take \(x, theta, inputs\)"),
    "guide of another kind": ({"guide": "nma"}, TypeError, "nmax.LookaheadGuide or an nmax.MovingAverageGuide; got str"),
    "optimiser of another kind": ({"optimiser": 3}, TypeError, "must be an nmax.Optimiser; got int"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options(name):
    options, error, message = BAD_OPTIONS[name]
    model = changed(transition=lambda x, theta: dist.Normal(x, 1.0).to_event(1)) if "not expected" in name else None
    with pytest.raises(error, match=message):
        fit(model=model, **options)


@pytest.mark.parametrize("key", [0, np.zeros(2), jnp.zeros(3), "key", jr.split(jr.key(0), 2)], ids=repr)
def test_a_key_that_is_not_a_key(key):
    with pytest.raises(TypeError, match="`key` must be one JAX random key; got"):
        fit(key=key)


def test_old_style_keys_are_taken():
    with pytest.raises(AssertionError, match="work started"):
        fit(key=jax.random.PRNGKey(0))


def test_a_window_longer_than_the_series_is_shrunk_with_a_warning():
    with pytest.warns(UserWarning, match="`window` can be at most 29.* got 100. Using 29"):
        with pytest.raises(AssertionError, match="work started"):
            fit(window=100)


def test_not_a_model():
    with pytest.raises(TypeError, match="must be an nmax.StateSpaceModel or an nmax.SDE; got dict"):
        nmax.fit({"prior": {}}, Y, key=jr.key(0))


def test_single_missing_entries_need_a_known_marginal():
    model = nmax.StateSpaceModel(
        {"a": dist.Normal(0.0, 1.0)},
        lambda theta: jnp.zeros(1),
        lambda x, theta: dist.Normal(x, 1.0).to_event(1),
        lambda x, theta: dist.Dirichlet(jnp.exp(jnp.stack([x[0], x[0] + theta["a"]]))),
    )
    y = np.full((10, 2), 0.5)
    y[3, 1] = np.nan
    with pytest.raises(ValueError, match="for Dirichlet it is not.*set the whole row to NaN"):
        fit(y, model)


@pytest.mark.parametrize(
    ("exactly_observed", "message"),
    [({0: 5}, "must map state components to columns"), ({4: 0}, "must map state components to columns")],
)
def test_exactly_observed_out_of_range(exactly_observed, message):
    base = random_walk()
    model = nmax.StateSpaceModel(base.prior, base.initial, base.transition, None, exactly_observed=exactly_observed)
    with pytest.raises(ValueError, match=message):
        fit(Y, model)


BAD_SETTINGS = {
    "misspelt field": (lambda: nmax.MovingAverageGuide(widht=3), TypeError, "no option `widht`. Did you mean `width`"),
    "zero layers": (lambda: nmax.MovingAverageGuide(layers=0), ValueError, "`layers` must be a whole number"),
    "negative radius": (lambda: nmax.MovingAverageGuide(radius=-1), ValueError, "at least 0; got -1"),
    "unknown method": (lambda: nmax.Optimiser(method="sgd"), ValueError, 'must be "adam" or "adamax"'),
    "negative rate": (lambda: nmax.Optimiser(rate=-1.0), ValueError, "`rate` must be a positive, finite number"),
    "share above one": (lambda: nmax.Optimiser(level=3.0), ValueError, "`level` must lie between 0 and 1"),
    "no steps": (lambda: nmax.Converged(most=0), ValueError, "`most` must be a whole number"),
    "misspelt part of a model": (
        lambda: nmax.StateSpaceModel({}, None, None, obsrvation=None),
        TypeError,
        "no option `obsrvation`. Did you mean `observation`",
    ),
    "negative dt": (
        lambda: nmax.SDE({}, None, drift=None, diffusion=None, dt=-1.0),
        ValueError,
        "`dt` must be a positive, finite number; got -1.0",
    ),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings(name):
    make, error, message = BAD_SETTINGS[name]
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("part", ["drift", "diffusion"])
def test_sde_functions_of_the_wrong_shape(part):
    good = {"drift": lambda x, theta: x, "diffusion": lambda x, theta: jnp.ones(1)}
    model = nmax.SDE(
        prior={"a": dist.Normal(0.0, 1.0)},
        initial=lambda theta: jnp.zeros(1),
        dt=0.1,
        observation=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
        **(good | {part: lambda x, theta: jnp.ones(3)}),
    )
    with pytest.raises(ValueError, match=rf"`{part}\(x, theta\)` must have shape .* got \(3,\)"):
        fit(Y, model)


def test_paths_out_of_range():
    from test_fit import data, quick

    with pytest.MonkeyPatch.context() as patch:
        from nmax._pretrain import pretrain
        from nmax._train import train

        patch.setattr("nmax._fit.train", train)
        patch.setattr("nmax._fit.pretrain_guide", pretrain)
        posterior = quick(data(), steps=1)
    for start, stop in [(-1, 3), (5, 5), (0, 100)]:
        with pytest.raises(ValueError, match="must satisfy 0 <= start < stop <= 60"):
            posterior.path(1, start=start, stop=stop, key=jr.key(0))
    with pytest.raises(ValueError, match="`draws` must be a whole number"):
        posterior.theta(0, key=jr.key(0))
    with pytest.raises(ValueError, match="missing"):
        posterior.log_prob({"level": 1.0})


def misspelt(x, theta):
    return dist.Normal(theta["nois"] + x, 1.0).to_event(1)


def branching(x, theta):
    return dist.Normal(x if x[0] > 0 else -x, theta["noise"]).to_event(1)


def of_numpy(x, theta):
    return dist.Normal(np.exp(x), theta["noise"]).to_event(1)


SLIPS = {
    misspelt: (ValueError, r"in misspelt asks for `theta\['nois'\]`.*did you mean 'noise'\?"),
    branching: (TypeError, r"in branching cannot be compiled.*`jnp.where.*in place of `if`"),
    of_numpy: (TypeError, r"in of_numpy cannot be compiled.*`jnp.exp` in place of `np.exp`"),
}


@pytest.mark.parametrize("function", SLIPS)
def test_slips_in_a_users_functions_are_named_with_their_line(function, key):
    error, says = SLIPS[function]
    says = r"test_bad_input.py, line \d+, " + says
    for where in ("transition", "observation"):
        model = dataclasses.replace(random_walk(), **{where: function})
        with pytest.raises(error, match=says):
            nmax.fit(model, np.zeros(10), key=key, progress=False)
        with pytest.raises(error, match=says):
            nmax.simulate(model, dict.fromkeys(model.parameters.distributions, 1.0), 5, key=key)


@pytest.mark.parametrize("asked", [1, "berlin"])
def test_a_key_error_of_the_users_own_stays_what_it_is(key, asked):
    sites = {"paris": 1.0}

    def transition(x, theta):
        place = sites[asked]
        return dist.Normal(place, theta["noise"])

    with pytest.raises(KeyError):
        nmax.fit(dataclasses.replace(random_walk(), transition=transition), np.zeros(10), key=key, progress=False)
