"""Runs of series on disk: of which rows and columns they are, and what can be asked of them as of those in memory."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pyarrow
import pyarrow.parquet
import pytest
from test_run_folder import PLAIN, data, same

import nmax
from nmax import _evidence
from nmax.cli import main
from nmax.data import LongSeries, ManySeries, Source, Windows, make_series, same_data, source, statistics_of

pytestmark = pytest.mark.extra  # a fit or two of their own, minutes together

MODEL = nmax.models.ar1()
BRIEF = PLAIN | {"steps": 10, "pretrain": 0}


def parquet(file, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Fits of the same series in memory and on disk, and its run folder."""
    jax.config.update("jax_disable_most_optimizations", True)
    folder, y = tmp_path_factory.mktemp("both"), data(1_000)
    np.save(folder / "y.npy", y)
    options = {"key": jr.key(0), "progress": False}
    return nmax.fit(MODEL, y, **options), nmax.fit(MODEL, source(folder / "y.npy"), out=folder / "run", **options), folder


@pytest.mark.extra
def test_statistics_of_some_columns_are_not_those_of_others(tmp_path):
    y = data().ravel()
    file = parquet(tmp_path / "x.parquet", a=y, b=2 * y + 1, c=np.zeros(len(y)))
    run = BRIEF | {"out": tmp_path / "run"}
    nmax.fit(MODEL, source(file, columns=["a"]), **run)
    with pytest.raises(ValueError, match="data.sha256_of_observations is another"):
        nmax.fit(MODEL, source(file, columns=["b"]), **run)
    nmax.fit(MODEL, source(file, columns=["a"]), **run)
    run = BRIEF | {"out": tmp_path / "many"}
    nmax.fit(MODEL, [source(file, columns=["a"]), source(file, columns=["b"])], **run)
    with pytest.raises(ValueError, match="data.series 0.sha256_of_observations is another"):
        nmax.fit(MODEL, [source(file, columns=["b"]), source(file, columns=["a"])], **run)


@pytest.mark.extra
def test_check_and_evidence_are_those_of_the_series_in_memory(both, monkeypatch):
    in_memory, on_disk, _ = both
    one, other = (fit.evidence(error=0.1, key=jr.key(1)) for fit in (in_memory, on_disk))
    assert other.mean == pytest.approx(one.mean, abs=0.02)
    one, other = (fit.check() for fit in (in_memory, on_disk))
    assert other.verdict == one.verdict
    assert [found.about for found in other.findings] == [found.about for found in one.findings]
    assert other.figures["log evidence"] == pytest.approx(one.figures["log evidence"], abs=0.02)
    monkeypatch.setattr(_evidence, "LONGEST", 500)
    with pytest.raises(ValueError, match=r"at most 500; got one of 1,001.*by=\"elbo\""):
        nmax.compare([on_disk, on_disk], key=jr.key(1))
    nmax.compare([on_disk, on_disk], by="elbo", key=jr.key(1))


def test_data_are_the_same_on_disk_and_in_memory(both, tmp_path):
    in_memory, on_disk, _ = both
    rows = nmax.compare({"memory": in_memory, "disk": on_disk}, by="elbo", key=jr.key(1)).rows
    assert rows.keys() == {"memory", "disk"}
    draws = nmax.sample(MODEL, on_disk.table, fit=on_disk, draws=25, warmup=25, chains=2, key=jr.key(2), progress=False)
    assert draws.path().shape == (50, 1_001, 1)
    y, u = data(2_000).astype(np.float32), np.arange(2_001.0)[:, None]
    y[1_000:1_100] = np.nan  # bridged differently on disk, across a border of stretches
    np.save(tmp_path / "y.npy", np.concatenate([y, u], axis=1))
    place = source(tmp_path / "y.npy", inputs=1)
    long, whole, other = LongSeries(place, statistics_of(place)), make_series(y, u), make_series(y, u + 1)
    for one, another in ((long, whole), (whole, long), (long, long)):
        assert same_data(one, another)
    for one in (other, make_series(y), ManySeries([whole])):
        assert not same_data(long, one)
    assert same_data(ManySeries([long, whole]), ManySeries([whole, long]))
    assert not same_data(ManySeries([long, whole]), ManySeries([whole, other]))


class Claimed(Source):
    """So many rows, of which none is read."""

    columns = ("y",)

    def __init__(self, rows):
        self.rows = rows

    def read(self, start, stop):
        return np.ones((stop - start, 1)), np.zeros((stop - start, 0))


def test_more_rows_than_can_be_counted_are_refused():
    most, found = 2**30, statistics_of(Claimed(1_000))
    rows = jax.numpy.int32(most - 2)
    windows = Windows(most - 1, 50)
    picked = windows.spread(rows, 4)  # the last shift, which with the last offset comes near 2^31
    assert np.all((np.asarray(picked.start) >= 1) & (np.asarray(picked.start) < most))
    with pytest.raises(ValueError, match="at most 2.30 = 1,073,741,824 rows, of all series together; got 1,073,741,825"):
        statistics_of(Claimed(most + 1))
    with pytest.raises(ValueError, match="at most 2.30"):
        LongSeries(Claimed(most + 1), dataclasses.replace(found, rows=most + 1))
    half = LongSeries(Claimed(most // 2), dataclasses.replace(found, rows=most // 2))
    assert ManySeries([half, half]).rows == most
    with pytest.raises(ValueError, match="got 1,610,612,736"):
        ManySeries([half, half, half])
    with pytest.raises(ValueError, match="at most 2.30"):
        make_series(np.broadcast_to(np.float32(1), most + 1))


@pytest.mark.extra
def test_a_run_whose_series_has_moved_is_read_from_its_new_place(tmp_path, capsys):
    run, old, new = tmp_path / "run", tmp_path / "y.npy", tmp_path / "elsewhere" / "y.npy"
    np.save(old, data())
    first = nmax.fit(MODEL, source(old), out=run, **BRIEF)
    new.parent.mkdir()
    old.rename(new)
    for read in (nmax.load, nmax.resume):
        with pytest.raises(FileNotFoundError, match=r"it is gone. Put it back, or pass it from its new place: `nmax.load"):
            read(run, MODEL)
    assert main(["info", str(run)]) == 0
    assert f"{old} is gone; put it back" in capsys.readouterr().out
    same(nmax.load(run, MODEL, source(new)).guide, first.guide)
    np.save(tmp_path / "other.npy", data() + 1)
    with pytest.raises(ValueError, match="must be a run of the same model, data"):
        nmax.load(run, MODEL, source(tmp_path / "other.npy"))
    with pytest.raises(ValueError, match="must be a run of the same model, data"):
        nmax.resume(run, MODEL, source(tmp_path / "other.npy"))
    same(nmax.resume(run, MODEL, source(new)).guide, first.guide)
    same(nmax.load(run, MODEL).guide, first.guide)  # the new place was written down


@pytest.mark.extra
def test_several_series_that_have_moved_are_read_from_their_new_places(tmp_path, monkeypatch):
    run, old, new, passes = tmp_path / "run", tmp_path / "y.npy", tmp_path / "z.npy", []
    made = nmax._series_file.statistics_of
    monkeypatch.setattr("nmax._series_file.statistics_of", lambda *a: (passes.append(1), made(*a))[1])
    np.save(old, data())
    first = nmax.fit(MODEL, [data(80), source(old)], out=run, **BRIEF)
    old.rename(new)
    with pytest.raises(FileNotFoundError, match="it is gone"):
        nmax.load(run, MODEL)
    same(nmax.fit(MODEL, [data(80), source(new)], out=run, **BRIEF).guide, first.guide)
    assert len(passes) == 2  # a file in another place is looked at again
    same(nmax.load(run, MODEL).guide, first.guide)
    assert len(passes) == 2


def test_columns_that_are_not_numbers_are_not_read_as_such(tmp_path):
    y = data().ravel()
    times = np.datetime64("2020-01-01") + np.arange(len(y))
    digits = [str(k) for k in range(len(y))]
    file = parquet(tmp_path / "x.parquet", time=times, a=y, b=np.arange(len(y)), c=y > 5, text=digits)
    with pytest.raises(ValueError, match=r"must hold numbers .*it holds `time` date32\[day\], `text` string. Name those"):
        source(file)
    with pytest.raises(ValueError, match="it holds `time` date32"):
        source(file, columns=["a"], inputs=["time"])
    np.testing.assert_array_equal(
        source(file, columns=["a", "b", "c"]).read(3, 5)[0], np.stack([y, np.arange(len(y)), y > 5], 1)[3:5]
    )


@pytest.mark.parametrize("kind", ["npy", "zarr"])
@pytest.mark.parametrize("option", ["--columns", "--inputs"])
def test_options_that_choose_columns_are_not_left_unheeded(tmp_path, capsys, option, kind):
    assert main(["new", str(tmp_path / "model.py")]) == 0
    file = tmp_path / f"y.{kind}"
    np.save(file, data())
    run = ["fit", str(tmp_path / "model.py"), str(file), "--on-disk", option, "b", "--out", str(tmp_path / "run")]
    assert main(run) == 2
    assert "choose columns of a Parquet file alone; got " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


COUNTS = nmax.StateSpaceModel(
    prior={"level": dist.Normal(0.0, 1.0)},
    initial=lambda theta: theta["level"][None],
    transition=lambda x, theta: dist.Normal(0.5 * x, 1.0).to_event(1),
    observation=lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1),
)
BOUNDED = nmax.StateSpaceModel(
    prior={"level": dist.Normal(0.0, 1.0)},
    initial=lambda theta: theta["level"][None],
    transition=lambda x, theta: dist.Normal(0.5 * x, 1.0).to_event(1),
    observation=lambda x, theta: dist.Uniform(0.0 * x - 1.0, 0.0 * x + 40.0).to_event(1),
)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (COUNTS, r"column 0 holds 50.5 at row 2777{0} \(1 of 50\d rows looked at have such\)"),
        (BOUNDED, r"it is -inf at row 2777{0}, y = \[50.5\]"),
    ],
)
def test_refusals_name_the_rows_of_the_data(tmp_path, model, says):
    y = np.random.default_rng(0).poisson(2.0, (3_000, 1)).astype(np.float64)
    np.save(tmp_path / "fine.npy", y)
    y[2_777] = 50.5
    np.save(tmp_path / "y.npy", y)
    fine, bad = source(tmp_path / "fine.npy"), source(tmp_path / "y.npy")
    with pytest.raises(ValueError, match=says.format("")):
        nmax.fit(model, bad, **BRIEF)
    for each in ([fine, bad], [np.load(tmp_path / "fine.npy"), y]):
        with pytest.raises(ValueError, match=says.format(" of series 1")):
            nmax.fit(model, each, **BRIEF)
