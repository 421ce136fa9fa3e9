"""Draw a path and observations from a model at a given θ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._check import check_count, check_key, names_its_options
from nmax.models._base import AbstractModel
from nmax.models._one_step import next_state, observe
from nmax.models._own_functions import own_functions
from nmax.models._priors import Theta


class Simulation(NamedTuple):
    """A path and what was observed of it; rows are the indices 0, ..., T."""

    x: Float[np.ndarray, "rows state"]
    y: Float[np.ndarray, "rows obs"]


@names_its_options
def simulate(
    model: AbstractModel,
    theta: Mapping[str, Any],
    length: int,
    *,
    key: PRNGKeyArray,
    inputs: Any = None,
    observe_every: int = 1,
) -> Simulation:
    """Simulate `length` steps of a model, so `length + 1` rows.

    Args:
        model: the model.
        theta: parameter values by name, on the user's own scale.
        length: T, the number of steps after index 0.
        key: random key.
        inputs: exogenous inputs of shape (length + 1, k), where the model takes them.
        observe_every: keep the rows 0, n, 2n, ... of `y`; the others become NaN. Exactly observed columns stay whole.

    Returns:
        The path `x` of shape (T + 1, d) and the observations `y` of shape (T + 1, d_y).
    """
    key, length = check_key(key), check_count("length", length)
    observe_every = check_count("observe_every", observe_every)
    model.parameters.check_names(theta)
    values = {name: jnp.asarray(value, jnp.float32) for name, value in theta.items()}
    rows = np.zeros((length + 1, 0)) if inputs is None else np.asarray(inputs, np.float32).reshape(len(inputs), -1)
    if len(rows) != length + 1:
        raise ValueError(f"`inputs` must have `length` + 1 = {length + 1} rows; got {len(rows)}.")

    with own_functions(model):
        x, y = jax.jit(_simulate, static_argnums=0)(model, values, jnp.asarray(rows, jnp.float32), key)
    x, y = np.array(x), np.array(y)
    if not np.isfinite(x).all():
        first = int(np.argmin(np.isfinite(x).all(axis=1)))
        raise ValueError(
            f"The simulated state must stay finite; it is not from step {first} on. "
            "Take a smaller `dt`, other values of `theta`, or check the model's functions."
        )
    exact = list(model.exactly_observed.values())
    noisy = [k for k in range(y.shape[1]) if k not in exact]
    y[np.ix_(np.arange(length + 1) % observe_every != 0, noisy)] = np.nan
    return Simulation(x, y)


def _simulate(model: AbstractModel, theta: Theta, inputs: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
    path_key, observation_key = jr.split(key)
    start = jnp.asarray(model.initial(theta), jnp.float32)

    def move(x, step):
        index, row = step
        x = next_state(model, x, theta, row, jr.fold_in(path_key, index))
        return x, x

    _, path = jax.lax.scan(move, start, (jnp.arange(1, len(inputs)), inputs[1:]))
    path = jnp.concatenate([start[None], path])

    def see(index, x, row):
        return observe(model, x, theta, row, jr.fold_in(observation_key, index))

    return path, jax.vmap(see)(jnp.arange(len(inputs)), path, inputs)
