"""The command on several series that share θ: fitted together, asked about one by one."""

import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest

import nmax
from nmax.cli import main

pytestmark = pytest.mark.extra  # a fit or two of their own, minutes together


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a run of three series."""
    jax.config.update("jax_disable_most_optimizations", True)
    folder = tmp_path_factory.mktemp("panel")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["new", "model.py"]) == 0
        for k, steps in enumerate((60, 90, 40)):
            own = ["--steps", str(steps), "--seed", str(k), "--out", f"{k}.csv"]
            assert main(["simulate", "model.py", *own]) == 0
        fit = ["fit", "model.py", "0.csv", "1.csv", "2.csv", "--out", "run", "--seed", "3", "--quiet", "--no-check"]
        assert main(fit) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


def loaded(here):
    from nmax.cli._model_file import model_from

    return nmax.load(here / "run", model_from(here / "model.py"))


def test_the_run_is_of_all_series(here, capsys):
    assert loaded(here).series.lengths == (60, 90, 40)
    assert main(["resume", "run", "--quiet", "--no-check"]) == 0
    assert "nmax report run --series 0" in capsys.readouterr().out
    assert main(["info", "run"]) == 0
    assert "2.csv" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["forecast", "run", "--steps", "3"], ["report", "run"], ["sample", "run"]])
@pytest.mark.parametrize("series", [[], ["--series", "3"]])
def test_what_is_about_a_path_asks_for_a_series(here, capsys, command, series):
    assert main([*command, *series]) == 2
    assert "run of 3 series" in (said := capsys.readouterr().err)
    assert "Pass --series K, K from 0 to 2" in said


@pytest.mark.extra
def test_a_forecast_is_that_of_its_series(here):
    import jax.random as jr

    assert main(["forecast", "run", "--series", "1", "--steps", "3", "--draws", "200"]) == 0
    rows = (here / "run" / "forecast-1.csv").read_text().splitlines()
    expected = loaded(here).one(1).forecast(3, 200, key=jr.key(2)).summary()
    np.testing.assert_allclose(float(rows[-1].split(",")[1]), expected.mean[-1, 0], rtol=1e-5)


@pytest.mark.extra
def test_draws_and_pages_are_of_their_series(here):
    import xarray as xr

    assert main(["sample", "run", "--series", "2", "--draws", "20", "--paths", "5"]) == 0
    with xr.open_datatree(here / "run" / "samples-2.nc", engine="h5netcdf") as tree:
        assert tree["posterior_paths"]["x"].sizes["time"] == 41
    many = ["--draws", "20", "--paths", "5", "--processes", "2", "--quiet"]
    assert main(["sample", "run", "--series", "2", *many]) == 0
    with xr.open_datatree(here / "run" / "samples-2.zarr", engine="zarr") as tree:
        assert tree["posterior_paths"]["x"].sizes["time"] == 41
    assert main(["report", "run", "--series", "0", "--forecast", "2"]) == 0
    page = (here / "run" / "report-0.html").read_text()
    assert "--seed 3" in page
    assert "nmax report run --series 0" in page


@pytest.mark.extra
def test_a_run_of_one_series_has_no_others(here, capsys):
    own = ["--steps", "60", "--guide", "nma", "--no-check", "--quiet"]
    assert main(["fit", "model.py", "2.csv", "--out", "single", *own]) == 0
    kept = json.loads((here / "single" / "source.json").read_text())
    assert kept["options"] == {"guide": "nma", "steps": 60}
    assert main(["forecast", "single", "--series", "0", "--steps", "3"]) == 2
    assert "--series is for a run of several series" in capsys.readouterr().err
    assert main(["sample", "run", "--series", "0", "--exact"]) == 2
    assert "Leave --exact out" in capsys.readouterr().err
