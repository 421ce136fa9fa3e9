"""What a run is a run of: model, data, settings, versions; and in what two of them differ."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from numpyro.distributions import Distribution
from numpyro.distributions.transforms import Transform

from nmax.data import LongSeries, ManySeries, Series
from nmax.models import AbstractModel

ADDRESS = re.compile(r"0x[0-9a-f]+")  # of an object in memory: another in every process
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
LARGE = 50  # numbers that are not written out
PACKAGES = ("nmax", "jax", "jaxlib", "numpyro", "equinox", "optax", "flowjax", "blackjax", "numpy", "scipy")


def model_identity(model: AbstractModel, series: Series | LongSeries | ManySeries) -> dict[str, Any]:
    """The model in words and checksums: of its priors, and of its functions as JAX sees them.

    A function's checksum is that of the program it is traced to, constants included; the text of the source does not
    matter, nor does where it lies.
    """
    prior = model.parameters
    theta = prior.constrain(prior.sample(jr.key(0), 1)[0])
    x = jax.eval_shape(model.initial, theta)
    y, seen, row = (jnp.asarray(part) for part in series.start)
    functions = {
        "initial": (model.initial, theta),
        "transition": (lambda x, theta, row: model.transition_log_prob(x, x, theta, row), x, theta, row),
        "observation": (model.observation_log_prob, x, y, seen, theta, row),
    }
    return {
        "kind": type(model).__name__,
        "dt": getattr(model, "dt", None),
        "states": list(model.state_names),
        "support": ADDRESS.sub("", str(model.support)),
        "exactly_observed": {str(k): int(v) for k, v in model.exactly_observed.items()},
        "prior": {name: described_distribution(one) for name, one in prior.distributions.items()},
        **{name: _program(*call) for name, call in functions.items()},
    }


def data_identity(series: Series | LongSeries | ManySeries) -> dict[str, Any]:
    """Rows, columns and checksums of the observations and the inputs; of several series, of each."""
    if isinstance(series, ManySeries):
        each = {f"series {k}": data_identity(one) for k, one in enumerate(series.members)}
        return {"series": len(series.members), "rows": series.rows, **each}
    if isinstance(series, LongSeries):
        shape = {"rows": series.length + 1, "columns": series.columns, "inputs": series.input_columns}
        return {**shape, "sha256_of_observations": series.statistics.sha256, "sha256_of_inputs": ""}
    seen = np.where(np.asarray(series.observed), np.asarray(series.values), np.nan).astype(np.float32)
    inputs = np.asarray(series.inputs, np.float32)
    return {
        "rows": series.length + 1,
        "columns": series.columns,
        "inputs": inputs.shape[1],
        "sha256_of_observations": hashlib.sha256(seen.tobytes()).hexdigest(),
        "sha256_of_inputs": hashlib.sha256(inputs.tobytes()).hexdigest(),
    }


def versions() -> dict[str, str]:
    """Of everything that takes part in the arithmetic."""
    import platform

    return {name: version(name) for name in PACKAGES} | {"python": platform.python_version(), "machine": platform.machine()}


def differences(kept: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """In what two identities differ, a sentence each."""
    before, now, lines = dict(_flat(kept)), dict(_flat(here)), []
    for name in sorted(before.keys() | now.keys()):
        there, this = before.get(name, "nothing"), now.get(name, "nothing")
        if there != this:
            long = isinstance(there, str) and _CHECKSUM.fullmatch(there)  # a checksum tells a reader nothing
            lines.append(f"{name} is another" if long else f"{name} was {there}, is {this}")
    return lines


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def described_distribution(distribution: Any) -> str:
    """Its kind and its parameters as text, those of what it is made from included; large arrays as checksums."""
    parts = {name: getattr(distribution, name, None) for name in getattr(distribution, "arg_constraints", {})}
    for name in ("base_dist", "transforms", "low", "high"):
        if name not in parts and getattr(distribution, name, None) is not None and not _derived(distribution, name):
            parts[name] = getattr(distribution, name)
    if not parts:
        parts = {name: value for name, value in sorted(vars(distribution).items()) if not name.startswith("_")}
    return f"{type(distribution).__name__}({', '.join(f'{name}={_text(value)}' for name, value in parts.items())})"


def _derived(distribution: Any, name: str) -> bool:
    """Whether a part says no more than the parameters do: a log-normal is one by name."""
    return name in ("base_dist", "transforms") and bool(distribution.arg_constraints)


def _text(value: Any) -> str:
    if isinstance(value, (Distribution, Transform)):
        return described_distribution(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    if not hasattr(value, "shape") and not isinstance(value, (int, float)):
        return ADDRESS.sub("", str(value))
    array = np.asarray(value)
    if array.size > LARGE:
        return f"{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()[:12]}"
    return np.array2string(array, separator=", ", formatter={"all": lambda number: f"{number:.9g}"}, max_line_width=10**6)


def _program(function: Callable[..., Any], *arguments: Any) -> str:
    """Checksum of what a function is traced to."""
    closed = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(ADDRESS.sub("", str(closed.jaxpr)).encode())
    for constant in closed.consts:
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()
