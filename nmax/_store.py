"""Files that are there as a whole or not at all, and that know when they have been damaged."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

META = "nmax"  # the member of a file of arrays that holds everything that is no array, as JSON
FORMAT = 1
PARTIAL = re.compile(r"\.(.+)\.\d+\.partial")


class DamagedFileError(ValueError):
    """A file is not what was written: half of it, or other bytes."""


@contextlib.contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A place to write a file to, put in its own place in one step when that is done: fsync, rename, fsync of the folder."""
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        yield partial
        with open(partial, "rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(partial, file)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    _sync_folder(file.parent)


def write_bytes(file: Path, content: bytes) -> None:
    """Put a file in its place in one step: temporary file, fsync, rename, fsync of the folder."""
    with whole_file(file) as partial:
        partial.write_bytes(content)


def remove_partials(folder: Path, names: Collection[str] = ()) -> None:
    """Remove what was being written when a process was killed: all of it, or that of some files."""
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            found = PARTIAL.fullmatch(file.name)
            if found and (not names or found[1] in names):
                file.unlink(missing_ok=True)


def write_json(file: Path, content: Any) -> None:
    """Put a JSON file in its place in one step; what is not finite becomes null."""
    text = json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(file, (text + "\n").encode())


def read_json(file: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    try:
        content = json.loads(file.read_bytes().decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{file} must hold JSON; it does not: {error}.") from error
    if not isinstance(content, dict):
        raise DamagedFileError(f"{file} must hold a JSON object; it holds a {type(content).__name__}.")
    return content


def write_arrays(file: Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Arrays by name and facts about them in one `.npz` file, with a checksum over all of it; NumPy can read it."""
    arrays = {name: np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array) for name, array in arrays.items()}
    facts = json.dumps(plain(meta), sort_keys=True, allow_nan=False)
    sealed = json.dumps({"format": FORMAT, "facts": facts, "sha256": _checksum(arrays, facts)})
    buffer = io.BytesIO()
    np.savez(buffer, **{META: np.frombuffer(sealed.encode(), np.uint8)}, **arrays)  # pyright: ignore[reportArgumentType]
    write_bytes(file, buffer.getvalue())


def read_arrays(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `write_arrays` has written; nothing in it is ever run.

    A disk that cannot be read, or too little memory, is no damage, and raises what it is.
    """
    try:
        with open(file, "rb") as handle, np.load(handle, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        sealed = json.loads(bytes(arrays.pop(META)).decode())
        version, facts, checksum = sealed["format"], sealed["facts"], sealed["sha256"]
    except DAMAGE as error:
        if (isinstance(error, OSError) and error.errno not in MISLED) or (isinstance(error, MemoryError) and _intact(file)):
            raise
        raise DamagedFileError(f"{file} is damaged or was not written by nmax: {error or type(error).__name__}.") from error
    if version != FORMAT:
        raise DamagedFileError(f"{file} must have format {FORMAT}; it has {version!r}, of another version of nmax.")
    if _checksum(arrays, facts) != checksum:
        raise DamagedFileError(f"{file} is damaged: its checksum is not that of what it holds.")
    return arrays, json.loads(facts)


MISLED = (None, errno.EINVAL)  # of errors of the system, those that wrong bytes lead to: no number, or a place below zero
# what NumPy, zipfile and JSON raise when bytes are not what they should be
DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    SyntaxError,
    MemoryError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def _intact(file: Path) -> bool:
    """Whether a file of arrays is as it was written, as far as its members' own checksums tell; in little memory."""
    try:
        with zipfile.ZipFile(file) as kept:
            return kept.testzip() is None
    except DAMAGE:
        return False


def plain(value: Any) -> Any:
    """The same in terms of JSON: arrays as lists, what is not finite as None, paths and dates as text."""
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _checksum(arrays: Mapping[str, np.ndarray], facts: str) -> str:
    digest = hashlib.sha256(facts.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """So that the rename itself survives a loss of power, where the system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
