"""Work that is done in pieces, by one process or several, and goes on where it was stopped.

While a folder is being written it lies in `.NAME.partial`, beside `request.json`, what was asked for, and `done/`, which has
an empty file for each piece that is complete. When all are, the folder is put in its place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nmax._lock import locked
from nmax._store import plain, read_json, write_json

REQUEST, DONE, LOCK, CONTENT = "request.json", "done", "lock", "content"


class Pieces:
    """The pieces 0, ..., count - 1 of a folder in the making.

    Attributes:
        folder: where it will be.
        content: where it is until all pieces are there.
        count: of the pieces.
    """

    def __init__(self, folder: Path, count: int):
        self.folder, self.count = folder, count
        self._partial = in_the_making(folder)
        self.content = self._partial / CONTENT

    def begin(self, request: dict[str, Any], prepare: Callable[[Path], None]) -> None:
        """Make the folder ready, or take up one that was begun for the same request; another one's is refused.

        Args:
            request: what was asked for, as JSON can hold it.
            prepare: writes to the new folder what does not belong to any piece.
        """
        (self._partial / DONE).mkdir(parents=True, exist_ok=True)
        with self._alone():
            if self.folder.exists():  # others were done before this one had begun
                shutil.rmtree(self._partial, ignore_errors=True)
                raise FileExistsError(f"{self.folder} is there already; ask for another one.")
            if not (self._partial / REQUEST).exists() or not self.content.exists():
                shutil.rmtree(self.content, ignore_errors=True)
                for mark in (self._partial / DONE).iterdir():
                    mark.unlink()
                prepare(self.content)
                write_json(self._partial / REQUEST, plain({**request, "pieces": self.count}))
        self.check(request)

    def check(self, request: dict[str, Any]) -> None:
        """Refuse a folder that was begun for another request."""
        try:
            kept = read_json(self._partial / REQUEST)
        except FileNotFoundError:
            return
        request = plain({**request, "pieces": self.count})
        if other := sorted(name for name in {*kept, *request} if kept.get(name) != request.get(name)):
            said = "; ".join(f"{name} was {kept.get(name)!r}, is {request.get(name)!r}" for name in other)
            raise ValueError(
                f"{self.folder} must be asked for as it was begun; {said}. Ask for the same again, or remove "
                f"{self._partial} to begin anew."
            )

    def open(self, share: tuple[int, int]) -> Iterator[int]:
        """The pieces of a share that are not there yet: `share=(1, 4)` is every fourth, from the second on."""
        for number in range(share[0], self.count, share[1]):
            if not self._mark(number).exists():
                yield number

    def done(self, number: int) -> None:
        """Mark a piece as complete; it must have been written by now."""
        self._mark(number).touch()

    def finish(self, complete: Callable[[Path], object]) -> bool:
        """Put the folder in its place if all pieces are there; False if others are still at work.

        Args:
            complete: what is to be done with the folder before.
        """
        try:
            with self._alone():
                if self.folder.exists():  # another process was as quick
                    return True
                if len(os.listdir(self._partial / DONE)) < self.count:
                    return False
                complete(self.content)
                os.replace(self.content, self.folder)
                away = self._partial.with_name(f"{self._partial.name}.{os.getpid()}")
                os.replace(self._partial, away)  # in one step: others may be about to look into it
                shutil.rmtree(away, ignore_errors=True)
        except FileNotFoundError:
            if not self.folder.exists():
                raise
        return True

    def _mark(self, number: int) -> Path:
        return self._partial / DONE / str(number)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time; the system takes the lock from one that dies."""
        with locked(self._partial / LOCK, wait=True):
            yield


def in_the_making(folder: Path) -> Path:
    """Where a folder lies until it is whole."""
    return folder.with_name(f".{folder.name}.partial")


def how_many(folder: Path) -> tuple[int, int | None]:
    """Pieces that are complete of a folder in the making, and of how many; None where that is not known."""
    partial = in_the_making(folder)
    try:
        return len(os.listdir(partial / DONE)), read_json(partial / REQUEST)["pieces"]
    except FileNotFoundError:
        return 0, None
