"""Does the model fit the data, and itself? All that can be known before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

from nmax._first_guess import first_guess
from nmax.data import Series
from nmax.models import AbstractModel, log_prob_of_rows
from nmax.models._mean_and_sd import mean_and_sd
from nmax.models._observe import separable
from nmax.models._own_functions import own_functions
from nmax.models._supports import check_data_in_support, check_transition_support

PRIOR_DRAWS = 100
ROWS = 1_000  # rows of y at which the densities are tried, the extremes of every column among them
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # compiles: it runs but once


def check_model(model: Any, series: Series, rows: Sequence[str] = ()) -> None:
    """Refuse a model that contradicts itself or the data.

    Args:
        model: what was passed as one.
        series: the data, or some rows of them.
        rows: what refusals call these rows, where they are not all: `row 17 of series 2`, say.
    """
    if not isinstance(model, AbstractModel):
        raise TypeError(
            f"`model` must be an nmax.StateSpaceModel or an nmax.SDE; got {type(model).__name__}. "
            "Write `nmax.StateSpaceModel(prior=..., initial=..., transition=..., observation=...)`."
        )
    model.parameters  # refuses a bad prior  # noqa: B018
    draws, theta = prior_draws(model)
    with own_functions(model):
        _check_initial(model, draws)
        _check_exactly_observed(model, series)
        _check_distributions(model, series, theta, rows)
    _check_densities(model, series, theta, rows)


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def prior_draws(model: AbstractModel) -> tuple[Any, Any]:
    """The same draws of the prior whenever they are asked for, unconstrained, and the parameters in their middle."""
    draws = model.parameters.sample(jr.key(0), PRIOR_DRAWS)
    return draws, model.parameters.constrain(jnp.median(draws, axis=0))


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def _starts(model: AbstractModel, draws: Any) -> tuple[Any, Any]:
    """The state at index 0 at draws of θ, and which of its components lie in their support."""
    states = jax.vmap(lambda flat: jnp.asarray(model.initial(model.parameters.constrain(flat)), jnp.float32))(draws)
    inside = [transform.codomain(states[:, k]) for k, transform in enumerate(model.state_transforms)]
    return states, jnp.stack(inside, axis=1)


def _check_initial(model: AbstractModel, draws: Any) -> None:
    start = jax.eval_shape(lambda flat: jnp.asarray(model.initial(model.parameters.constrain(flat))), draws[0])
    if len(start.shape) != 1:
        raise ValueError(
            f"`initial(theta)` must be a vector of shape (d,), the state at index 0; got shape {start.shape}. "
            "For one component return `jnp.array([value])`."
        )
    supports = model.support if isinstance(model.support, (tuple, list)) else None
    if supports is not None and len(supports) != start.shape[0]:
        raise ValueError(
            f"`support` must be one constraint, or one for each of the {start.shape[0]} state components; "
            f"got {len(supports)}."
        )
    states, inside = map(np.asarray, _starts(model, draws))
    if not np.isfinite(states).all():
        bad = int((~np.isfinite(states).all(axis=1)).sum())
        raise ValueError(
            f"`initial(theta)` must be finite for every θ of the prior; it is not for {bad} of {PRIOR_DRAWS} prior draws. "
            "Give its parameters a prior on which it is defined."
        )
    free = [k for k in range(states.shape[1]) if k not in model.exactly_observed]
    for k in free:
        if not inside[:, k].all():
            raise ValueError(
                f"`initial(theta)` must lie in `support`; component {k} does not: it is {states[~inside[:, k], k][0]:g} "
                f"for a prior draw, and its support is {model.state_transforms[k].codomain}. Change one or the other."
            )


def _check_exactly_observed(model: AbstractModel, series: Series) -> None:
    for component, column in model.exactly_observed.items():
        if not 0 <= component < model.state_size or not 0 <= column < series.columns:
            raise ValueError(
                "`exactly_observed` must map state components to columns of `y`; "
                f"got {{{component}: {column}}} with {model.state_size} components and {series.columns} columns."
            )
    if len(set(model.exactly_observed.values())) < len(model.exactly_observed):
        raise ValueError(f"`exactly_observed` must name each column once; got {dict(model.exactly_observed)}.")


def _check_distributions(model: AbstractModel, series: Series, theta: Any, rows: Sequence[str]) -> None:
    state = jnp.asarray(model.initial(theta), jnp.float32)
    row = (series.inputs[0],) if series.has_inputs else ()
    transition = _called("transition", model.transition, state, theta, row)
    _check_event("transition", transition, [state.shape[0]])
    check_transition_support(model, transition)

    others = series.columns - len(model.exactly_observed)
    if model.observation is None:
        if others:
            raise ValueError(
                f"`observation` must describe the {others} columns of `y` that are not exactly observed; got None."
            )
        return
    observation = _called("observation", model.observation, state, theta, row)
    _check_event("observation", observation, sorted({others, series.columns}))
    check_data_in_support(model, observation, series, rows)
    gaps = series.partial or (model.exactly_observed and observation.event_shape[0] > others)
    if gaps and not separable(observation):
        raise ValueError(
            "Where single columns of a row of `y` are missing, the density of the others alone must be known; for "
            f"{type(observation).__name__} it is not. Use independent components (`.to_event(1)`) or a multivariate "
            "normal or Student t, or set the whole row to NaN."
        )


def _called(name: str, function: Any, state: Any, theta: Any, row: tuple) -> dist.Distribution:
    returned: Any = None

    def call(state, theta, *row):  # traced, so that values do not matter yet; densities are looked at later
        nonlocal returned
        returned = function(state, theta, *row)
        return 0

    try:
        jax.eval_shape(call, state, theta, *row)
    except ValueError as error:
        if "got invalid" not in str(error):
            raise
        reason, remedy = str(error).splitlines()[0], OBSERVED_EXACTLY if name == "observation" else MOVED_EXACTLY
        raise ValueError(
            f"NumPyro refuses the distribution that `{name}(x, theta)` returns: {reason} A scale must be positive. {remedy}"
        ) from error
    except TypeError as error:
        if "positional argument" not in str(error):
            raise
        raise ValueError(
            f"`{name}` must take (x, theta{', inputs' if row else ''}): `fit` was called "
            f"{'with' if row else 'without'} `inputs`. It says: {error}."
        ) from error
    if not isinstance(returned, dist.Distribution):
        raise TypeError(f"`{name}(x, theta)` must return a NumPyro distribution; got {type(returned).__name__}.")
    return returned


def _check_event(name: str, distribution: dist.Distribution, sizes: list[int]) -> None:
    if distribution.batch_shape == () and distribution.event_shape in [(n,) for n in sizes]:
        return
    shapes = " or ".join(f"({n},)" for n in sizes)
    what = "the shape of `initial(theta)`" if name == "transition" else "one entry a column of `y`"
    hint = " Did you forget `.to_event(1)`?" if distribution.batch_shape else ""
    raise ValueError(
        f"`{name}(x, theta)` must return a distribution with event shape {shapes}, {what}, and no batch shape; "
        f"got event shape {distribution.event_shape}, batch shape {distribution.batch_shape}.{hint}"
    )


def _check_densities(model: AbstractModel, series: Series, theta: Any, names: Sequence[str]) -> None:
    """NaN at the data, or in the dynamics between likely states, would be NaN at every step of training."""
    rows = _telling_rows(series)
    x, data, dynamics = map(np.asarray, _densities(model, series, theta, jnp.asarray(rows)))
    bad = ~np.isfinite(data)
    if bad.any():
        where = int(bad.argmax())
        row = int(rows[where])
        raise ValueError(
            f"`observation(x, theta).log_prob(y)` must be finite at the data; it is {data[where]} at "
            f"{names[row] if names else f'row {row}'}, y = {np.asarray(series.values[row])}, with θ at the centre of its "
            "prior. "
            + (
                _without_width(model.observation, x[where], theta, series, row, "column", OBSERVED_EXACTLY)
                or "Is y in the distribution's support, and is the distribution defined for all x and θ?"
            )
        )
    if np.isnan(dynamics).any():
        where = int(np.isnan(dynamics).argmax())
        raise ValueError(
            f"`transition(x, theta).log_prob` must not be NaN; it is at x = {x[where]}, with θ at the centre of its prior. "
            + (
                _without_width(model.transition, x[where], theta, series, int(rows[where]), "state component", MOVED_EXACTLY)
                or "Is the distribution defined there, with positive scales? A `support` keeps x where it is."
            )
        )


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def _densities(model: AbstractModel, series: Series, theta: Any, rows: Any) -> tuple[Any, Any, Any]:
    """States read off the data at some rows, and log densities of the data and of the dynamics there."""
    guess = first_guess(model, series, theta, rows)
    x = jnp.stack([transform(guess[:, k]) for k, transform in enumerate(model.state_transforms)], axis=1)
    x = jnp.where(jnp.isfinite(x), x, jnp.asarray(model.initial(theta), x.dtype)[None])
    y, observed, inputs = series.values[rows], series.observed[rows], series.inputs[rows]
    data = log_prob_of_rows(model.observation_log_prob, x, y, observed, inputs, theta=theta)
    return x, data, log_prob_of_rows(model.transition_log_prob, x, x, inputs, theta=theta)


OBSERVED_EXACTLY = (
    "A column that shows a state without error has no density: pass `exactly_observed={component: column}` and leave it out "
    "of `observation`."
)
MOVED_EXACTLY = (
    "A component that moves without noise has no density of its own. Give it a little noise, small against its movement in "
    "one step, or write it as a function of the others."
)


def _without_width(function: Any, x: Any, theta: Any, series: Series, row: int, what: str, remedy: str) -> str:
    """A sentence on the components whose width is zero or negative, if there are any."""
    inputs = (series.inputs[row],) if series.has_inputs else ()
    try:
        sd = jax.jit(lambda x, theta: mean_and_sd(function(x, theta, *inputs))[1])(jnp.asarray(x), theta)
    except NotImplementedError:  # a distribution whose moments are not known
        return ""
    zero, negative = np.flatnonzero(np.asarray(sd) == 0.0), np.flatnonzero(np.asarray(sd) < 0.0)
    if len(negative):
        return f"The scale of {what} {negative[0]} is negative: give it a positive prior, `dist.LogNormal(0.0, 1.0)` say."
    return f"The scale of {what} {zero[0]} is zero. {remedy}" if len(zero) else ""


def _telling_rows(series: Series) -> np.ndarray:
    rows = np.linspace(0, series.length, min(ROWS, series.length + 1)).astype(np.int64)
    values = np.asarray(series.values)
    extremes = np.concatenate([values.argmin(axis=0), values.argmax(axis=0)])
    chosen = np.unique(np.concatenate([rows, extremes]))
    most = min(ROWS + len(extremes), series.length + 1)  # always as many, so that nothing compiles anew for other data
    return np.pad(chosen, (0, most - len(chosen)), mode="edge")
