"""What `faults.py` does harm with: processes that fit, small disks, and a comparison of what came of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmax._store import DamagedFileError, read_arrays

WORKER = Path(__file__).with_name("fault_worker.py")
LONGEST = 300.0  # seconds that any process may take
NOBODY = 65_534


class Ended(NamedTuple):
    """How a process ended, what it said, and how long after a signal it was gone."""

    code: int
    said: str
    seconds: float = 0.0


class Place:
    """A folder with everything in it, and the environment of the processes."""

    def __init__(self, folder: Path):
        self.folder = folder
        cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        self.environment = {**os.environ, **cache, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # it compiles in half the time

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def begin(self, *command: object, cached: bool = True) -> subprocess.Popen:
        """A process of Python, in this folder."""
        environment = self.environment if cached else dict(os.environ)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([sys.executable, *map(str, command)], cwd=self.folder, env=environment, **pipes)

    def worker(self, run: Path, **options: object) -> subprocess.Popen:
        """`fault_worker.py`."""
        return self.begin(WORKER, run, *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()))

    def nmax(self, *arguments: object, cached: bool = True) -> subprocess.Popen:
        """The command."""
        return self.begin("-m", "nmax", *arguments, cached=cached)


def ended(process: subprocess.Popen, number: int | None = None) -> Ended:
    """Wait for a process, after a signal if there is one."""
    begun = time.monotonic()
    if number is not None:
        process.send_signal(number)
    said = process.communicate(timeout=LONGEST)[0]
    return Ended(process.returncode, said, time.monotonic() - begun)


def until(process: subprocess.Popen, so: Callable[[], object]) -> None:
    """Wait for something while a process is at work."""
    begun = time.monotonic()
    while not so():
        if process.poll() is not None or time.monotonic() - begun > LONGEST:
            raise AssertionError(f"it should have come about, and did not: {ended(process, signal.SIGKILL).said}")
        time.sleep(0.01)


def states(run: Path) -> list[Path]:
    """Checkpoints of training, oldest first."""
    return sorted((run / "checkpoints").glob("step-*.npz"))


def last_good(run: Path) -> int:
    """The step of the last checkpoint that is whole; there must be one."""
    for file in reversed(states(run)):
        with contextlib.suppress(DamagedFileError):
            read_arrays(file)
            return int(file.stem.split("-")[1])
    raise AssertionError(f"no whole checkpoint in {run}")


def assert_same(run: Path, whole: Path) -> None:
    """All arrays of two results agree bit for bit."""
    with np.load(run / "fitted.npz") as one, np.load(whole / "fitted.npz") as other:
        names = set(one.files) - {"nmax"}  # the facts hold the seconds
        assert names == set(other.files) - {"nmax"}
        for name in names:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@contextlib.contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A small disk of its own, in memory; for root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def read_only(folder: Path, yes: bool) -> None:
    """Mount a disk anew so that nobody can write to it, or can again."""
    subprocess.run(["mount", "-o", f"remount,{'ro' if yes else 'rw'}", folder], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all there is left of a disk."""
    file = folder / "filler"
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as handle:
        while True:
            handle.write(bytes(4096))
    return file


def shown(said: str, *places: Path, most: int = 330) -> str:
    """The last thing that was said, as a cell of the table."""
    text = said.strip()
    for at in sorted(places, key=lambda at: -len(str(at))):
        text = text.replace(f"{at}/", "").replace(str(at), ".")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith((" ", "Traceback"))]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)]
    kept = [line for line in lines if re.match(r"(warning: |nmax: |.*Go on with)", line)] + errors[-1:] or lines[-1:]
    text = " / ".join(dict.fromkeys(kept)).replace("|", "\\|")
    return text if len(text) <= most else f"{text[:most]} …"
