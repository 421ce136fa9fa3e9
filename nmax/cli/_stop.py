"""Signals that end a command: heeded within seconds, whatever the process is doing."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

PATIENCE = 5.0  # seconds until a signal must have reached Python; the compiler does not look up while it works
LAST = 20.0  # seconds from then on for a last checkpoint


class Terminated(KeyboardInterrupt):
    """The system asked the process to end: a checkpoint is written, as for an interrupt."""


@contextlib.contextmanager
def heeded(say: Callable[[int], str]) -> Iterator[None]:
    """Within this an interrupt raises KeyboardInterrupt, and SIGTERM raises `Terminated`.

    If neither has come about after some seconds, because the process is deep in compiled code, it ends all the same: files
    are whole or not there at any time.

    Args:
        say: what to print in that case, given the number of the signal.
    """
    reached, left = threading.Event(), threading.Event()

    def stop(number: int, frame: object) -> None:
        del frame
        reached.set()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def watch() -> None:
        while number := (ours.recv(1) or b"\0")[0]:
            if number not in before:
                continue
            if not reached.wait(PATIENCE) or not left.wait(LAST):
                with contextlib.suppress(OSError):
                    os.write(2, f"\n{say(number)}\n".encode())
                os._exit(128 + number)

    before: dict[int, Any] = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has it ignored
        before[signal.SIGINT] = signal.signal(signal.SIGINT, stop)
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    previous = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, name="nmax-stop", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        signal.set_wakeup_fd(previous)
        for number, handler in before.items():
            signal.signal(number, handler)
        theirs.send(b"\0")
        watcher.join()
        ours.close()
        theirs.close()


def leave(code: int) -> NoReturn:
    """End the process at once, without waiting for threads or tidying memory; what was printed is printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
