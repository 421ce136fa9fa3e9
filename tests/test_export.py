"""Exports: groups, axes, names and times as they should be, files that read back, long paths piece by piece."""

import copy
import dataclasses
import shutil

import jax
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from helpers import random_walk, untrained

import nmax
from nmax._chains import Record
from nmax._draws import Draws
from nmax._noise_density import noise_density
from nmax.export import _groups as groups
from nmax.export import _tree as tree_module

TRUTH = {"level": 2.0, "noise": 1.0}
START = np.datetime64("2024-01-01T00", "h")


@pytest.fixture(scope="module")
def fitted():
    model = random_walk(with_inputs=True)
    inputs = np.sin(np.arange(61.0))[:, None]
    _, y = nmax.simulate(model, TRUTH, 60, inputs=inputs, key=jr.key(3))
    y[20:23] = np.nan
    table = nmax.data.Table(y, inputs, ("flow",), ("heat",), START + 3 * np.arange(61), "hour", ("put on a grid",))
    return untrained(model, table, TRUTH)


@pytest.fixture(scope="module")
def chains(fitted):
    """Draws laid out as chains lay them out, made up rather than sampled."""
    rng, density = np.random.default_rng(0), noise_density(fitted.guide, fitted.series)
    size, shape = density.shape
    e, z = rng.normal(size=(25, 2, size)).astype(np.float32), rng.normal(size=(25, 2, *shape)).astype(np.float32)
    theta = np.asarray(jax.vmap(jax.vmap(lambda e: fitted.guide.theta(e)[0]))(e))
    number = rng.uniform(size=(4, 25, 2))
    record = Record(theta, e, z, number[0], np.round(9 * number[1]), number[2] > 0.9, number[3])
    return Draws(density, fitted.table, record, 1.0)


@pytest.fixture(scope="module")
def tree(fitted):
    ahead = fitted.forecast(5, 20, inputs=np.ones((5, 1)), key=jr.key(1))
    return fitted.to_datatree(draws=200, paths=20, forecast=ahead, key=jr.key(1))


def test_notes_of_the_table_which_a_fit_repeats_are_there_once(fitted):
    fit = copy.copy(fitted)
    fit.notes = (*fit.table.notes, "moved")
    assert groups.facts(fit)["notes"] == ["put on a grid", "moved"]


def test_groups_axes_and_coordinates_are_those_of_the_schema(fitted, tree):
    axes = {
        "posterior": {"chain": 1, "draw": 200},
        "sample_stats": {"chain": 1, "draw": 200},
        "observed_data": {"time": 61, "column": 1},
        "constant_data": {"time": 61, "input": 1},
        "fit_history": {"step": len(fitted.history.total)},
        "predictions": {"chain": 1, "draw": 20, "time": 5, "column": 1, "state": 1},
        "predictions_constant_data": {"time": 5, "input": 1},
        "posterior_paths": {"chain": 1, "draw": 20, "time": 61, "state": 1},
        "posterior_predictive": {"chain": 1, "draw": 20, "time": 61, "column": 1},
    }
    assert {name: dict(group.sizes) for name, group in tree.children.items()} == axes
    assert set(tree["posterior"].data_vars) == {"level", "noise"}
    np.testing.assert_array_equal(tree["posterior_paths"]["time"], START + 3 * np.arange(61))
    np.testing.assert_array_equal(tree["predictions"]["time"], START + 3 * np.arange(61, 66))
    assert list(tree["observed_data"]["column"].values) == ["flow"]
    assert list(tree["constant_data"]["input"].values) == ["heat"]
    assert list(tree["posterior_paths"]["state"].values) == ["x"]
    assert tree["observed_data"]["time"].attrs["long_name"] == "hour"
    facts = tree.attrs
    assert facts["inference_library"] == "nmax"
    assert facts["inference_library_version"] == nmax.__version__
    assert facts["verdict"] == "not checked"
    assert facts["reason"] == fitted.reason
    assert "put on a grid" in facts["notes"]
    assert tree["posterior"].attrs["created_at"] == facts["created_at"]


def test_draws_are_joint_and_the_same_as_those_of_the_fit(fitted, tree):
    theta, x = fitted.theta(200, key=jr.key(1)), fitted.path(20, key=jr.key(1))
    np.testing.assert_array_equal(tree["posterior"]["level"][0], theta["level"])
    np.testing.assert_array_equal(tree["posterior_paths"]["x"][0], x)
    np.testing.assert_array_equal(tree["posterior_predictive"]["y"][0], fitted.predictive(20, key=jr.key(1)))
    np.testing.assert_array_equal(tree["observed_data"]["y"], fitted.table.y)
    at = {name: values[7] for name, values in theta.items()}
    np.testing.assert_allclose(tree["sample_stats"]["log_q"][0, 7], fitted.log_prob(at), atol=1e-3)
    np.testing.assert_allclose(tree["fit_history"]["total"], fitted.history.total)


def test_months_become_times_that_a_file_can_hold(tmp_path):
    months = np.array(["2024-01", "2024-02", "2024-03"], "datetime64[M]")
    group = groups.data(nmax.data.Table(np.ones((3, 1)), None, ("a",), (), months, "month"), 1, 3)["observed_data"]
    np.testing.assert_array_equal(group["time"], months[1:].astype("datetime64[s]"))
    group.to_netcdf(tmp_path / "months.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "months.nc", engine="h5netcdf") as back:
        xr.testing.assert_equal(back, group)


def test_netcdf_reads_back_as_it_was(tree, tmp_path):
    tree.to_netcdf(tmp_path / "fit.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "fit.nc", engine="h5netcdf") as back:
        assert set(back.children) == set(tree.children)
        for name, group in tree.children.items():
            xr.testing.assert_equal(back[name].to_dataset(), group.to_dataset())
        assert back.attrs["reason"] == tree.attrs["reason"]


def test_zarr_written_piece_by_piece_is_the_tree_and_opens_lazily(fitted, tree, tmp_path, monkeypatch):
    rows = []
    path = type(fitted).path
    monkeypatch.setattr(
        type(fitted), "path", lambda self, n, **o: rows.append(o.get("stop", 61) - o.get("start", 0)) or path(self, n, **o)
    )
    ahead = fitted.forecast(5, 20, inputs=np.ones((5, 1)), key=jr.key(1))
    folder = fitted.to_zarr(tmp_path / "run" / "fit.zarr", draws=200, paths=20, chunk=16, forecast=ahead, key=jr.key(1))
    assert max(rows) == 16  # never the whole path
    with xr.open_datatree(folder, engine="zarr") as back:
        lazy = back["posterior_paths"]["x"].variable
        assert not lazy._in_memory
        assert lazy.encoding["chunks"] == (1, 20, 16, 1)
        for name, group in tree.children.items():
            xr.testing.assert_equal(back[name].to_dataset(), group.to_dataset())
        assert back.attrs["reason"] == tree.attrs["reason"]
    with pytest.raises(FileExistsError, match="must not exist yet"):
        fitted.to_zarr(folder)
    assert [each.name for each in (tmp_path / "run").iterdir()] == ["fit.zarr"]  # nothing else is left


def test_zarr_that_was_stopped_goes_on_and_is_the_same(fitted, tmp_path, monkeypatch):
    options = {"draws": 30, "paths": 5, "chunk": 16, "key": jr.key(1)}
    whole = fitted.to_zarr(tmp_path / "whole.zarr", **options)
    path, starts = type(fitted).path, []

    def stopped(self, n, **o):
        starts.append(o["start"])
        if len(starts) == 3:
            raise KeyboardInterrupt
        return path(self, n, **o)

    monkeypatch.setattr(type(fitted), "path", stopped)
    with pytest.raises(KeyboardInterrupt):
        fitted.to_zarr(tmp_path / "stopped.zarr", **options)
    assert not (tmp_path / "stopped.zarr").exists()  # a half-written folder is never taken for a whole one
    with pytest.raises(ValueError, match="paths was 5, is 6"):
        fitted.to_zarr(tmp_path / "stopped.zarr", **options | {"paths": 6})
    other = copy.copy(fitted)  # as of several series that share θ
    other.series = dataclasses.replace(fitted.series, values=fitted.series.values + 1.0)
    with pytest.raises(ValueError, match="data was"):
        other.to_zarr(tmp_path / "stopped.zarr", **options)
    starts.clear()
    fitted.to_zarr(tmp_path / "stopped.zarr", **options)
    assert starts == [32, 48]  # what was there is not made again
    with xr.open_datatree(whole, engine="zarr") as one, xr.open_datatree(tmp_path / "stopped.zarr", engine="zarr") as other:
        for name, group in one.children.items():
            xr.testing.assert_equal(other[name].to_dataset(), group.to_dataset())


def test_zarr_whose_process_was_killed_before_its_last_step_is_made_again(fitted, tmp_path):
    options = {"draws": 30, "paths": 5, "chunk": 16, "key": jr.key(1)}
    whole = fitted.to_zarr(tmp_path / "whole.zarr", **options)
    fitted.to_zarr(tmp_path / "killed.zarr", share=(0, 2), **options)
    partial = tmp_path / ".killed.zarr.partial"
    shutil.rmtree(partial / "content")  # it was put in its place, and taken away from there
    fitted.to_zarr(tmp_path / "killed.zarr", **options)
    with xr.open_datatree(whole, engine="zarr") as one, xr.open_datatree(tmp_path / "killed.zarr", engine="zarr") as other:
        for name, group in one.children.items():
            xr.testing.assert_equal(other[name].to_dataset(), group.to_dataset())


def test_zarr_in_shares_and_in_other_chunks_is_the_same(fitted, tmp_path):
    options = {"draws": 30, "paths": 5, "key": jr.key(1)}
    whole = fitted.to_zarr(tmp_path / "whole.zarr", chunk=16, **options)
    shared = tmp_path / "shared.zarr"
    fitted.to_zarr(shared, chunk=7, share=(1, 2), **options)
    assert not shared.exists()  # the other half is missing
    fitted.to_zarr(shared, chunk=7, share=(0, 2), **options)
    with xr.open_datatree(whole, engine="zarr") as one, xr.open_datatree(shared, engine="zarr") as other:
        for name, group in one.children.items():
            xr.testing.assert_equal(other[name].to_dataset(), group.to_dataset())
    with pytest.raises(ValueError, match="0 <= k < n"):
        fitted.to_zarr(tmp_path / "none.zarr", share=(2, 2), **options)


def test_summaries_of_paths_are_those_of_the_paths(fitted, tmp_path):
    folder = fitted.to_zarr(tmp_path / "summary.zarr", draws=30, paths=20, chunk=16, summary=True, key=jr.key(1))
    x = fitted.path(20, key=jr.key(1))
    with xr.open_datatree(folder, engine="zarr") as tree:
        assert "posterior_paths" not in tree
        found = tree["path_summary"].to_dataset()
        np.testing.assert_allclose(found["mean"], x.mean(axis=0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["sd"], x.std(axis=0, ddof=1), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["quantile"], np.quantile(x, found["level"], axis=0), rtol=1e-5, atol=1e-5)


def test_chains_keep_their_layout(chains):
    tree = chains.to_datatree(paths=10)
    count = chains.record.theta.shape[0]
    assert dict(tree["posterior"].sizes) == {"chain": 2, "draw": count}
    theta = chains.theta()["level"].reshape(count, 2)
    np.testing.assert_array_equal(tree["posterior"]["level"], theta.T)
    np.testing.assert_array_equal(tree["sample_stats"]["diverging"], np.asarray(chains.record.divergent).T)
    np.testing.assert_allclose(tree["sample_stats"]["energy"], np.asarray(chains.record.energy).T)
    assert set(tree["sample_stats"].data_vars) == {"acceptance_rate", "diverging", "energy", "n_steps"}
    shown = tree["posterior_paths"]["draw"].values
    assert len(shown) == 5
    x = chains.path().reshape(count, 2, 61, 1)
    np.testing.assert_array_equal(tree["posterior_paths"]["x"][1], x[shown, 1])
    assert tree["posterior_predictive"]["y"].shape == (2, 5, 61, 1)
    assert "fit_history" not in tree.children
    assert dict(chains.to_datatree(draws=12, paths=4)["posterior"].sizes) == {"chain": 2, "draw": 6}


def test_chains_forecast_and_simulate_as_a_fit_does(chains):
    ahead = chains.forecast(3, 12, inputs=np.zeros((3, 1)), key=jr.key(2))
    assert ahead.y.shape == (12, 3, 1)
    np.testing.assert_array_equal(ahead.theta["level"], chains.theta(12, key=jr.key(2))["level"])
    assert chains.predictive(6, start=10, stop=15, key=jr.key(2)).shape == (6, 5, 1)
    assert isinstance(chains, Draws)
    assert chains.predictive_check(draws=30, key=jr.key(2)).notes[0].startswith("30 series simulated anew over 61 rows")


def test_what_cannot_be_exported_is_refused_before_any_work(fitted, monkeypatch):
    monkeypatch.setattr(tree_module, "LARGEST", 4 * 61 * 2 * 50)
    with pytest.raises(ValueError, match=r"`paths=100` of 61 rows would take .* pass `paths=50`"):
        fitted.to_datatree()
    with pytest.raises(ValueError, match="cannot be a number of steps"):
        fitted.to_datatree(forecast=5)
    with pytest.raises(ValueError, match="`paths` must be"):
        fitted.to_datatree(paths=0)
    model = dataclasses.replace(fitted.model, prior={"draw": dist.Normal(0.0, 1.0)})
    monkeypatch.setattr(fitted, "model", model)
    with pytest.raises(ValueError, match="must not be called 'draw'"):
        fitted.to_datatree()
