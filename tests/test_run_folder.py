"""Run folders: what is kept is what was fitted, a stop loses nothing, damage and other runs are refused."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from numpyro.distributions.transforms import AffineTransform

import nmax
from nmax import _train
from nmax._checkpoint import FolderKeeper
from nmax._claim import LOCK, Claim
from nmax._identity import described_distribution, model_identity
from nmax._lock import locked
from nmax._progress import Silent
from nmax._run_folder import save_results
from nmax._scores import LANES, Scores
from nmax._series_file import STATISTICS, keep_table, read_table
from nmax._step import History
from nmax._store import DamagedFileError, read_arrays, write_arrays, write_bytes
from nmax._trees import named_leaves, with_leaves
from nmax.cli import main
from nmax.data import as_table

THETA = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
PLAIN = {
    "guide": nmax.MovingAverageGuide(layers=1, length=3, width=16, depth=1, radius=2, theta_layers=1),
    "pretrain": 20,
    "steps": 400,
    "draws": 2,
    "window": 20,
    "key": jr.key(3),
    "progress": False,
}


def data(length=120):
    return nmax.simulate(nmax.models.ar1(), THETA, length, key=jr.key(1)).y


def same(one, other):
    there, here = named_leaves(one), named_leaves(other)
    assert there.keys() == here.keys()
    for name, array in there.items():
        np.testing.assert_array_equal(array, here[name])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "lookahead"
    model = nmax.models.ar1()
    table = nmax.data.Table(data(), None, ("price",), times=np.arange(121) * 0.5, time_name="hours")
    return model, table, folder, nmax.fit(model, table, key=jr.key(0), out=folder, progress=False)


def test_arrays_and_facts_come_back_as_they_were(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "['odd'].name": np.float32(2.0), "none": np.zeros((0, 2), np.int32)}
    write_arrays(tmp_path / "f.npz", arrays, {"x": [1, None, "é"], "bad": float("nan")})
    back, facts = read_arrays(tmp_path / "f.npz")
    assert facts == {"x": [1, None, "é"], "bad": None}
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == np.asarray(array).dtype
        np.testing.assert_array_equal(back[name], array)


def test_any_changed_byte_is_noticed_or_harmless(tmp_path):
    arrays = {"a": np.arange(40.0)}
    write_arrays(tmp_path / "f.npz", arrays, {"x": 1})
    good = (tmp_path / "f.npz").read_bytes()
    rng = np.random.default_rng(0)
    for trial in range(200):
        bad = bytearray(good)
        if trial % 4 == 0:
            bad = bad[: rng.integers(len(bad))]
        else:
            for place in rng.integers(len(bad), size=rng.integers(1, 4)):
                bad[place] ^= int(rng.integers(1, 256))
        (tmp_path / "f.npz").write_bytes(bytes(bad))
        try:
            back, facts = read_arrays(tmp_path / "f.npz")
        except DamagedFileError:
            continue
        np.testing.assert_array_equal(back["a"], arrays["a"])
        assert facts == {"x": 1}


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), OSError(24, "Too many open files"), MemoryError()])
def test_what_the_system_cannot_do_is_no_damage(tmp_path, monkeypatch, error):
    def failing(*arguments, **options):
        raise error

    write_arrays(tmp_path / "f.npz", {"a": np.arange(3.0)}, {})
    monkeypatch.setattr("numpy.load", failing)
    with pytest.raises(type(error)):
        read_arrays(tmp_path / "f.npz")
    if isinstance(error, MemoryError):  # wrong bytes may ask for any amount of it
        (tmp_path / "f.npz").write_bytes((tmp_path / "f.npz").read_bytes()[:-100])
        with pytest.raises(DamagedFileError):
            read_arrays(tmp_path / "f.npz")


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    write_bytes(tmp_path / "f", b"old")
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_bytes(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["f"]


def test_leaves_of_other_shapes_are_refused():
    tree = {"a": np.zeros(3), "key": jr.key(1)}
    kept = named_leaves(tree)
    same(with_leaves(tree, kept), tree)
    with pytest.raises(ValueError, match="must have shape"):
        with_leaves({"a": np.zeros(2), "key": jr.key(1)}, kept)
    with pytest.raises(ValueError, match="same arrays"):
        with_leaves({"b": np.zeros(3), "key": jr.key(1)}, kept)


def test_a_loaded_fit_is_the_fit(finished):
    model, table, folder, fit = finished
    again = nmax.load(folder, model)
    same(again.guide, fit.guide)
    assert again.reason == fit.reason
    assert again.notes == fit.notes
    assert again.windows == fit.windows
    assert dataclasses.astuple(again.convergence) == pytest.approx(dataclasses.astuple(fit.convergence), nan_ok=True)
    np.testing.assert_array_equal(again.history.total, fit.history.total)
    assert again.table.columns == ("price",)
    assert again.table.time_name == "hours"
    np.testing.assert_array_equal(again.table.times, table.times)
    np.testing.assert_array_equal(again.path(3, key=jr.key(5)), fit.path(3, key=jr.key(5)))
    assert again.elbo(key=jr.key(6)) == fit.elbo(key=jr.key(6))
    assert len(again.modes) == len(fit.modes)


def test_the_folder_can_be_read_without_nmax(finished):
    _, _, folder, fit = finished
    run = json.loads((folder / "run.json").read_text())
    assert run["status"] == "finished"
    assert run["settings"]["guide"]["kind"] == "LookaheadGuide"
    assert set(run["model"]["prior"]) == {"intercept", "coefficient", "noise"}
    rows = (folder / "history.csv").read_text().splitlines()
    assert rows[0].startswith("step,")
    assert len(rows) == 1 + fit.steps
    assert json.loads((folder / "summary.json").read_text())["parameters"]["noise"]["sd"] > 0
    with np.load(folder / "fitted.npz", allow_pickle=False) as file:
        assert "guide.theta_flow.head.loc" in file.files


def test_results_of_a_long_series_hold_no_paths(finished, tmp_path, monkeypatch):
    *_, fit = finished
    monkeypatch.setattr("nmax._run_folder.SHORT", 100)
    save_results(fit, tmp_path, draws=20)
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as tree:
        assert tree["posterior"]["noise"].sizes["draw"] == 20
        assert "posterior_paths" not in tree


def test_the_same_call_reads_a_finished_run(finished, monkeypatch):
    model, table, folder, fit = finished
    monkeypatch.setattr("nmax._fit.locate", None)  # would be called if anything were fitted
    same(nmax.fit(model, table, key=jr.key(0), out=folder, progress=False).guide, fit.guide)
    same(nmax.resume(folder, model, progress=False).guide, fit.guide)


def test_another_model_or_data_or_settings_are_refused_and_named(finished):
    model, table, folder, _ = finished
    with pytest.raises(ValueError, match="settings.key"):
        nmax.fit(model, table, key=jr.key(1), out=folder, progress=False)
    with pytest.raises(ValueError, match="settings.guide.starts was 8, is 2"):
        nmax.fit(model, table, key=jr.key(0), guide=nmax.LookaheadGuide(starts=2), out=folder, progress=False)
    with pytest.raises(ValueError, match="data.sha256_of_observations is another"):
        nmax.fit(model, table.y + 1.0, key=jr.key(0), out=folder, progress=False)
    other = dataclasses.replace(
        model, transition=lambda x, theta: dist.Normal(theta["intercept"] + 0.9 * x, 1.0).to_event(1)
    )
    with pytest.raises(ValueError, match="model.transition is another"):
        nmax.load(folder, other)
    wider = dataclasses.replace(model, prior={**model.prior, "noise": dist.LogNormal(0.0, 11.0)})
    with pytest.raises(ValueError, match="model.prior.noise"):
        nmax.load(folder, wider)


def test_a_folder_without_run_json_is_taken_only_if_nothing_in_it_can_be_lost_or_mistaken(finished, tmp_path):
    model, table, _, fit = finished
    brief = {"key": jr.key(0), "progress": False, "guide": nmax.MovingAverageGuide(), "steps": 1, "pretrain": 0}
    for name, content in (("data.npz", b"a user's own"), ("summary.json", b"{}"), ("history.csv", b"1,2")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(content)
        with pytest.raises(FileExistsError, match=f"no run.json, but another {name}"):
            nmax.fit(model, table, out=folder, **brief)
        with pytest.raises(FileExistsError, match=f"no run.json, but another {name}"):
            fit.save(folder)
        assert (folder / name).read_bytes() == content
    stale = tmp_path / "stale"
    (stale / "checkpoints").mkdir(parents=True)
    write_arrays(stale / "checkpoints" / "step-0000000100.npz", {"a": np.zeros(1)}, {})
    with pytest.raises(FileExistsError, match="checkpoints/ of a run that it no longer says anything of"):
        nmax.fit(model, table, out=stale, **brief)


def test_the_command_refuses_such_a_folder_and_does_not_advise_to_resume_it(tmp_path, capsys):
    np.save(tmp_path / "y.npy", data())
    (tmp_path / "model.py").write_text("import nmax\nmodel = nmax.models.ar1()\n", encoding="utf-8")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "source.json").write_text("{}", encoding="utf-8")  # its run.json was removed
    write_arrays(tmp_path / "run" / "checkpoints" / "located.npz", {"a": np.zeros(1)}, {})
    assert main(["fit", str(tmp_path / "model.py"), str(tmp_path / "y.npy"), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "has no run.json, but checkpoints/" in said
    assert "Go on with" not in said


def test_the_data_of_a_fit_that_never_began_do_not_outlive_it(tmp_path):
    np.save(tmp_path / "y.npy", data())
    folder = tmp_path / "run"
    folder.mkdir()
    keep_table(as_table(nmax.source(tmp_path / "y.npy")), folder)  # and then the process was killed
    kept = as_table(data() + 1.0)
    keep_table(kept, folder)
    np.testing.assert_array_equal(read_table(folder).y, kept.y)


def test_a_distribution_is_described_by_its_numbers():
    normal = dist.Normal(jnp.array([0.0, 1.0]), 2.0).to_event(1)
    assert described_distribution(normal) == "Independent(base_dist=Normal(loc=[0, 1], scale=[2]))"
    assert described_distribution(dist.LogNormal(-1.0, 0.5)) == "LogNormal(loc=-1, scale=0.5)"
    assert described_distribution(dist.TruncatedNormal(0.0, 1.0, low=0.25)) != described_distribution(
        dist.TruncatedNormal(0.0, 1.0, low=0.5)
    )
    shifted = [dist.TransformedDistribution(dist.Gamma(2.0, 1.0), AffineTransform(0.0, s)) for s in (1.0, 2.0, 2.0)]
    texts = [described_distribution(one) for one in shifted]
    assert texts[0] != texts[1] == texts[2]


def test_what_a_model_is_does_not_depend_on_the_process(finished):
    model, _, _, fit = finished
    code = (
        "import jax.random as jr, numpy as np, json, nmax, sys\n"
        "from nmax._identity import model_identity\n"
        "from nmax.data import make_series\n"
        "print(json.dumps(model_identity(nmax.models.ar1(), make_series(np.zeros((3, 1))))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == model_identity(model, fit.series)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr("nmax._fit.locate", None)
    with pytest.raises(OSError, match="Nothing was done"):
        nmax.fit(nmax.models.ar1(), data(), key=jr.key(0), out=tmp_path / "file" / "run", progress=False)


@pytest.fixture(scope="module")
def straight():
    model = nmax.models.ar1()
    jax.config.update("jax_disable_most_optimizations", True)  # as in the tests themselves: bits depend on the compiler
    return model, nmax.fit(model, data(), **PLAIN)


def stop_after(monkeypatch, chunks):
    """Interrupt training after so many calls, as Ctrl-C would."""
    advance, calls = _train.advance, []

    def interrupted(*arguments):
        if len(calls) == chunks:
            raise KeyboardInterrupt
        calls.append(1)
        return advance(*arguments)

    monkeypatch.setattr(_train, "advance", interrupted)


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_a_stopped_fit_goes_on_bit_for_bit(straight, tmp_path, monkeypatch, chunks):
    model, whole = straight
    with monkeypatch.context() as patch:
        stop_after(patch, chunks)
        with pytest.raises(KeyboardInterrupt):
            nmax.fit(model, data(), out=tmp_path / "run", **PLAIN)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "running"
    with pytest.raises(ValueError, match="finished run"):
        nmax.load(tmp_path / "run", model)
    resumed = nmax.resume(tmp_path / "run", model, progress=False)
    same(resumed.guide, whole.guide)
    np.testing.assert_array_equal(resumed.history.total, whole.history.total)
    assert resumed.reason == whole.reason
    assert str(resumed.convergence) == str(whole.convergence)  # as text: NaN is not itself


class Failing:
    """What a call returned before it was done: asked for its numbers it raises, as a signal or a lost process would."""

    def __init__(self, error):
        self.error = error

    def __array__(self, *arguments, **options):
        raise self.error

    __int__ = __array__


def fail_in(monkeypatch, number, error):
    """Let the call of that number return at once, and raise where its numbers are waited for."""
    advance, calls = _train.advance, []

    def failing(state, series, training, steps):
        calls.append(1)
        state, record = advance(state, series, dataclasses.replace(training, together=None), steps)
        if len(calls) == number:
            record = SimpleNamespace(**dict.fromkeys(History._fields, Failing(error)))
            state = dataclasses.replace(state, count=Failing(error))
        return state, record

    monkeypatch.setattr(_train, "advance", failing)


def states(folder):
    return sorted(file.name for file in folder.glob("step-*.npz"))


def test_an_interrupt_while_steps_are_waited_for_keeps_those_before(straight, tmp_path, monkeypatch):
    model, whole = straight
    with monkeypatch.context() as patch:
        fail_in(patch, 3, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            nmax.fit(model, data(), out=tmp_path / "run", **PLAIN)
    assert states(tmp_path / "run" / "checkpoints") == ["step-0000000200.npz"]
    resumed = nmax.resume(tmp_path / "run", model, progress=False)
    same(resumed.guide, whole.guide)
    np.testing.assert_array_equal(resumed.history.total, whole.history.total)


def test_an_interrupt_before_rest_is_decided_on_leaves_the_decision_as_it_was(straight, tmp_path, monkeypatch):
    """The fall begins where it would have begun, not a look later."""
    model, _ = straight
    rule = nmax.Converged(least=200, most=1_000, rise=1e9, jitter=1e9, cooldown=0.5)
    monkeypatch.setattr(nmax.Converged, "stationary", lambda *arguments: True)

    def watch(step, guide):
        if step == 200:
            raise KeyboardInterrupt

    whole = nmax.fit(model, data(), **PLAIN | {"steps": None, "until": rule})
    assert whole.steps == 300
    with pytest.raises(KeyboardInterrupt):
        nmax.fit(model, data(), out=tmp_path / "run", watch=watch, **PLAIN | {"steps": None, "until": rule})
    resumed = nmax.resume(tmp_path / "run", model, progress=False)
    assert resumed.steps == 300
    assert resumed.reason == whole.reason
    same(resumed.guide, whole.guide)


def test_a_lost_process_is_told_of_and_the_steps_before_are_kept(straight, tmp_path, monkeypatch):
    _, whole = straight
    windows = nmax.data.Windows(whole.series.length, 20)
    state, training = _train.init(whole.guide, nmax.Optimiser(), windows, 2, key=jr.key(0))
    together = SimpleNamespace(replicated=lambda tree: tree, local=lambda tree: tree)
    training = dataclasses.replace(training, together=together)
    fail_in(monkeypatch, 2, jax.errors.JaxRuntimeError("connection closed by peer"))
    with pytest.raises(_train.ProcessLostError, match="lost after 100 steps.*closed by peer"):
        _train.train(state, whole.series, training, 400, Silent(), None, FolderKeeper(tmp_path, 1e9))
    assert states(tmp_path) == ["step-0000000100.npz"]


@pytest.mark.extra
def test_the_last_state_of_training_is_kept_whatever_the_time(straight, tmp_path):
    model, _ = straight
    nmax.fit(model, data(), out=tmp_path / "run", **PLAIN | {"steps": 110})
    assert states(tmp_path / "run" / "checkpoints") == ["step-0000000110.npz"]


def test_damaged_states_are_passed_over_with_a_warning(straight, tmp_path):
    model, whole = straight
    fitted = nmax.fit(model, data(), out=tmp_path / "run", checkpoint_every=1e-9, **PLAIN)
    same(fitted.guide, whole.guide)
    states = sorted((tmp_path / "run" / "checkpoints").glob("step-*.npz"))
    assert len(states) == 3  # of four
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(run | {"status": "running"}))
    states[-1].write_bytes(states[-1].read_bytes()[:-100])
    states[-2].write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"):
        again = nmax.resume(tmp_path / "run", model, progress=False)
    same(again.guide, whole.guide)


@pytest.mark.extra
def test_a_full_disk_ends_nothing(straight, tmp_path, monkeypatch):
    model, whole = straight
    calls = []

    def full(*arguments):
        calls.append(arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nmax._checkpoint.write_arrays", full)
    monkeypatch.setattr("nmax._run_folder.write_bytes", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        fitted = nmax.fit(model, data(), out=tmp_path / "run", checkpoint_every=1e-9, **PLAIN)
    assert len(calls) > 3
    same(fitted.guide, whole.guide)


def test_old_states_are_removed_only_after_a_new_one_is_there(tmp_path, monkeypatch):
    keeper = FolderKeeper(tmp_path, every=1.0)
    for step in range(1, 6):
        keeper.write(step, {"a": np.full(3, step)}, {})
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"step-{k:010d}.npz" for k in (3, 4, 5)]
    monkeypatch.setattr("nmax._checkpoint.write_arrays", lambda *a: (_ for _ in ()).throw(OSError("gone")))
    with pytest.warns(UserWarning, match="could not be kept"):
        keeper.write(6, {"a": np.zeros(3)}, {})
    kept = keeper.read()
    assert kept is not None
    assert kept[0]["a"][0] == 5


def test_states_that_could_not_be_read_do_not_outlive_those_of_the_training_begun_anew(tmp_path):
    for step in (4900, 5000, 5100):
        (tmp_path / f"step-{step:010d}.npz").write_bytes(b"damaged")
    keeper = FolderKeeper(tmp_path, every=1.0)
    with pytest.warns(UserWarning, match="Training begins anew"):
        assert keeper.read() is None
    keeper.write(600, {"a": np.zeros(3)}, {})
    assert [file.name for file in tmp_path.iterdir()] == ["step-0000000600.npz"]
    assert keeper.read() is not None


@pytest.mark.extra
def test_neural_layers_of_the_look_ahead_are_kept_too(tmp_path, monkeypatch):
    model, y = nmax.models.ar1(), data(60)
    options = {"guide": nmax.LookaheadGuide(layers=1, length=3, width=16, theta_layers=1), "steps": 200, "draws": 2}
    options |= {"key": jr.key(0), "progress": False}
    whole = nmax.fit(model, y, **options)
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            nmax.fit(model, y, out=tmp_path / "run", **options)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    resumed = nmax.resume(tmp_path / "copy", model, progress=False)
    same(resumed.guide, whole.guide)
    same(nmax.load(tmp_path / "copy", model).guide, whole.guide)


HOLDER = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(99)"


@pytest.mark.extra
def test_passes_over_a_long_series_are_kept_until_q_has_settled(tmp_path, monkeypatch):
    monkeypatch.setattr("nmax._scores.LONG_PASS", 2)
    y, model = data(5_000), nmax.models.ar1()
    options = {"key": jr.key(0), "guide": nmax.LookaheadGuide(block=32, buffer=16, layers=0), "progress": False}
    real, passes = Scores._parts, []

    def counted(self, theta, number, noise, key):
        if len(number) >= 2 * LANES:
            passes.append(1)
            if len(passes) == stop:
                raise KeyboardInterrupt
        return real(self, theta, number, noise, key)

    monkeypatch.setattr(Scores, "_parts", counted)
    stop = None
    whole = nmax.fit(model, y, **options)
    every, stop = len(passes), len(passes) - 2
    passes.clear()
    with pytest.raises(KeyboardInterrupt):
        nmax.fit(model, y, out=tmp_path / "run", **options)
    assert list((tmp_path / "run" / "checkpoints").glob("pass-*.npz"))
    passes.clear()
    rest = nmax.fit(model, y, out=tmp_path / "run", **options)
    assert len(passes) == 3 < every
    same(whole.guide, rest.guide)
    assert not list((tmp_path / "run" / "checkpoints").glob("pass-*.npz"))


def test_two_runs_in_one_folder_are_refused_until_the_first_is_dead(tmp_path, monkeypatch, capsys):
    model, folder, options = nmax.models.ar1(), tmp_path / "run", PLAIN | {"steps": 10}
    with monkeypatch.context() as patch:
        stop_after(patch, 0)
        with pytest.raises(KeyboardInterrupt):
            nmax.fit(model, data(), out=folder, **options)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != LOCK}
    other = subprocess.Popen([sys.executable, "-c", HOLDER, folder / LOCK], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        for call in (lambda: nmax.fit(model, data(), out=folder, **options), lambda: nmax.resume(folder, model)):
            with pytest.raises(nmax.RunInUseError, match="one run at a time; another process is fitting in it"):
                call()
        (tmp_path / "model.py").write_text("import nmax\nmodel = nmax.models.ar1()\n", encoding="utf-8")
        assert main(["resume", str(folder), "--model", str(tmp_path / "model.py"), "--quiet"]) == 2
        assert "wait until that is over" in capsys.readouterr().err
        np.savetxt(tmp_path / "y.csv", data(), header="y", comments="")
        write_bytes(folder / "source.json", b"{}")
        assert main(["fit", str(tmp_path / "model.py"), str(tmp_path / "y.csv"), "--out", str(folder), "--quiet"]) == 2
        assert "one run at a time" in capsys.readouterr().err
        assert all(file.read_bytes() == content for file, content in before.items())
    finally:
        other.kill()
        other.communicate()
    assert nmax.resume(folder, model, progress=False).steps == 10


def test_a_folder_is_held_once_and_given_back(tmp_path):
    with Claim(tmp_path) as claim:
        assert claim.held
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
        with Claim(tmp_path) as inner:  # what is called within may take it again
            assert inner.held
        assert claim.held
        with ThreadPoolExecutor(1) as thread, pytest.raises(nmax.RunInUseError, match=f"process {os.getpid()} on"):
            thread.submit(Claim(tmp_path).take).result()
    (tmp_path / "run.json").write_text('{"status": "finished"}')
    with Claim(tmp_path) as claim:
        assert not claim.held  # a finished run is only read


@pytest.mark.parametrize("missing", ["system", "file system", "permission"])
def test_without_locks_everything_goes_on(tmp_path, monkeypatch, missing):
    def refused(*arguments, **options):
        raise OSError(95 if missing == "file system" else 30, "Operation not supported")

    if missing == "system":
        monkeypatch.setattr("nmax._lock.fcntl", None)
    else:
        monkeypatch.setattr("fcntl.flock" if missing == "file system" else "os.open", refused)
    with Claim(tmp_path) as claim:
        assert not claim.held
        with locked(tmp_path / LOCK, wait=True) as held:
            assert not held


@pytest.mark.parametrize("within", [pytest.param(contextlib.nullcontext, marks=pytest.mark.extra), Claim])
def test_what_a_killed_process_left_behind_is_removed(tmp_path, within):
    """Also where a caller holds the folder, as `nmax fit` does."""
    for folder, name in (("", "run.json"), ("", "source.json"), ("", "check.json"), ("checkpoints", "step-0000000100.npz")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f".{name}.4711.partial").write_bytes(b"half")
    with within(tmp_path):
        nmax.fit(nmax.models.ar1(), data(), out=tmp_path, **PLAIN | {"steps": 10})
    assert [file.name for file in tmp_path.rglob("*.partial")] == [".check.json.4711.partial"]  # a check may be at work


@pytest.mark.extra
@pytest.mark.parametrize("settings", [{}, pytest.param({"mtime": True}, marks=pytest.mark.extra)])
def test_statistics_of_a_series_on_disk_are_kept_and_made_again_where_they_are_damaged(tmp_path, settings, monkeypatch):
    np.save(tmp_path / "y.npy", data())
    place, folder, passes = nmax.source(tmp_path / "y.npy"), tmp_path / "run", []
    made = nmax._series_file.statistics_of
    monkeypatch.setattr("nmax._series_file.statistics_of", lambda *a: (passes.append(1), made(*a))[1])
    first = nmax.fit(nmax.models.ar1(), place, out=folder, **PLAIN | {"steps": 10})
    same(nmax.load(folder, nmax.models.ar1()).guide, first.guide)
    assert len(passes) == 1  # what it found was kept
    if settings:
        os.utime(tmp_path / "y.npy", (1, 1))
    else:
        (folder / STATISTICS).write_bytes(b"no")
    same(nmax.load(folder, nmax.models.ar1()).guide, first.guide)
    assert len(passes) == 2
