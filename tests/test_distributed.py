"""Several processes on this machine: the same trajectory as one, own windows only, and an end when one of them dies."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np
import pytest

import nmax

WORKER = Path(__file__).with_name("distributed_worker.py")


def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def run(folder, count, what, timeout=400):
    """Exit codes, what was said and, where there are some, the results of so many processes."""
    place, commands = address(), []
    for rank in range(count):
        command = [sys.executable, str(WORKER), place, str(count), str(rank), str(folder), what]
        commands.append(subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True))
    said = [process.communicate(timeout=timeout)[1] for process in commands]
    files = [folder / f"{what}-{count}-{rank}.json" for rank in range(count)]
    results: list[Any] = [json.loads(file.read_text()) if file.exists() else None for file in files]
    return [process.returncode for process in commands], said, results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("distributed")
    y = nmax.simulate(nmax.models.ar1(), {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 3_000, key=jr.key(1)).y
    np.save(place / "y.npy", y)
    return place


@pytest.fixture(scope="module")
def alone(folder):
    codes, said, (result,) = run(folder, 1, "train")
    assert codes == [0], said
    return result


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.extra)])
def test_processes_together_go_where_one_goes(folder, alone, count):
    codes, said, results = run(folder, count, "train")
    assert codes == [0] * count, said
    for result in results:
        assert result == results[0]
        np.testing.assert_allclose(result["history"][:30], alone["history"][:30], rtol=1e-4)
        np.testing.assert_allclose(result["loc"], alone["loc"], rtol=1e-2, atol=1e-2)


@pytest.mark.extra
def test_each_process_reads_its_own_windows(folder, alone):
    codes, said, results = run(folder, 2, "disk-train")
    assert codes == [0, 0], said
    np.testing.assert_allclose(results[0]["history"][:30], alone["history"][:30], rtol=1e-4)
    codes, said, (one,) = run(folder, 1, "disk-train")
    assert codes == [0], said
    assert max(result["read"] for result in results) < 0.75 * one["read"]


@pytest.mark.extra
def test_several_series_are_divided_likewise(folder):
    results = []
    for count in (1, 2):
        codes, said, found = run(folder, count, "many-train")
        assert codes == [0] * count, said
        results += found
    assert results[1] == results[2]
    np.testing.assert_allclose(results[1]["history"][:30], results[0]["history"][:30], rtol=1e-4)
    np.testing.assert_allclose(results[1]["loc"], results[0]["loc"], rtol=1e-2, atol=1e-2)


@pytest.mark.extra
def test_the_look_ahead_finds_the_same_with_two(folder):
    results = []
    for count in (1, 2):
        codes, said, found = run(folder, count, "lookahead")
        assert codes == [0] * count, said
        results += found
    for result in results[1:]:
        np.testing.assert_allclose(result["loc"], results[0]["loc"], rtol=1e-4, atol=1e-4)


@pytest.mark.extra
def test_a_process_that_dies_ends_the_run_and_another_number_goes_on(folder, alone):
    codes, said, _ = run(folder, 2, "out-die")
    assert codes[1] == 9
    assert codes[0] != 0
    assert sorted((folder / "run" / "checkpoints").glob("step-*.npz"))
    codes, said, (result,) = run(folder, 1, "out")
    assert codes == [0], said
    np.testing.assert_allclose(result["history"][:30], alone["history"][:30], rtol=1e-4)
    np.testing.assert_allclose(result["loc"], alone["loc"], rtol=1e-2, atol=1e-2)


@pytest.mark.extra
def test_the_command_checks_what_several_processes_have_fitted(tmp_path):
    """The first one does so alone, when the others have left."""
    (tmp_path / "model.py").write_text("import nmax\n\nmodel = nmax.models.ar1()\n")
    y = nmax.simulate(nmax.models.ar1(), {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 1_000, key=jr.key(1)).y
    np.savetxt(tmp_path / "y.csv", y, header="y", comments="")
    place = ["--distributed", "--coordinator", address(), "--processes", "2", "--process"]
    fit = [sys.executable, "-m", "nmax", "fit", "model.py", "y.csv", "--out", "run", "--quiet", *place]
    commands = [subprocess.Popen([*fit, str(rank)], cwd=tmp_path, stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
    said = [process.communicate(timeout=600)[1] for process in commands]
    assert [process.returncode for process in commands] == [0, 0], said
    assert json.loads((tmp_path / "run" / "check.json").read_text())["verdict"]
