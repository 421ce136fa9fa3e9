"""A run folder belongs to one run at a time: who fits into it holds a lock on it until the fit ends or the process dies."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from nmax._lock import locked
from nmax._processes import connected
from nmax._store import DamagedFileError, read_json

RUN, LOCK = "run.json", ".lock"
RUNNING, FINISHED = "running", "finished"
# folders that whoever calls has taken already, and whether their locks are held
_OURS: ContextVar[Mapping[Path, bool]] = ContextVar("folders", default=MappingProxyType({}))


class RunInUseError(RuntimeError):
    """Another process is fitting into the same run folder."""


class Claim:
    """What a fit has on its folder. Of several processes that fit together only the first one takes it.

    Entering takes the folder if it is there already; `take` does so once it has been made. A finished run is only read, and
    is nobody's. What is called within the claim may take the folder again.

    Attributes:
        folder: the run folder; None for a fit without one.
        held: whether the lock is held, by this or by a caller within whose claim it is: not where the system or the disk
            knows none.
    """

    def __init__(self, folder: Path | None):
        self.folder, self.held, self._lock = folder, False, contextlib.ExitStack()

    def __enter__(self) -> Claim:
        if self.folder is not None and self.folder.is_dir() and not connected():
            self.take()
        return self

    def __exit__(self, *raised: object) -> None:
        self.held = False
        self._lock.close()

    def take(self) -> None:
        """Take the folder, or refuse if somebody else has it."""
        assert self.folder is not None
        here, taken = self.folder.resolve(), _OURS.get()
        if here in taken:
            self.held = taken[here]
            return
        if _finished(self.folder):
            return
        file = self.folder / LOCK
        try:
            self.held = self._lock.enter_context(locked(file, wait=False))
        except BlockingIOError:
            raise RunInUseError(
                f"{self.folder} must be used by one run at a time; {_owner(file)} is fitting in it. Nothing was done; wait "
                "until that is over, end it, or choose another folder."
            ) from None
        ours = _OURS.set({**taken, here: self.held})
        self._lock.callback(_OURS.reset, ours)
        if self.held:
            with contextlib.suppress(OSError):  # a full disk keeps nobody from holding a lock
                file.write_text(f"process {os.getpid()} on {platform.node()}, since {_now()}\n", encoding="utf-8")


def in_use(folder: Path) -> bool:
    """Whether some process is fitting in a run folder right now, as far as the system can tell."""
    try:
        with locked(folder / LOCK, wait=False):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _owner(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip() or "another process"
    except (OSError, UnicodeDecodeError):
        return "another process"


def _finished(folder: Path) -> bool:
    try:
        return read_json(folder / RUN).get("status") == FINISHED
    except (OSError, DamagedFileError):
        return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
