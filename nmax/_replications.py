"""Finished replications of a calibration: in memory, or a small file each in a folder."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any, NamedTuple


class Replication(NamedTuple):
    """Ranks of the truth by label, or why there are none, and how many seconds it took."""

    pit: dict[str, float]
    failure: str | None
    seconds: float


class Store:
    """What is done, by number. A folder says what it belongs to, and several processes may share one.

    Attributes:
        folder: where the files are; `None` keeps everything in memory.
    """

    def __init__(self, folder: Path | None, settings: dict[str, Any]):
        """Open a folder; one that was begun with other settings is refused."""
        self.folder = folder
        self._kept: dict[int, Replication] = {}
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        file, settings = folder / "calibration.json", json.loads(json.dumps(settings))
        if not file.exists():
            _put(file, settings)
        before = json.loads(file.read_text(encoding="utf-8"))
        other = [name for name in settings if before.get(name) != settings[name]]
        if other:
            was, now = ("; ".join(f"{name} = {each.get(name)}" for name in other) for each in (before, settings))
            raise ValueError(
                f"`out` must be a new folder, or one of a call with the same arguments; {folder} was begun with {was}, and "
                f"now {now} came. Pass another folder, or remove that one."
            )

    def has(self, k: int) -> bool:
        """Whether replication k is done."""
        return k in self._kept or (self.folder is not None and self._file(self.folder, k).exists())

    def read(self, k: int) -> Replication:
        """Replication k."""
        if k not in self._kept and self.folder is not None:
            self._kept[k] = Replication(**json.loads(self._file(self.folder, k).read_text(encoding="utf-8")))
        return self._kept[k]

    def write(self, k: int, replication: Replication) -> None:
        """Keep replication k."""
        self._kept[k] = replication
        if self.folder is not None:
            _put(self._file(self.folder, k), replication._asdict())

    @staticmethod
    def _file(folder: Path, k: int) -> Path:
        return folder / f"replication_{k:05d}.json"


def _put(file: Path, content: dict[str, Any]) -> None:
    """As a whole or not at all, whoever else is writing."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}.partial")
    partial.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(partial, file)
