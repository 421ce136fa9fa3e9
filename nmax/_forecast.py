"""`Forecast`: states and observations beyond the end of a series, with the uncertainty of θ and of where the path stands."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._draw import draw_keys
from nmax._forecast_table import ForecastSummary, over_draws
from nmax.data import Table
from nmax.models import AbstractModel, Theta, in_support, next_state, observe

AHEAD = 2  # which of a draw's keys is for what follows; 0 and 1 are for θ and the path


@dataclasses.dataclass(frozen=True, repr=False)
class Forecast:
    """Draws of the states and observations of the rows that follow a series.

    A draw that leaves the model's support, or is no longer finite, is NaN from then on; means and quantiles are over the
    others, and `notes` says how many those were.

    Attributes:
        x: states.
        y: observations.
        theta: the parameters of each draw, name -> draws.
        times: of the steps, or the numbers of their rows.
        columns: names of the columns of `y`.
        state_names: names of the state components.
        time_name: what the times are called.
        inputs: the inputs that were assumed, or None.
        input_columns: their names.
        notes: what to know before relying on this, in sentences.
    """

    x: Float[np.ndarray, "draw step state"]
    y: Float[np.ndarray, "draw step obs"]
    theta: dict[str, np.ndarray]
    times: np.ndarray
    columns: tuple[str, ...]
    state_names: tuple[str, ...]
    time_name: str = "time"
    inputs: Float[np.ndarray, "step inputs"] | None = None
    input_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def alive(self) -> Bool[np.ndarray, "draw step"]:
        """Which draws are finite, at each step."""
        return np.all(np.isfinite(self.x), axis=2) & np.all(np.isfinite(self.y), axis=2)

    def quantiles(self, levels: Any = (0.05, 0.5, 0.95), *, of: str = "y") -> Float[np.ndarray, "level step column"]:
        """Quantiles over the draws of each step and column of the observations, or `of="x"`, of the states."""
        if of not in ("x", "y"):
            raise ValueError(f'`of` must be "y", the observations, or "x", the states; got {of!r}.')
        levels = np.atleast_1d(np.asarray(levels, float))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"`levels` must be numbers between 0 and 1, one or a list of them; got {levels}.")
        return over_draws(np.quantile, self.x if of == "x" else self.y, levels)

    def summary(self, rows: int = 8) -> ForecastSummary:
        """Mean, sd and quantiles of every step and column, of which a table with so many steps prints itself."""
        rows = check_count("rows", rows)
        return ForecastSummary.of(
            self.y, self.x, self.times, self.columns, self.state_names, self.time_name, self.notes, rows
        )

    def __str__(self) -> str:
        return str(self.summary())

    def __repr__(self) -> str:
        draws, steps, _ = self.y.shape
        return f"Forecast({draws} draws of {steps} steps; columns: {', '.join(self.columns)})"


def forecast(posterior: Any, steps: int, draws: int, *, inputs: Any = None, key: PRNGKeyArray) -> Forecast:
    r"""Simulate the model beyond the end of a series.

    $\theta, x_T$ are joint draws of the posterior; then $x_{T+h} \sim p(\cdot \mid x_{T+h-1}, \theta)$ and
    $y_{T+h} \sim p(\cdot \mid x_{T+h}, \theta)$. With one key, `posterior.theta`, `posterior.path` and this are joint draws,
    and the first steps do not depend on how many are asked for.

    Args:
        posterior: an `nmax.Posterior` or `nmax.Draws`.
        steps: how many rows ahead.
        draws: how many draws.
        inputs: those of the rows ahead, shape (steps, k), where the model takes inputs.
        key: random key.
    """
    key, steps, draws = check_key(key), check_count("steps", steps), check_count("draws", draws)
    rows = future_inputs(inputs, steps, posterior.table)
    return forecast_from(posterior, posterior.series.length, rows, draws, posterior.table.ahead(steps), key=key)


def forecast_from(
    posterior: Any,
    origin: int,
    inputs: Float[np.ndarray, "step inputs"],
    draws: int,
    times: np.ndarray,
    *,
    key: PRNGKeyArray,
) -> Forecast:
    """Simulate the rows after `origin`. What the data after it say is not used, but for what it says of θ and its state."""
    model, table = posterior.model, posterior.table
    theta = posterior.theta(draws, key=key)
    x = posterior.path(draws, start=origin, stop=origin + 1, key=key)[:, 0]
    keys = own_keys(key, draws, AHEAD)
    columns = posterior.series.columns
    path, y, left = continued(model, theta, x, jnp.asarray(inputs, jnp.float32), jnp.int32(origin + 1), columns, keys)
    path, y = np.asarray(path), np.asarray(y)
    return Forecast(
        x=path,
        y=y,
        theta=theta,
        times=times,
        columns=table.columns,
        state_names=model.state_names,
        time_name=table.time_name,
        inputs=inputs if inputs.shape[1] else None,
        input_columns=table.input_columns,
        notes=lost_draws(path, y, np.asarray(left)),
    )


def future_inputs(inputs: Any, steps: int, table: Table) -> Float[np.ndarray, "step inputs"]:
    """Inputs of rows to come as an array of shape (steps, k), or say what is wrong with them."""
    count = inputs_of(table, 0, 1).shape[1]
    if inputs is None and count:
        raise ValueError(
            f"The model takes inputs, so a forecast needs those of the {steps} rows ahead: pass `inputs` of shape "
            f"({steps}, {count})."
        )
    if inputs is None:
        return np.zeros((steps, 0), np.float32)
    if not count:
        raise ValueError("`inputs` must be left out: the model was fitted without any.")
    rows = np.asarray(inputs, np.float32)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.shape != (steps, count):
        raise ValueError(
            f"`inputs` must have shape ({steps}, {count}), a row for each step ahead and a column for each input of the "
            f"fit; got {np.shape(inputs)}."
        )
    if not np.isfinite(rows).all():
        raise ValueError("`inputs` must be finite at every step ahead; fill the gaps first.")
    return rows


def inputs_of(table: Table, start: int, stop: int) -> Float[np.ndarray, "row inputs"]:
    """Inputs of rows `start, ..., stop - 1` of the data; no columns where there are none."""
    if table.inputs is None:
        return np.zeros((stop - start, 0), np.float32)
    return np.asarray(table.inputs[start:stop], np.float32)


def own_keys(key: PRNGKeyArray, draws: int, purpose: int) -> PRNGKeyArray:
    """A key for each draw and purpose: the first draws have the same ones however many are asked for."""
    return jax.vmap(lambda own: jr.fold_in(own, purpose))(draw_keys(key, draws))


@eqx.filter_jit
def continued(
    model: AbstractModel,
    theta: Theta,
    x: Float[Array, "draw state"],
    inputs: Float[Array, "step inputs"],
    first: Int[Array, ""],
    columns: int,
    keys: PRNGKeyArray,
) -> tuple[Float[Array, "draw step state"], Float[Array, "draw step obs"], Bool[Array, "draw step"]]:
    """States and observations of the rows from `first` on, `x` being the state before; and which states left the support."""

    def one(theta, x, key):
        path_key, observation_key = jr.split(key)

        def move(before, step):
            index, row = step
            x = next_state(model, before, theta, row, jr.fold_in(path_key, index))
            alive, finite = jnp.all(jnp.isfinite(before)), jnp.all(jnp.isfinite(x))
            held = alive & finite & in_support(model, x)
            x = jnp.where(held, x, jnp.nan)
            y = observe(model, x, theta, row, jr.fold_in(observation_key, index), columns)
            return x, (x, jnp.where(held & jnp.isfinite(y), y, jnp.nan), alive & finite & ~held)

        _, rows = jax.lax.scan(move, x, (first + jnp.arange(len(inputs)), inputs))
        return rows

    return jax.vmap(one)(theta, x, keys)


def lost_draws(x: np.ndarray, y: np.ndarray, left: np.ndarray) -> tuple[str, ...]:
    """Say how many draws left the support, and how many stopped being finite."""
    draws, steps, _ = x.shape
    lost = ~(np.all(np.isfinite(x), axis=2) & np.all(np.isfinite(y), axis=2))
    outside = np.any(left, axis=1)
    burst = np.any(lost, axis=1) & ~outside
    notes = []
    if outside.any():
        notes.append(
            f"{outside.sum()} of {draws} draws leave the support of the state within {steps} steps, the first at step "
            f"{np.argmax(np.any(left, axis=0)) + 1}; they are NaN from then on, and figures are of those that stay in it"
        )
    if burst.any():
        notes.append(
            f"{burst.sum()} of {draws} draws are not finite within {steps} steps, the first at step "
            f"{np.argmax(np.any(lost[burst], axis=0)) + 1}: figures are of the others, and too narrow"
        )
    return tuple(notes)
