"""The command: a new user's path from a model file to a report, and what is refused on the way."""

import csv
import json
import os
import shlex
import shutil
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
    monkeypatch.setattr("nmax._fitted.examine", lambda fit, known, key: Check((finding,), {"khat": 0.4}, 1.0))
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


def same_trees(one, other):
    import xarray as xr

    with xr.open_datatree(one, engine="zarr") as one, xr.open_datatree(other, engine="zarr") as other:
        assert set(one.children) == set(other.children)
        for name, group in one.children.items():
            xr.testing.assert_equal(other[name].to_dataset(), group.to_dataset())


def test_paths_by_several_processes_are_those_of_one(here, capsys, monkeypatch):
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    asked = ["sample", "run", "--draws", "20", "--paths", "7"]
    printed(capsys, *asked, "--out", "one.zarr", "--chunk", "64")
    facts = printed(capsys, *asked, "--out", "two.zarr", "--chunk", "40", "--processes", "2")
    assert facts["processes"] == 2
    same_trees(here / "one.zarr", here / "two.zarr")
    assert not list(here.glob(".two.zarr.partial*"))


def test_paths_that_were_stopped_go_on_by_the_same_command(here, capsys, monkeypatch):
    asked = ["sample", "run", "--draws", "20", "--paths", "3", "--chunk", "40", "--summary", "--quiet", "--out"]
    assert main([*asked, "whole.zarr"]) == 0
    path, starts = nmax.Posterior.path, []

    def stopped(self, draws, **stretch):
        starts.append(stretch["start"])
        if len(starts) == 2:
            raise KeyboardInterrupt
        return path(self, draws, **stretch)

    monkeypatch.setattr(nmax.Posterior, "path", stopped)
    assert main([*asked, "stopped.zarr"]) == 130
    said = capsys.readouterr().err
    assert "what is done is kept. Go on with:  nmax sample run --out stopped.zarr" in said
    assert not (here / "stopped.zarr").exists()
    assert main([*asked, "stopped.zarr", "--seed", "2"]) == 2
    assert "must be asked for as it was begun; theta was" in capsys.readouterr().err
    starts[:] = [None] * 5
    assert main(shlex.split(said.split("Go on with:  nmax ")[1]) + ["--quiet"]) == 0
    assert starts[5:] == [40, 80, 120]  # what was there is not made again
    same_trees(here / "whole.zarr", here / "stopped.zarr")


def test_processes_that_fail_are_reported(here, capsys, monkeypatch):
    from nmax.cli._output import InputError
    from nmax.cli._shares import ShareError, in_shares, shares_of_cores

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(InputError, match="there is none"):
        in_shares(["sample", "nowhere", "--out", "paths.zarr"], 2, lambda: None, lambda told: None)
    (here / "breaks.py").write_text("import os\nos._exit(7)\n", encoding="utf-8")
    with pytest.raises(ShareError, match="it ended with code 7"):
        in_shares(["sample", "run", "--out", "paths.zarr", "--model", "breaks.py"], 3, lambda: None, lambda told: None)

    def until_told(told):  # this one's own share goes on until it is told of the other's failure
        for _ in range(600):
            told()
            time.sleep(0.1)

    with pytest.raises(ShareError, match="it ended with code 7"):
        in_shares(["sample", "run", "--out", "paths.zarr", "--model", "breaks.py"], 2, lambda: None, until_told)
    shares = list(shares_of_cores(3))
    assert len(shares) == 3
    if shares[0] is not None:
        assert set().union(*shares) == os.sched_getaffinity(0)


def test_a_long_series_goes_to_zarr_and_says_why(here, capsys, monkeypatch):
    monkeypatch.setattr("nmax.export.LARGEST", 10_000)
    assert main(["sample", "run", "--draws", "50", "--paths", "50", "--quiet"]) == 0
    assert "they go to run/samples.zarr, piece by piece" in capsys.readouterr().out
    assert (here / "run" / "samples.zarr").is_dir()
    shutil.rmtree(here / "run" / "samples.zarr")
    for extra, says in (
        (["--out", "long.nc", "--paths", "50"], "Pass --out long.zarr"),
        (["--out", "draws.nc", "--paths", "2", "--processes", "2"], "are for a .zarr"),
        (["--out", "draws.zarr", "--processes", "0"], "--processes must be 1 or more"),
        (["--exact", "--summary"], "leave them out"),
    ):
        assert main(["sample", "run", *extra]) == 2
        assert says in capsys.readouterr().err


def test_a_forecast_goes_on_from_the_last_row(here, capsys):
    facts = printed(capsys, "forecast", "run", "--steps", "5", "--draws", "200")
    rows = rows_of(facts["file"])
    assert len(rows) == 5
    last = rows_of(here / "data.csv")[-1]
    assert float(next(iter(rows[0].values()))) == float(last["time"]) + 1


@pytest.mark.extra
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


def test_a_signal_is_heeded_where_nothing_looks_up():
    """As in a long compilation: Python's own handlers wait until it is over."""
    code = """
import hashlib
from nmax.cli import _stop
_stop.PATIENCE = 0.5
with _stop.heeded(lambda number: f"ended by {number}"):
    print(flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=-1, stderr=-1, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(1.0)  # from the line to the call that does not look up
            process.send_signal(number)
            said = process.communicate(timeout=60)[1]
        assert process.returncode == 128 + number
        assert f"ended by {int(number)}" in said


def test_compiled_programs_are_kept_and_damaged_or_unwritable_caches_are_no_trouble(here, tmp_path):
    def simulated(caches):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(caches)}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        command = [sys.executable, "-m", "nmax", "simulate", "model.py", "--steps", "30", "--out", str(tmp_path / "y.csv")]
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        text = (tmp_path / "y.csv").read_text(encoding="utf-8")
        (tmp_path / "y.csv").unlink()
        return text, {file: file.stat().st_size for file in Path(caches).rglob("*") if file.is_file()}

    first, kept = simulated(tmp_path / "caches")
    assert kept
    for file in kept:
        file.write_bytes(file.read_bytes()[:20])
    old = next(iter(kept)).with_name("old")
    old.touch()
    os.utime(old, (0, 0))
    assert simulated(tmp_path / "caches") == (first, dict.fromkeys(kept, 20))
    (tmp_path / "file").touch()
    again, none = simulated(tmp_path / "file" / "no-folder")
    assert (again, none) == (first, {})
