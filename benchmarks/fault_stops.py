"""Faults of the process: killed, interrupted, taken up again with something else."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fault_runs import FIT, QUIET, SLOWLY, Row, files, goes_on, whole, whole_by_command
from fault_tools import Place, assert_same, ended, last_good, shown, states, until


def killed(at: Place) -> Iterator[Row]:
    run = at / "killed"
    process = at.worker(run, **SLOWLY)
    until(process, lambda: len(states(run)) > 2)
    ended(process, signal.SIGKILL)
    step, info = last_good(run), ended(at.nmax("info", run)).said
    goes_on(at, run)
    hint = next(line for line in info.splitlines() if "Go on" in line)
    yield ("`kill -9` in training", f"checkpoint of step {step:,} whole; goes on bit for bit", shown(hint, at.folder))


def killed_while_writing(at: Place) -> Iterator[Row]:
    for name in ("fsync", "replace"):
        run = at / f"killed-{name}"
        process = at.worker(run, slow=name, **SLOWLY)
        until(process, run.with_suffix(".slow").exists)
        ended(process, signal.SIGKILL)
        halves = list((run / "checkpoints").glob(".*.partial"))
        assert len(halves) == 1, halves
        step = last_good(run)
        goes_on(at, run)
        assert not list(run.rglob("*.partial"))
        what = f"half-written file passed over and removed, step {step:,} used; goes on bit for bit"
        yield f"`kill -9` within `{name}` of a checkpoint", what, "nothing"


def damaged_checkpoint(at: Place) -> Iterator[Row]:
    for name in ("damaged", "half-written"):
        run = at / name
        process = at.worker(run, **SLOWLY)
        until(process, lambda run=run: len(states(run)) > 2)
        ended(process, signal.SIGKILL)
        newest = states(run)[-1]
        content = bytearray(newest.read_bytes())
        if name == "damaged":
            content[len(content) // 2] ^= 0xFF
        newest.write_bytes(content[: len(content) // 2] if name == "half-written" else content)
        assert last_good(run) < int(newest.stem.split("-")[1])
        said = goes_on(at, run)
        yield f"newest checkpoint {name}", "the one before it used; bit for bit", shown(said, at.folder)


def other_run(at: Place) -> Iterator[Row]:
    run = at / "one"
    process = at.worker(run, **SLOWLY)
    until(process, lambda: len(states(run)) > 2)
    ended(process, signal.SIGKILL)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file() and file.name != ".lock"}
    for name, options in {"settings": {"seed": 3}, "model": {"observation_sd": 2.0}, "data": {"series": 2}}.items():
        done = ended(at.worker(run, **options))
        assert done.code == 1, done
        assert all(file.read_bytes() == content for file, content in before.items())
        yield f"other {name} in the same folder", "refused, nothing touched", shown(done.said, at.folder)
    goes_on(at, run)


def two_at_once(at: Place) -> Iterator[Row]:
    run = at / "shared"
    process = at.worker(run, **SLOWLY)
    until(process, lambda: len(states(run)) > 1)
    begun = time.monotonic()
    second = ended(at.worker(run))
    seconds = time.monotonic() - begun
    assert second.code == 1, second
    assert process.poll() is None
    assert ended(process).code == 0
    assert_same(run, whole(at))
    what = f"the second refused after {seconds:.0f} s, start of Python included; the first undisturbed, bit for bit"
    yield ("two runs in one folder at once", what, shown(second.said, at.folder))


def signals_in_training(at: Place) -> Iterator[Row]:
    files(at)
    yield from _signals(at, "training", FIT, lambda run: len(states(run)) > 0, "command-whole")


def signals_in_search(at: Place) -> Iterator[Row]:
    files(at)
    command = ("fit", "model.py", "y.csv", *QUIET, "--out")
    yield from _signals(at, "the look-ahead's search", command, lambda run: _begun(run, 3), "search-whole")


def signals_deep_in_code(at: Place) -> Iterator[Row]:
    files(at)
    command = ("fit", "deep.py", "y.csv", *QUIET, "--out")
    yield from _signals(at, "code that does not look up, as a compiler", command, lambda run: _begun(run, 10), None)


def _begun(run: Path, seconds: float) -> bool:
    """Whether a fit has begun so many seconds ago."""
    return (run / "run.json").exists() and time.time() - (run / "run.json").stat().st_mtime > seconds


def _signals(
    at: Place, where: str, command: tuple[str, ...], so: Callable[[Path], bool], reference: str | None
) -> Iterator[Row]:
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        run = at / f"{number.name}-{where.split()[-1]}"
        process = at.nmax(*command, run, "--checkpoint-every", "0.01", cached=reference is not None)
        until(process, lambda run=run: so(run))
        done = ended(process, number)
        assert done.code == code, done
        what = f"exit code {code} after {done.seconds:.1f} s"
        if reference is not None:
            again = ended(at.nmax("resume", run, *QUIET))
            assert again.code == 0, again.said
            assert_same(run, whole_by_command(at, reference, command))
            what += "; `nmax resume` goes on bit for bit"
        yield f"{number.name} in {where}", what, shown(done.said, at.folder)
