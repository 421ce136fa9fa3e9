"""Draws of one step at a given θ: the state that follows, and what is seen of it."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from nmax.models._base import AbstractModel
from nmax.models._priors import Theta


def next_state(model: AbstractModel, x: Array, theta: Theta, inputs: Array, key: PRNGKeyArray) -> Float[Array, " state"]:
    """A draw of the state that follows `x`; `inputs` is the row of the step it belongs to, empty where there are none."""
    return jnp.asarray(model.transition(x, theta, *_row(inputs)).sample(key))


def in_support(model: AbstractModel, x: Float[Array, " state"]) -> Bool[Array, ""]:
    """Whether a state is finite and lies in the model's support, which the model confines its paths to."""
    return jnp.all(jnp.stack([transform.codomain(x[k]) for k, transform in enumerate(model.state_transforms)]))


def observe(
    model: AbstractModel, x: Array, theta: Theta, inputs: Array, key: PRNGKeyArray, columns: int | None = None
) -> Float[Array, " obs"]:
    """A draw of a row of `y`, its exactly observed columns read off the state.

    Args:
        model: the model.
        x: the state.
        theta: the parameters.
        inputs: the row of the inputs, empty where there are none.
        key: random key.
        columns: how many columns `y` has. An observation distribution may be one of all of them, the exactly observed ones
            included; without this number it is taken for one of the others.
    """
    exact = {column: x[component] for component, column in model.exactly_observed.items()}
    if model.observation is None:
        return _with_exact_columns(jnp.zeros((0,)), exact, columns)
    drawn = jnp.asarray(model.observation(x, theta, *_row(inputs)).sample(key), jnp.float32)
    return _with_exact_columns(drawn, exact, columns)


def _with_exact_columns(drawn: Array, exact: dict[int, Array], columns: int | None) -> Array:
    """The exactly observed columns at their places, the drawn ones at the others."""
    columns = len(drawn) + len(exact) if columns is None else columns
    others = [k for k in range(columns) if k not in exact]
    places = others if len(drawn) == len(others) else range(columns)
    by_column = dict(zip(places, drawn, strict=True)) | exact
    return jnp.stack([by_column[k] for k in sorted(by_column)])


def _row(inputs: Array) -> tuple[Array, ...]:
    return (inputs,) if inputs.shape[0] else ()
