"""Series on disk: stretches read from a file are those of the whole series, and so is all that is made from them."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import nmax
from nmax._scores import Scores
from nmax._series_file import keep_table, read_table
from nmax.data import LongSeries, Windows, as_table, make_series, source, statistics_of
from nmax.data._ahead import read_ahead
from nmax.data._long import ALIGNED
from nmax.guides import stretches

THETA = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
T = 5_000


def rows(missing=0.0, columns=1, length=T):
    rng = np.random.default_rng(3)
    y = 10 + np.cumsum(rng.standard_normal((length + 1, columns)), axis=0) * 0.1
    y[rng.random(y.shape) < missing] = np.nan
    if missing:
        y[ALIGNED - 30 : ALIGNED + 40] = np.nan  # a gap across a border
        y[-1] = 1.0
    return y.astype(np.float32)


def on_disk(tmp_path, y, **options):
    np.save(tmp_path / "y.npy", y)
    place = source(tmp_path / "y.npy", **options)
    return LongSeries(place, statistics_of(place))


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("columns", [1, 2])
def test_a_view_is_a_stretch_of_the_series(tmp_path, missing, columns):
    y = rows(missing, columns)
    whole, long = make_series(y), on_disk(tmp_path, y)
    assert (long.length, long.columns, long.complete, long.partial) == (T, columns, whole.complete, whole.partial)
    np.testing.assert_allclose(long.centre, whole.centre, rtol=1e-6)
    np.testing.assert_allclose(long.scale, whole.scale, rtol=1e-5)
    assert float(long.typical_gap) == float(whole.typical_gap)
    for start in (0, 3, ALIGNED - 20, 2_000, T - 60, T):
        view = long.view(start, 100)
        first = int(view.first)
        assert first == min(start, T + 1 - 100)
        index = jnp.arange(first, first + 100)
        np.testing.assert_array_equal(view.observed[view.at(index)], whole.observed[index])
        np.testing.assert_array_equal(view.next_observed[view.at(index)], whole.next_observed[index])
        real = np.asarray(view.observed[view.at(index)])
        np.testing.assert_array_equal(np.asarray(view.values)[real], np.asarray(whole.values[index])[real])
        follows = np.asarray(whole.next_observed[index]) <= T
        np.testing.assert_array_equal(np.asarray(view.next_value)[follows], np.asarray(whole.next_value[index])[follows])
        jax.tree.map(np.testing.assert_array_equal, view.start, whole.start)


def test_a_row_looks_the_same_from_everywhere(tmp_path):
    long = on_disk(tmp_path, rows(0.3))
    one, other = long.view(900, 300), long.view(1_000, 150)
    index = jnp.arange(1_000, 1_150)
    for name in ("values", "observed", "next_observed", "next_value"):
        np.testing.assert_array_equal(getattr(one, name)[one.at(index)], getattr(other, name)[other.at(index)])


@pytest.mark.parametrize(
    "settings",
    [
        nmax.LookaheadGuide(layers=0),
        pytest.param(nmax.LookaheadGuide(layers=1, length=3, width=16), marks=pytest.mark.extra),
    ],
)
def test_scores_of_windows_are_those_of_the_series_in_memory(tmp_path, settings):
    y = rows()
    whole, long = make_series(y), on_disk(tmp_path, y)
    guide = settings.build(nmax.models.ar1(), whole, key=jr.key(0))
    again = settings.build(nmax.models.ar1(), long, key=jr.key(0))
    jax.tree.map(np.testing.assert_array_equal, jax.tree.leaves(guide), jax.tree.leaves(again))
    windows = Windows(T, 2 * guide.block)
    number = np.array([0, 1, windows.count // 2, windows.count - 1])
    theta = np.tile(np.asarray(guide.theta_flow.head.loc), (4, 1))
    in_memory, from_disk = (Scores(guide, series, windows)(theta, number, key=jr.key(1)) for series in (whole, long))
    np.testing.assert_allclose(from_disk[0], in_memory[0], rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(from_disk[1], in_memory[1], rtol=1e-3, atol=1e-2)


def test_the_end_of_a_long_gap_is_read_once(tmp_path, monkeypatch):
    y = np.full((10 * ALIGNED, 2), np.nan, np.float32)
    y[::5_000] = 1.0
    y[7] = 2.0
    series, whole, reads = on_disk(tmp_path, y), make_series(y), []
    real = series.source.read
    monkeypatch.setattr(series.source, "read", lambda start, stop: (reads.append(stop - start), real(start, stop))[1])
    part = series.arrays(100, 800)
    assert reads == [ALIGNED, 1]
    np.testing.assert_array_equal(part["next_value"], whole.next_value[100:800])
    np.testing.assert_array_equal(part["next_observed"], whole.next_observed[100:800])


def test_a_link_to_a_file_is_resumed_by_its_own_name(tmp_path):
    (tmp_path / "store").mkdir()
    np.save(tmp_path / "store" / "cdef", rows()[:200])
    (tmp_path / "store" / "cdef.npy").rename(tmp_path / "store" / "cdef")
    (tmp_path / "y.npy").symlink_to(tmp_path / "store" / "cdef")
    (tmp_path / "run").mkdir()
    keep_table(as_table(source(tmp_path / "y.npy")), tmp_path / "run")
    assert len(read_table(tmp_path / "run").y) == 200


def test_rows_beyond_those_that_are_read_do_not_matter(tmp_path):
    """Change every row outside of what a window reads: its path stays the same."""
    y = rows()
    guide = nmax.LookaheadGuide(layers=0).build(nmax.models.ar1(), make_series(y), key=jr.key(0))
    before, count = guide.rows_around(guide.block + 1)
    start = 20 * guide.block + 7
    outside = np.ones(len(y), bool)
    outside[start - before : start - before + count] = False
    theta = guide.model.parameters.constrain(guide.theta_flow.head.loc)
    z = jr.normal(jr.key(2), (guide.block + 1 + sum(guide.reach), 1))
    seen = [make_series(series) for series in (y, np.where(outside[:, None], y + 50.0, y))]
    seen = [dataclasses.replace(series, centre=jnp.zeros(1), scale=jnp.ones(1)) for series in seen]
    paths = [guide.path(theta, jnp.zeros(3), z, series, jnp.int32(start)).x for series in seen]
    np.testing.assert_array_equal(*paths)


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """The same series in memory and on disk, with the paper's guide trained for a moment, and with the look-ahead."""
    jax.config.update("jax_disable_most_optimizations", True)
    folder = tmp_path_factory.mktemp("long")
    model = nmax.models.ar1()
    y = nmax.simulate(model, THETA, T, key=jr.key(1)).y
    np.save(folder / "y.npy", y)
    kept = nmax.fit(model, source(folder / "y.npy"), key=jr.key(0), out=folder / "run", progress=False)
    return model, y, folder, nmax.fit(model, y, key=jr.key(0), progress=False), kept


def test_a_fit_from_disk_is_the_fit_in_memory(fits):
    model, _, folder, one, other = fits
    a, b = (fit.theta(4_000, key=jr.key(2)) for fit in (one, other))
    for name in THETA:
        assert abs(a[name].mean() - b[name].mean()) < 0.1 * a[name].std()
        assert abs(np.log(a[name].std() / b[name].std())) < 0.05
    here, there = (fit.path(3, start=700, stop=720, key=jr.key(3)) for fit in (one, other))
    np.testing.assert_allclose(there.mean(), here.mean(), rtol=0.05)
    assert abs(one.elbo(key=jr.key(4)).mean - other.elbo(key=jr.key(4)).mean) < 2.0
    assert not (folder / "run" / "data.npz").exists()
    loaded = nmax.load(folder / "run", model)
    np.testing.assert_array_equal(
        loaded.path(2, start=0, stop=9, key=jr.key(3)), other.path(2, start=0, stop=9, key=jr.key(3))
    )


@pytest.mark.extra
def test_the_paths_guide_trains_from_disk_step_by_step_as_in_memory(fits):
    model, y, folder, *_ = fits
    options = {"guide": nmax.MovingAverageGuide(layers=1, length=3, width=16, depth=1, radius=2, theta_layers=1)}
    options |= {"pretrain": 0, "steps": 120, "draws": 2, "key": jr.key(3), "progress": False}
    one, other = (nmax.fit(model, data, **options) for data in (y, source(folder / "y.npy")))
    np.testing.assert_allclose(other.history.total[:20], one.history.total[:20], rtol=1e-4)


def test_a_changed_or_vanished_file_ends_the_reading(tmp_path):
    long = on_disk(tmp_path, rows())
    np.save(tmp_path / "y.npy", rows()[:100])
    with pytest.raises(nmax.data.SourceChangedError, match="must not change"):
        long.view(0, 10)
    (tmp_path / "y.npy").unlink()
    with pytest.raises(nmax.data.SourceChangedError, match="is gone"):
        long.view(0, 10)


def test_a_file_cut_short_is_an_error_and_not_the_end_of_the_process(tmp_path):
    """Pages of a mapped file that are gone would end the interpreter with SIGBUS."""
    place = on_disk(tmp_path, rows(length=200_000)).source
    place.read(150_000, 150_010)
    with open(tmp_path / "y.npy", "r+b") as file:
        file.truncate(300_000)
    with pytest.raises(nmax.data.SourceChangedError, match="must not change"):
        place.read(150_000, 150_010)
    place.stamp = place._stamp()  # as if it had been cut short between the look at the file and the reading
    with pytest.raises(nmax.data.SourceChangedError, match="must not change"):
        place.read(150_000, 150_010)
    with pytest.raises(ValueError, match="must be a whole .npy file"):
        source(tmp_path / "y.npy")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "i2", "?"])
@pytest.mark.parametrize("columns", [0, 1, 3])
def test_rows_are_read_whatever_the_layout_of_the_file(tmp_path, order, kind, columns):
    y = np.random.default_rng(0).integers(0, 100, size=(50, columns) if columns else 50).astype(kind, order=order)
    np.save(tmp_path / "y.npy", y)
    seen, inputs = source(tmp_path / "y.npy", inputs=1 if columns == 3 else 0).read(7, 31)
    np.testing.assert_array_equal(np.concatenate([seen, inputs], axis=1), y[7:31].reshape(24, -1).astype(np.float64))


def test_a_zarr_folder_that_changes_is_noticed(tmp_path, monkeypatch):
    """A chunk that is gone would read as zeros."""
    import zarr

    monkeypatch.setattr("nmax.data._source.OFTEN", 0.0)
    monkeypatch.setattr("nmax.data._source.SELDOM", 0.0)
    zarr.open_array(str(tmp_path / "y.zarr"), mode="w", shape=(5_001, 1), chunks=(500, 1), dtype="f4")[:] = rows()
    place = source(tmp_path / "y.zarr")
    before, found = place.read(700, 900)[0], LongSeries(place, statistics_of(place))
    chunks = sorted(file for file in (tmp_path / "y.zarr").rglob("*") if file.is_file() and file.stat().st_size > 900)
    chunks[1].rename(tmp_path / "away")
    with pytest.raises(nmax.data.SourceChangedError, match="must not change"):
        found.view(700, 200)
    (tmp_path / "away").rename(chunks[1])
    np.testing.assert_array_equal(place.read(700, 900)[0], before)
    (tmp_path / "y.zarr").rename(tmp_path / "gone.zarr")
    with pytest.raises(nmax.data.SourceChangedError, match="is gone"):
        found.view(700, 200)


def test_what_cannot_be_a_series_is_refused(tmp_path):
    import zarr

    bad = rows()
    bad[2_345] = np.inf
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(ValueError, match="infinite at row 2345"):
        statistics_of(source(tmp_path / "bad.npy"))
    np.save(tmp_path / "nan.npy", np.full((5, 1), np.nan))
    with pytest.raises(ValueError, match="only NaN"):
        statistics_of(source(tmp_path / "nan.npy"))
    np.save(tmp_path / "text.npy", np.array(["a", "b"]))
    with pytest.raises(ValueError, match="must hold numbers"):
        source(tmp_path / "text.npy")
    zarr.open_array(str(tmp_path / "one.zarr"), mode="w", shape=(), dtype="f4")
    zarr.open_array(str(tmp_path / "cube.zarr"), mode="w", shape=(5, 2, 3), dtype="f4")
    for name in ("one.zarr", "cube.zarr"):
        with pytest.raises(ValueError, match=r"must hold real numbers of shape \(rows, columns\)"):
            source(tmp_path / name)
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"half.parquet must be a whole Parquet file"):
        source(tmp_path / "half.parquet")
    (tmp_path / "y.csv").write_text("y\n1\n")
    with pytest.raises(ValueError, match=r"\.npy, \.parquet, \.zarr"):
        source(tmp_path / "y.csv")
    with pytest.raises(FileNotFoundError):
        source(tmp_path / "none.npy")


def test_zarr_and_parquet_read_the_same_rows(tmp_path):
    import pyarrow
    import pyarrow.parquet
    import zarr

    y = rows(0.2, 2)
    group = zarr.open_group(str(tmp_path / "y.zarr"), mode="w")
    group.create_array("y", shape=y.shape, chunks=(700, 2), dtype="f4")[:] = y
    table = pyarrow.table({"a": y[:, 0], "b": y[:, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "y.parquet", row_group_size=900)
    np.save(tmp_path / "y.npy", y)
    found = [statistics_of(source(tmp_path / f"y.{kind}")) for kind in ("npy", "zarr", "parquet")]
    assert len({one.sha256 for one in found}) == 1
    for kind in ("npy", "zarr", "parquet"):
        np.testing.assert_array_equal(source(tmp_path / f"y.{kind}").read(850, 950)[0], y[850:950].astype(np.float64))


def test_reading_ahead_keeps_the_order_and_the_errors():
    def read(k):
        if k == 4:
            raise OSError("gone")
        return 2 * k

    found = read_ahead(read, range(10))
    assert [next(found) for _ in range(4)] == [0, 2, 4, 6]
    with pytest.raises(OSError, match="gone"):
        next(found)


def test_stretches_of_a_series_in_memory_are_the_series():
    series = make_series(rows())
    guide = nmax.LookaheadGuide(layers=0).build(nmax.models.ar1(), series, key=jr.key(0))
    assert stretches(guide, series, [1, 2], 10) is series


@pytest.mark.parametrize(("size", "says"), [(1e40, "up to 3.4e.38.* in .*y.npy, in or after"), (1e-42, "must vary")])
def test_numbers_that_single_precision_cannot_hold_are_refused(tmp_path, size, says):
    np.save(tmp_path / "y.npy", size * np.random.default_rng(0).standard_normal((50, 1)))
    with pytest.raises(ValueError, match=says):
        statistics_of(source(tmp_path / "y.npy"))
