"""A model from a Python file of the user's, which is run as any other code of theirs."""

from __future__ import annotations

import hashlib
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from nmax._run_folder import read_run
from nmax._store import read_json, write_bytes, write_json
from nmax.cli._output import InputError
from nmax.models import AbstractModel

SOURCE, COPY = "source.json", "model.txt"  # where a run says what it was made from, and the model's text for the record


def run_file(file: Path) -> dict[str, Any]:
    """Run a model file, and return what it defines."""
    if not file.is_file():
        raise InputError(f"There is no model file {file}. `nmax new {file}` writes one to start from.")
    if file.suffix != ".py":
        raise InputError(f"A model file must be Python, with the suffix .py; got {file}. Is the order MODEL.py DATA?")
    module = types.ModuleType("nmax_model")
    module.__file__ = str(file.resolve())
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(file.resolve().parent))  # so that it can import its neighbours
    try:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)  # noqa: S102
    except SyntaxError as error:
        raise InputError(
            f"{file} is not Python, in line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        ) from error
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        line = f", in line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        raise InputError(f"{file} ends with {type(error).__name__}: {error}{line}") from error
    finally:
        sys.path.pop(0)
    return module.__dict__


def model_from(file: Path) -> AbstractModel:
    """The `model` that a file defines."""
    found = run_file(file).get("model")
    if not isinstance(found, AbstractModel):
        what = "there is none" if found is None else f"it is a {type(found).__name__}"
        raise InputError(f"{file} must define `model`, an nmax.StateSpaceModel or an nmax.SDE; {what}.")
    return found


def keep_source(folder: Path, file: Path, facts: dict[str, Any]) -> None:
    """Write down what a run is made from: the model file's place, and its text for the record, which is never run."""
    text = file.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / COPY, text)
    checksum = hashlib.sha256(text).hexdigest()
    write_json(folder / SOURCE, {"model": str(file.resolve()), "sha256": checksum, **facts})


def source_of(folder: Path) -> dict[str, Any]:
    """What a run was made from, as far as it says."""
    return read_json(folder / SOURCE) if (folder / SOURCE).is_file() else {}


def model_of_run(folder: Path, given: Path | None) -> AbstractModel:
    """The model of a run: from the file that is given, or from where it was. Nothing in the run folder is run."""
    read_run(folder)
    if given is not None:
        return model_from(given)
    kept = source_of(folder).get("model")
    if not isinstance(kept, str):
        raise InputError(f"{folder} does not say which file its model is in; pass it with --model MODEL.py.")
    file = Path(kept)
    if file.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{folder} names a model file inside itself, and nothing in a run folder is run; pass --model.")
    if not file.is_file():
        raise InputError(f"The model of {folder} was in {file}, which is not there any more; pass it with --model MODEL.py.")
    return model_from(file)


def add_run(parser) -> None:
    """The arguments of a command that goes on with a run."""
    parser.add_argument("folder", type=Path, metavar="RUN", help="the folder that `nmax fit` has written")
    text = "the model file, if it is not where it was. It is Python, and is run"
    parser.add_argument("--model", type=Path, metavar="MODEL.py", help=text)
