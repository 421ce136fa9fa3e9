"""What usually goes wrong in the functions that a user writes, in words."""

from __future__ import annotations

import contextlib
import difflib
import linecache
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

HERE = Path(__file__).resolve().parents[1]
TRACED = (
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
)


@contextlib.contextmanager
def own_functions(model: Any) -> Iterator[None]:
    """Around calls of a model's functions: a misspelt parameter, and what JAX cannot compile, are named, with their line."""
    try:
        yield
    except KeyError as error:
        names, asked = list(model.parameters.distributions), error.args[0] if error.args else None
        if not isinstance(asked, str) or asked in names or not _asked_of_theta(error, names):
            raise
        near = difflib.get_close_matches(asked, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else "give it a prior, or take another name."
        raise ValueError(
            f"`prior` must have every parameter that the model uses; {_place(error)} asks for `theta[{asked!r}]`, and there "
            f"are {', '.join(names)}: {hint}"
        ) from error
    except TRACED as error:
        raise TypeError(
            "The model's functions must be written with `jax.numpy`, since they are compiled; "
            f"{_place(error)} cannot be compiled. Write `jnp.exp` in place of `np.exp` or `math.exp`, "
            "`jnp.where(condition, one, other)` in place of `if`, and no `float(...)` of a state or a parameter."
        ) from error


def _asked_of_theta(error: BaseException, names: list[str]) -> bool:
    """Whether the line that failed looks something up in θ, and not in a dictionary of the user's own."""
    frame, number = list(traceback.walk_tb(error.__traceback__))[-1]
    line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
    thetas = [name for name, value in frame.f_locals.items() if isinstance(value, dict) and set(value) == set(names)]
    return any(re.search(rf"\b{re.escape(name)}\s*\[", line) for name in thetas) if line else bool(thetas)


def _place(error: BaseException) -> str:
    """The last line of the user's own code on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "site-packages" not in f.filename and HERE not in Path(f.filename).resolve().parents]
    last = next((frame for frame in reversed(own) if frame.line or frame.filename.endswith(".py")), None)
    return "one of them" if last is None else f"{Path(last.filename).name}, line {last.lineno}, in {last.name}"
