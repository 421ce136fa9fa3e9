"""Paths written by several processes of this machine, this one too: each has its share of the pieces and the cores."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from nmax.cli._output import InputError

LOOK = 0.2  # seconds between two looks at the processes
GRACE = 30.0  # seconds in which they must have ended when they are told to


class ShareError(RuntimeError):
    """One of the processes that share the work has failed."""


def in_shares(command: Sequence[str], count: int, told: Callable[[], object], own: Callable[[Callable], object]) -> None:
    """Run a command of `nmax` in so many processes, each with `--share K/N` and a part of the cores, until all are done.

    The first share is this process's own. If one fails the others are stopped, too; so they are when this process is
    interrupted, or dies.

    Args:
        command: arguments of `nmax`.
        count: how many processes.
        told: called now and then while they are at work.
        own: does the share 0/count, and calls what it is passed now and then.
    """
    running: list[tuple[subprocess.Popen, IO[bytes]]] = []

    def look() -> None:
        told()
        for process, said in running:
            if process.poll():
                _refuse(process.returncode, said)

    try:
        mine, *others = shares_of_cores(count)
        for number, cores in enumerate(others, start=1):
            said = tempfile.TemporaryFile()
            running.append((_begun([*command, "--share", f"{number}/{count}"], cores, said), said))
        with _only(mine):
            own(look)
        while any(process.poll() is None for process, _ in running):
            look()
            time.sleep(LOOK)
        look()
    finally:
        _stop([process for process, _ in running])
        for _, said in running:
            said.close()


@contextlib.contextmanager
def _only(cores: set[int] | None) -> Iterator[None]:
    """On some cores alone; what threads are begun within have as many as they are."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def shares_of_cores(count: int) -> Iterator[set[int] | None]:
    """The cores of each of so many processes; None where the system does not let them be chosen."""
    if not hasattr(os, "sched_setaffinity"):
        yield from [None] * count
        return
    cores = sorted(os.sched_getaffinity(0))
    for number in range(count):
        yield set(cores[number::count]) or {cores[number % len(cores)]}


def end_with_parent() -> None:
    """In one of the processes: stop when the one that has started them is gone, which closes the other end of the input."""

    def watch() -> None:
        while os.read(0, 1):  # not by Python's own file, which the end of the process would find locked
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="nmax-parent", daemon=True).start()


def share_from(text: str) -> tuple[int, int]:
    """`--share K/N` as numbers."""
    number, _, count = text.partition("/")
    return int(number), int(count)


def _begun(arguments: Sequence[str], cores: set[int] | None, said: IO[bytes]) -> subprocess.Popen:
    """A process on some cores: it has them from its first moment, so that its threads are as many as they are."""
    with _only(cores):
        return subprocess.Popen(
            [sys.executable, "-m", "nmax", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # Ctrl-C goes to this process alone, which passes it on
        )


def _refuse(code: int, said: IO[bytes]) -> None:
    said.seek(0)
    text = said.read().decode(errors="replace").strip() or f"it ended with code {code}"
    lines = text.splitlines()
    last = ([line for line in lines if line.startswith(("nmax: ", "Fatal"))] or lines)[-1]
    last = last.removeprefix("nmax: ").removeprefix("broke off: ")
    raise InputError(last) if code == 2 else ShareError(f"one of the processes failed, the others were stopped: {last}")


def _stop(processes: Sequence[subprocess.Popen]) -> None:
    """Have all of them end, one way or the other."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + GRACE
    for process in processes:
        try:
            process.wait(max(until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
