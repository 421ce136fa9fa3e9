"""A lock on a file: one process holds it at a time, and the system takes it from one that dies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows: everything goes on as if nobody else were there
    fcntl = None


@contextlib.contextmanager
def locked(file: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock on a file, which is made if it is not there; False where the system has no locks on files.

    The file may be on a file system that is read-only or that knows no locks; then nothing is held.

    Args:
        file: the file. It may not be removed while somebody could come for the lock.
        wait: for another one to give it back; otherwise BlockingIOError if there is one.
    """
    if fcntl is None:
        yield False
        return
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        raise
    except OSError:
        yield False
        return
    try:
        yield _taken(handle, wait)
    finally:
        os.close(handle)  # which gives the lock back


def _taken(handle: int, wait: bool) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
