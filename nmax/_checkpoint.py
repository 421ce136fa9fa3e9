"""What a fit has come to so far, kept in a folder: stages that are finished, and the last states of training."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nmax._processes import processes
from nmax._store import DamagedFileError, read_arrays, write_arrays

KEPT = 3  # states of training that are kept; the one before a damaged one is used in its place
NAME = re.compile(r"step-(\d{10})\.npz")

Arrays = dict[str, np.ndarray]
Facts = dict[str, Any]
Value = TypeVar("Value")


class Keeper:
    """Keeps nothing: what a fit without a folder uses."""

    keeps = False

    def stage(
        self,
        name: str,
        make: Callable[[], Value],
        written: Callable[[Value], tuple[Arrays, Facts]],
        read: Callable[[Arrays, Facts], Value],
    ) -> Value:
        """The result of a stage: made now, or read if it was finished before."""
        del name, written, read
        return make()

    def forget(self, names: str) -> None:
        """Remove stages that a later one has made superfluous, by a pattern of their names."""

    def due(self, *, now: bool = False) -> bool:
        """Whether the state of training is to be written."""
        del now
        return False

    def write(self, step: int, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Write the state of training after a step."""

    def read(self) -> tuple[Arrays, Facts] | None:
        """The last good state of training, if there is one."""
        return None


_KEEPER: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextlib.contextmanager
def keeping(keeper: Keeper) -> Iterator[None]:
    """Within, whatever takes long is kept by this keeper as it is made."""
    before = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(before)


def keeper_here() -> Keeper:
    """Who keeps what takes long; nobody by default."""
    return _KEEPER.get() or Keeper()


class FolderKeeper(Keeper):
    """Keeps stages and states in a folder. A file that cannot be written ends nothing: training goes on, with a warning.

    Attributes:
        folder: where the files are.
        every: seconds between two states of training at the least.
        sure: raises if what was read so far cannot be relied on; called before anything is written.
        told: what the user has been told of damaged files and failed writes.
    """

    keeps = True

    def __init__(self, folder: Path, every: float, sure: Callable[[], object] | None = None):
        self.folder, self.every, self.last, self.sure = folder, every, time.perf_counter(), sure
        self.together = processes()
        self.told: list[str] = []

    def stage(self, name, make, written, read):
        """See `Keeper.stage`. A damaged file is as good as none, but for a warning."""
        file = self.folder / f"{name}.npz"
        if self.together is not None and not self.together.agreed(file.exists()):
            value = make()
            self._write(file, *written(value))
            return value
        try:
            return read(*read_arrays(file))
        except FileNotFoundError:
            pass
        except DamagedFileError as error:
            self._tell(f"{error} It is made again.")
        value = make()
        self._write(file, *written(value))
        return value

    def forget(self, names: str) -> None:
        """See `Keeper.forget`."""
        if self.together is None or self.together.first:
            with contextlib.suppress(OSError):
                for file in self.folder.glob(f"{names}.npz"):
                    file.unlink(missing_ok=True)

    def due(self, *, now: bool = False) -> bool:
        """Every so many seconds, or now."""
        return now or time.perf_counter() - self.last >= self.every  # only the first process writes, whatever others say

    def write(self, step: int, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Write the state after a step, and remove all but the last few.

        Later steps than this one are of a training that could not be gone on with: their states would outlive this one.
        """
        file = self.folder / f"step-{step:010d}.npz"
        if self._write(file, arrays, facts):
            states = self._states()
            here = states.index(file) + 1
            with contextlib.suppress(OSError):
                for old in (*states[here:], *states[:here][:-KEPT]):
                    old.unlink(missing_ok=True)
        self.last = time.perf_counter()

    def read(self) -> tuple[Arrays, Facts] | None:
        """The last state that is whole; of those that are not the user is told."""
        found, damaged = None, []
        for file in reversed(self._states()):
            try:
                found = read_arrays(file)
                break
            except DamagedFileError as error:
                damaged.append(error)
        instead = "Training begins anew." if found is None else "The state before it is used instead."
        for error in damaged:
            self._tell(f"{error} {instead}")
        return found

    def _states(self) -> list[Path]:
        return sorted(file for file in self.folder.iterdir() if NAME.fullmatch(file.name)) if self.folder.is_dir() else []

    def _write(self, file: Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bool:
        if self.together is not None and not self.together.first:
            return False
        if self.sure is not None:
            self.sure()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_arrays(file, arrays, facts)
        except OSError as error:
            self._tell(
                f"A checkpoint could not be kept in {self.folder}: {error.strerror or error}. The fit goes on and will try "
                "again; make room or mend the folder, or a stop now loses what was done since the last checkpoint."
            )
            return False
        self.told.clear()  # should it happen again, that is news
        return True

    def _tell(self, text: str) -> None:
        if text not in self.told:
            self.told.append(text)
            warnings.warn(text, stacklevel=3)
