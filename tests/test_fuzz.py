"""Whatever comes in: a result with finite numbers, or one clear error. Never a hang, a crash, or NaN in silence.

Few cases are tried each time; `NMAX_FUZZ=100 pytest tests/test_fuzz.py` tries a hundred times as many.
"""

import os
import shutil
import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nmax
from nmax._store import DamagedFileError, read_arrays
from nmax.data import LongSeries, as_table, make_series, source, statistics_of

TIMES = int(os.environ.get("NMAX_FUZZ", "1"))
CLEAR = (ValueError, TypeError, nmax.DivergedError, nmax.NoPosteriorError)  # what a user may be told; each with a sentence
ROWS = 40


def cases(count):
    """So many examples, always the same ones in the suite, others where more are asked for."""
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(
        max_examples=count * TIMES, deadline=None, derandomize=TIMES == 1, database=None, suppress_health_check=quiet
    )


def said(error):
    """An error that a person can act on: a sentence, and no trace of the machinery."""
    text = str(error)
    assert len(text) > 20, repr(error)
    assert "Traced<" not in text, text
    assert "XlaRuntimeError" not in text, text
    return text


scales = st.sampled_from([1e-30, 1e-20, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e20, 1e30, 3e38])
dtypes = st.sampled_from(
    [np.float16, np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, bool, complex, object, "U3"]
)
shapes = st.one_of(
    st.just(()), st.tuples(st.integers(0, 6)), st.tuples(st.integers(0, 6), st.integers(0, 4)), st.just((2, 3, 2))
)


@st.composite
def arrays(draw):
    """Anything that somebody may take for a series."""
    shape, dtype, scale = draw(shapes), draw(dtypes), draw(scales)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = rng.standard_normal(shape) * scale
        kind = draw(st.sampled_from(["plain", "constant", "nan", "some nan", "inf", "spike"]))
        if kind == "constant":
            values = np.full(shape, scale)
        if kind == "nan":
            values = np.full(shape, np.nan)
        if values.size and kind in ("some nan", "inf", "spike"):
            values = np.where(rng.random(shape) < 0.4, {"some nan": np.nan, "inf": np.inf, "spike": 1e300}[kind], values)
        if np.dtype(dtype).kind in "iu":
            values = np.nan_to_num(values, nan=0.0, posinf=100.0, neginf=0.0).clip(0, 100)
        return np.asarray(values).astype(dtype)


@cases(60)
@given(arrays(), st.one_of(st.none(), arrays()))
def test_any_array_becomes_a_finite_series_or_is_refused(y, inputs):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            table = as_table(y, inputs)
            series = make_series(table.y, table.inputs)
    except CLEAR as error:
        said(error)
        return
    for leaf in (series.values, series.inputs, series.centre, series.scale, series.input_centre, series.input_scale):
        assert np.isfinite(np.asarray(leaf)).all(), (y, inputs)
    assert (np.asarray(series.scale) > 0).all()


@cases(30)
@given(st.data())
def test_a_series_on_disk_is_the_one_in_memory(tmp_path_factory, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows, columns = data.draw(st.integers(2, 3_000)), data.draw(st.integers(1, 3))
    y = rng.standard_normal((rows, columns)) * data.draw(st.sampled_from([1e-20, 1.0, 1e20]))
    y[rng.random(y.shape) < data.draw(st.sampled_from([0.0, 0.1, 0.9, 0.999]))] = np.nan
    file = tmp_path_factory.mktemp("fuzz") / "y.npy"
    np.save(file, y.astype(data.draw(st.sampled_from([np.float32, np.float64]))))
    try:
        whole = make_series(np.load(file))
    except CLEAR as error:
        said(error)
        with pytest.raises(CLEAR):
            statistics_of(source(file))
        return
    long = LongSeries(source(file), statistics_of(source(file)))
    start, count = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(1, rows))
    view = long.view(start, count)
    index = jnp.arange(int(view.first), int(view.first) + min(count, rows))
    np.testing.assert_array_equal(view.observed[view.at(index)], whole.observed[index])
    np.testing.assert_array_equal(view.next_observed[view.at(index)], whole.next_observed[index])
    real = np.asarray(whole.observed[index])
    np.testing.assert_array_equal(np.asarray(view.values)[real], np.asarray(whole.values[index])[real])
    assert np.isfinite(np.asarray(view.values)).all()


@pytest.fixture(scope="module")
def model():
    return nmax.StateSpaceModel(
        prior={"level": dist.Normal(0.0, 10.0), "noise": dist.LogNormal(0.0, 1.0)},
        initial=lambda theta: theta["level"][None],
        transition=lambda x, theta: dist.Normal(theta["level"] + 0.5 * (x - theta["level"]), theta["noise"]).to_event(1),
        observation=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
    )


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    """A finished run and one that was stopped, whose files are then damaged."""
    jax.config.update("jax_disable_most_optimizations", True)
    folder = tmp_path_factory.mktemp("runs") / "run"
    y = np.random.default_rng(0).standard_normal((ROWS + 1, 1))
    nmax.fit(model, y, key=jr.key(0), out=folder, progress=False)
    return folder


def finite(fit):
    theta = fit.theta(20, key=jr.key(1))
    path = fit.path(5, key=jr.key(2))
    return all(np.isfinite(values).all() for values in theta.values()) and np.isfinite(path).all()


@pytest.mark.extra
@cases(3)
@given(st.data())
def test_any_data_give_a_finite_posterior_or_an_error(model, run, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    kind = data.draw(st.sampled_from(["noise", "constant", "spike", "steps", "walk", "one value", "alternating"]))
    y = {
        "noise": rng.standard_normal(ROWS + 1),
        "constant": np.ones(ROWS + 1),
        "spike": np.where(np.arange(ROWS + 1) == 20, 1e6, 0.0),
        "steps": np.where(np.arange(ROWS + 1) > 20, 100.0, 0.0),
        "walk": np.cumsum(rng.standard_normal(ROWS + 1)),
        "one value": np.where(np.arange(ROWS + 1) == 7, 1.0, np.nan),
        "alternating": (-1.0) ** np.arange(ROWS + 1),
    }[kind]
    y = (y + data.draw(st.sampled_from([0.0, 1e3, -1e6]))) * data.draw(scales)
    y[rng.random(ROWS + 1) < data.draw(st.sampled_from([0.0, 0.3, 0.95]))] = np.nan
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = nmax.fit(model, y, key=jr.key(0), progress=False)
            fine = finite(fit)
    except CLEAR as error:
        said(error)
        return
    assert fine, (kind, y)


NONSENSE = {
    "not a distribution": lambda x, theta: 3.0,
    "nothing": lambda x, theta: None,
    "NaN": lambda x, theta: dist.Normal(x * jnp.nan, 1.0).to_event(1),
    "infinite": lambda x, theta: dist.Normal(x / 0.0, 1.0).to_event(1),
    "negative scale": lambda x, theta: dist.Normal(x, -1.0).to_event(1),
    "zero scale": lambda x, theta: dist.Normal(x, 0.0).to_event(1),
    "batch": lambda x, theta: dist.Normal(x, 1.0),
    "too many": lambda x, theta: dist.Normal(jnp.zeros(3), 1.0).to_event(1),
    "too few": lambda x, theta: dist.Normal(0.0, 1.0),
    "discrete": lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1),
    "raises": lambda x, theta: 1 / 0,
    "unknown name": lambda x, theta: dist.Normal(theta["nothing"], 1.0).to_event(1),
    "wrong arguments": lambda x: dist.Normal(x, 1.0).to_event(1),
    "explodes": lambda x, theta: dist.Normal(jnp.exp(jnp.exp(x)), 1.0).to_event(1),
    "huge": lambda x, theta: dist.Normal(x, 1e30).to_event(1),
    "tiny": lambda x, theta: dist.Normal(x, 1e-30).to_event(1),
    "ignores x": lambda x, theta: dist.Normal(theta["level"][None], 1.0).to_event(1),
    "half the line": lambda x, theta: dist.LogNormal(x, 1.0).to_event(1),
}
REFUSED = {
    "not a distribution",
    "nothing",
    "batch",
    "too many",
    "too few",
    "raises",
    "unknown name",
    "wrong arguments",
    "NaN",
}
STARTS = {
    "scalar": lambda theta: theta["level"],
    "NaN": lambda theta: jnp.array([jnp.nan]),
    "text": lambda theta: "start",
    "empty": lambda theta: jnp.zeros(0),
    "fine": lambda theta: theta["level"][None],
}


@cases(12)
@given(
    st.sampled_from([*NONSENSE, "fine"]),
    st.sampled_from([*NONSENSE, "fine"]),
    st.sampled_from([*STARTS]),
    st.sampled_from([dist.constraints.real, dist.constraints.positive, dist.constraints.unit_interval, "positive", None]),
)
def test_any_model_is_checked_without_a_crash(model, transition, observation, initial, support):
    """Nonsense is refused before any work; what is not refused has finite densities at likely states."""
    from nmax._validate import check_model

    odd = {
        "prior": model.prior,
        "initial": STARTS[initial],
        "transition": NONSENSE.get(transition, model.transition),
        "observation": NONSENSE.get(observation, model.observation),
        "support": support,
    }
    series = make_series(np.random.default_rng(0).standard_normal((ROWS + 1, 1)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_model(nmax.StateSpaceModel(**odd), series)
    except CLEAR as error:
        said(error)
    except (ZeroDivisionError, KeyError):  # the user's own function raised it: it comes through as it is
        if not {"raises", "unknown name"} & {transition, observation}:
            raise
    else:
        assert not REFUSED & {transition, observation}
        assert initial == "fine"


@cases(60)
@given(st.data())
def test_damaged_files_are_refused_or_harmless(run, tmp_path_factory, data):
    names = sorted(str(file.relative_to(run)) for file in run.rglob("*.npz"))
    place = tmp_path_factory.mktemp("damaged") / "file.npz"
    content = bytearray((run / data.draw(st.sampled_from(names))).read_bytes())
    whole = {name: array.tobytes() for name, array in read_arrays(_written(place, content))[0].items()}
    for _ in range(data.draw(st.integers(1, 4))):
        how = data.draw(st.sampled_from(["flip", "cut", "insert", "zero", "swap"]))
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        if how == "flip" and content:
            content[at] ^= data.draw(st.integers(1, 255))
        elif how == "cut":
            content = content[:at]
        elif how == "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=40))
        elif how == "zero":
            content[at : at + 50] = bytes(len(content[at : at + 50]))
        else:
            content = content[at:] + content[:at]
    try:
        found, _ = read_arrays(_written(place, content))
    except DamagedFileError as error:
        said(error)
        return
    assert {name: array.tobytes() for name, array in found.items()} == whole


@cases(25)
@given(st.data())
def test_damaged_run_folders_are_refused_or_harmless(model, run, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("folder") / "run"
    shutil.copytree(run, folder)
    file = folder / data.draw(st.sampled_from(["run.json", "data.npz", "fitted.npz"]))
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        content = content[:at]
    file.write_bytes(bytes(content))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = nmax.load(folder, model)
    except (*CLEAR, OSError) as error:
        said(error)
        return
    assert finite(fit)


def _written(place, content):
    place.write_bytes(bytes(content))
    return place
