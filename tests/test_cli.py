"""The command: a new user's path from a model file to a report, and what is refused on the way."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import nmax
from nmax.checks import Check, Finding
from nmax.cli import main

ROOT = Path(__file__).resolve().parents[1]
FILES = ("--out", "data.csv", "--path", "x.csv")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, a series with gaps, and a finished run."""
    jax.config.update("jax_disable_most_optimizations", True)
    folder = tmp_path_factory.mktemp("user")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["new", "model.py"]) == 0
        assert main(["simulate", "model.py", "--steps", "150", "--missing", "0.3", *FILES]) == 0
        assert main(["fit", "model.py", "data.csv", "--out", "run", "--quiet", "--no-check"]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    return place


def rows_of(file):
    return list(csv.DictReader(Path(file).read_text(encoding="utf-8").splitlines()))


def printed(capsys, *arguments):
    """The JSON that a command prints."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_simulated_series_lacks_rows_and_not_times(here):
    rows = rows_of(here / "data.csv")
    times = [float(row["time"]) for row in rows]
    assert times[0] == 0
    assert 80 < len(times) < 130
    assert len(rows_of(here / "x.csv")) == 151


def test_a_run_says_what_it_is(here, capsys):
    facts = printed(capsys, "info", "run")
    assert facts["run"]["status"] == "finished"
    assert facts["source"]["model"].endswith("model.py")
    assert set(facts["summary"]["parameters"]) == {"level", "memory", "noise", "error"}
    assert {"run.json", "data.npz", "fitted.npz", "history.csv", "posterior.nc", "model.txt"} <= set(facts["files"])
    assert main(["info", "run"]) == 0
    assert "level" in capsys.readouterr().out
    assert printed(capsys, "info")["versions"]["nmax"] == nmax.__version__


def test_the_fitted_grid_has_the_gaps(here):
    from nmax._series_file import read_table

    table = read_table(here / "run")
    assert table.columns == ("y",)
    assert 0.15 < np.isnan(table.y).mean() < 0.45
    np.testing.assert_allclose(np.diff(table.times), 1.0)


def test_the_same_command_reads_what_is_there_and_another_is_refused(here, capsys):
    facts = printed(capsys, "fit", "model.py", "data.csv", "--out", "run", "--no-check")
    assert facts["run"] == "run"
    assert main(["fit", "model.py", "data.csv", "--out", "run", "--no-check", "--seed", "5", "--quiet"]) == 2
    assert "settings.key" in capsys.readouterr().err


def test_a_check_is_kept_with_the_run(here, capsys, monkeypatch):
    finding = Finding("path", "trust the means, not the widths", "it is narrow", "Widen it")
    monkeypatch.setattr("nmax._posterior.examine", lambda fit, known, key: Check((finding,), {"khat": 0.4}, 1.0))
    assert printed(capsys, "check", "run")["verdict"] == "trust the means, not the widths"
    kept = nmax.load(here / "run", __import__("nmax.cli._model_file", fromlist=["model_from"]).model_from(here / "model.py"))
    assert kept.checked is not None
    assert kept.checked.findings == (finding,)
    assert printed(capsys, "info", "run")["check"]["verdict"] == "trust the means, not the widths"
    (here / "run" / "check.json").unlink()


def test_draws_go_to_a_file_by_the_arviz_schema(here, capsys):
    import xarray as xr

    facts = printed(capsys, "sample", "run", "--draws", "50", "--paths", "7", "--out", "draws.nc")
    with xr.open_datatree(facts["file"], engine="h5netcdf") as tree:
        assert tree["posterior"]["level"].sizes["draw"] == 50
    assert main(["sample", "run", "--out", "draws.nc"]) == 2
    assert "already" in capsys.readouterr().err


def test_a_forecast_goes_on_from_the_last_row(here, capsys):
    facts = printed(capsys, "forecast", "run", "--steps", "5", "--draws", "200")
    rows = rows_of(facts["file"])
    assert len(rows) == 5
    last = rows_of(here / "data.csv")[-1]
    assert float(next(iter(rows[0].values()))) == float(last["time"]) + 1


def test_a_report_is_one_page(here, capsys):
    facts = printed(capsys, "report", "run", "--forecast", "5")
    page = Path(facts["file"]).read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "memory" in page
    assert "nmax fit" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["new", "model.py"], "is there already"),
        (["new", "model.txt"], "suffix .py"),
        (["simulate", "none.py", "--out", "y.csv"], "nmax new none.py"),
        (["simulate", "model.py", "--out", "y.npy"], "--out must be a .csv file"),
        (["simulate", "model.py", "--out", "y.csv", "--path", "x.parquet"], "--path must be a .csv file"),
        (["simulate", "model.py", "--out", "y.csv", "--set", "noise"], "NAME=VALUE"),
        (["simulate", "model.py", "--out", "y.csv", "--set", "nose=1"], "unknown"),
        (["simulate", "model.py", "--out", "y.csv", "--missing", "1.5"], "--missing"),
        (["fit", "data.csv", "model.py", "--out", "r"], "MODEL.py DATA"),
        (["fit", "model.py", "none.csv", "--out", "r"], "none.csv"),
        (["fit", "model.py", "data.csv", "--columns", "z", "--out", "r"], "z"),
        (["fit", "model.py", "data.csv", "--out", "data.csv"], "folder"),
        (["fit", "model.py", "data.csv", "--out", "."], "other files"),
        (["fit", "broken.py", "data.csv", "--out", "r"], "ZeroDivisionError"),
        (["fit", "empty.py", "data.csv", "--out", "r"], "must define `model`"),
        (["fit", "wrong.py", "data.csv", "--out", "r"], "line 1"),
        (["resume", "nowhere"], "run folder"),
        (["report", "nowhere"], "run folder"),
        (["forecast", "run", "--steps", "0"], "steps"),
        (["report", "run", "--model", "other.py"], "model.prior.level was Normal"),
        (["report", "elsewhere"], "nothing in a run folder is run"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(here, capsys, arguments, says):
    (here / "broken.py").write_text("model = 1 / 0\n", encoding="utf-8")
    (here / "empty.py").write_text("x = 1\n", encoding="utf-8")
    (here / "wrong.py").write_text("model = = 1\n", encoding="utf-8")
    other = (here / "model.py").read_text(encoding="utf-8").replace("dist.Normal(0.0, 10.0)", "dist.Normal(0.0, 11.0)")
    (here / "other.py").write_text(other, encoding="utf-8")
    (here / "elsewhere").mkdir(exist_ok=True)
    (here / "elsewhere" / "run.json").write_bytes((here / "run" / "run.json").read_bytes())
    inside = str((here / "elsewhere" / "model.py").resolve())
    (here / "elsewhere" / "source.json").write_text(json.dumps({"model": inside}), encoding="utf-8")
    assert main([*arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (here / "r").exists()


def test_an_interrupt_leaves_a_run_that_goes_on(here):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-m", "nmax", "fit", "model.py", "data.csv", "--out", "stopped", "--quiet", "--no-check"]
    process = subprocess.Popen(command, cwd=here, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (here / "stopped" / "run.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 143
    assert "nmax resume stopped" in said
    assert json.loads((here / "stopped" / "run.json").read_text())["status"] == "running"
    assert main(["resume", "stopped", "--quiet", "--no-check"]) == 0
    with np.load(here / "stopped" / "fitted.npz") as one, np.load(here / "run" / "fitted.npz") as other:
        for name in set(one.files) - {"nmax"}:
            np.testing.assert_array_equal(one[name], other[name])
