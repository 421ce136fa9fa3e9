"""A model looked at near the data, at draws of its prior: what it uses, how wide it is, where it starts."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nmax._first_guess import first_guess
from nmax._validate import PRIOR_DRAWS, QUICKLY, prior_draws
from nmax.data import Series
from nmax.models import AbstractModel
from nmax.models._mean_and_sd import mean_and_sd

DRAWS = PRIOR_DRAWS
ROWS = 24  # looked at


class Probe(NamedTuple):
    """A model at draws of its prior and some rows of the data, the states read off them.

    Attributes:
        undefined: share of the draws at which some mean is NaN or some width not positive.
        first: mean of the first row of y, a draw each, by column.
        first_sd: its standard deviation, given the state; NaN for what is observed exactly.
        observation_sd: of a row of y given the state, the same.
        total_sd: of the next row of y, given the state before.
    """

    undefined: float
    first: Float[np.ndarray, "draw obs"]
    first_sd: Float[np.ndarray, "draw obs"]
    observation_sd: Float[np.ndarray, "draw obs"]
    total_sd: Float[np.ndarray, "draw obs"]


def probe(model: AbstractModel, series: Series) -> Probe:
    """Look at a model near the data."""
    rows = jnp.asarray(np.linspace(0, series.length - 1, ROWS).astype(np.int32))
    draws, theta = prior_draws(model)

    defined, *parts = map(np.asarray, _looked(model, series, draws, theta, rows))
    return Probe(float(np.mean(~defined)), *(part.astype(np.float64) for part in parts))


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def _looked(model: AbstractModel, series: Series, draws: Array, theta: Any, rows: Array) -> tuple[Array, ...]:
    u = first_guess(model, series, theta, rows)
    x = jnp.stack([transform(u[:, k]) for k, transform in enumerate(model.state_transforms)], axis=1)
    moved = jnp.std(x, axis=0) > 1e-4 * jnp.max(jnp.abs(x), axis=0)  # the others stay at the start, whatever the data
    shown = moved & jnp.all(jnp.isfinite(x), axis=0)
    own = partial(_widths, model, x, shown, series.inputs[0], series.inputs[rows + 1], series.columns)
    return jax.vmap(own)(draws)


def _widths(
    model: AbstractModel, x: Array, shown: Array, first_row: Array, rows: Array, columns: int, flat: Array
) -> tuple[Array, ...]:
    """At one θ: whether all is defined, mean and width of the first row of y, and widths of others, in the middle."""
    theta = model.parameters.constrain(flat)
    start = jnp.asarray(model.initial(theta), jnp.float32)
    x = jnp.where(shown[None], x, start[None])
    first, first_sd = _shown(model, start, theta, first_row, columns)
    own, total, defined = jax.vmap(lambda at, row: _spread(model, at, theta, row, columns))(x, rows)
    return jnp.all(defined), first, first_sd, jnp.median(own, axis=0), jnp.median(total, axis=0)


def _spread(model: AbstractModel, x: Array, theta: Any, row: Array, columns: int) -> tuple[Array, Array, Array]:
    r"""Standard deviations of the next row of y, given the next state and given this one, $\sqrt{R + H Q H^\top}$.

    $H$ is taken from differences over one standard deviation of each state.
    """
    mean, sd = mean_and_sd(model.transition(x, theta, *((row,) if row.shape[0] else ())))
    points = jnp.concatenate([mean[None], mean[None] + jnp.diag(sd)])
    shown, own = jax.vmap(lambda at: _shown(model, at, theta, row, columns))(points)
    total = jnp.sqrt(jnp.nan_to_num(own[0]) ** 2 + jnp.sum((shown[1:] - shown[:1]) ** 2, axis=0))
    exact = jnp.isin(jnp.arange(columns), jnp.array(list(model.exactly_observed.values()), jnp.int32))
    defined = jnp.all(sd > 0) & ~jnp.any(jnp.isnan(mean)) & jnp.all((own[0] > 0) | exact)
    return own[0], total, defined


def _shown(model: AbstractModel, x: Array, theta: Any, row: Array, columns: int) -> tuple[Array, Array]:
    """Mean and standard deviation of a row of y given the state; the latter is NaN for what is observed exactly."""
    means, sds = {}, {}
    if model.observation is not None:
        mean, sd = mean_and_sd(model.observation(x, theta, *((row,) if row.shape[0] else ())))
        exact = model.exactly_observed.values()
        places = [k for k in range(columns) if k not in exact or len(mean) == columns]
        means, sds = dict(zip(places, mean, strict=True)), dict(zip(places, sd, strict=True))
    for component, column in model.exactly_observed.items():
        means[column], sds[column] = x[component], jnp.float32(jnp.nan)
    return jnp.stack([means[k] for k in range(columns)]), jnp.stack([sds[k] for k in range(columns)])


class Use(NamedTuple):
    """What the model's functions make use of.

    Attributes:
        parameters: names of those that reach a density or the start.
        state: whether the next state depends on the one before.
    """

    parameters: frozenset[str]
    state: bool


def use_of(model: AbstractModel, series: Series) -> Use:
    """What the model's functions use, read off the operations they are traced to: exact, and nothing is run."""
    prior = model.parameters
    theta = jax.eval_shape(prior.constrain, jax.ShapeDtypeStruct((prior.size,), jnp.float32))
    x = jax.ShapeDtypeStruct((model.state_size,), jnp.float32)
    y = jax.ShapeDtypeStruct((series.columns,), jnp.float32)
    row = jax.ShapeDtypeStruct(series.inputs.shape[1:], jnp.float32)
    everything = jnp.ones(series.columns, bool)

    def densities(theta, before, x, y, row):
        moved = model.transition_log_prob(before, x, theta, row)
        return moved, model.observation_log_prob(x, y, everything, theta, row), jnp.asarray(model.initial(theta))

    moved, seen, start = _reached(densities, theta, x, x, y, row)
    names = sorted(theta)  # as the leaves of a dict are ordered
    used = {name for part in (moved, seen, start) for name, hit in zip(names, part[: len(names)]) if hit}
    return Use(frozenset(used), moved[len(names)])


def _reached(function: Any, *arguments: Any) -> list[list[bool]]:
    """For each result of a function, which of the leaves of its arguments it depends on."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    reached = []
    for result in jaxpr.outvars:
        needed = {result} if not hasattr(result, "val") else set()
        for equation in reversed(jaxpr.eqns):
            if any(out in needed for out in equation.outvars):
                needed |= {v for v in equation.invars if not hasattr(v, "val")}
        reached.append([v in needed for v in jaxpr.invars])
    return reached
