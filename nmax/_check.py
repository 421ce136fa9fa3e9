"""Checks shared by the public functions, and their wording: what must hold, what came, what to do."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

P = ParamSpec("P")
R = TypeVar("R")


def check_key(key: Any) -> PRNGKeyArray:
    """Return `key` as one typed key; the older form, two unsigned integers, is accepted too."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key)
    shape = f" of shape {key.shape}" if isinstance(key, jax.Array) else ""
    raise TypeError(f"`key` must be one JAX random key; got {type(key).__name__}{shape}. Pass `key=jax.random.key(0)`, say.")


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """Return `value` as an int, or say that it is no whole number of at least `least`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and hasattr(value, "__index__") and not isinstance(value, bool):
        value, whole = int(value), True
    if not whole or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}. Pass a larger one.")
    return value


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a float, or say that it is no positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"`{name}` must be a positive, finite number; got {value!r}.")
    return float(value)


def names_its_options(function: Callable[P, R]) -> Callable[P, R]:
    """Answer a misspelt option with the nearest right one and the list of all."""
    known = list(inspect.signature(function).parameters)
    name = getattr(function, "__qualname__", str(function)).removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for option in kwargs:
            if option not in known:
                near = difflib.get_close_matches(option, known, n=1)
                hint = f" Did you mean `{near[0]}`?" if near else ""
                options = ", ".join(k for k in known if k != "self")
                raise TypeError(f"`{name}` has no option `{option}`.{hint} It takes: {options}.")
        return function(*args, **kwargs)

    return checked


def with_named_options(cls: type[R]) -> type[R]:
    """The same for the fields of a dataclass: wraps its `__init__`."""
    cls.__init__ = names_its_options(cls.__init__)
    return cls
