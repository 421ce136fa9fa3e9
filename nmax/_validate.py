"""Does the model fit the data, and itself? All that can be known before any work starts."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

from nmax._first_guess import compiled_guess
from nmax.data import Series
from nmax.models import AbstractModel, log_prob_of_rows
from nmax.models._observe import separable

PRIOR_DRAWS = 100
ROWS = 1_000  # rows of y at which the densities are tried, the extremes of every column among them


def check_model(model: Any, series: Series) -> None:
    """Refuse a model that contradicts itself or the data."""
    if not isinstance(model, AbstractModel):
        raise TypeError(
            f"`model` must be an nmax.StateSpaceModel or an nmax.SDE; got {type(model).__name__}. "
            "Write `nmax.StateSpaceModel(prior=..., initial=..., transition=..., observation=...)`."
        )
    prior = model.parameters  # refuses a bad prior
    draws = prior.sample(jr.key(0), PRIOR_DRAWS)
    theta = prior.constrain(jnp.median(draws, axis=0))
    _check_initial(model, draws)
    _check_exactly_observed(model, series)
    _check_distributions(model, series, theta)
    _check_densities(model, series, theta)


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
    states = np.asarray(jax.vmap(lambda flat: jnp.asarray(model.initial(model.parameters.constrain(flat))))(draws))
    if not np.isfinite(states).all():
        bad = int((~np.isfinite(states).all(axis=1)).sum())
        raise ValueError(
            f"`initial(theta)` must be finite for every θ of the prior; it is not for {bad} of {PRIOR_DRAWS} prior draws. "
            "Give its parameters a prior on which it is defined."
        )
    free = [k for k in range(states.shape[1]) if k not in model.exactly_observed]
    for k in free:
        inside = np.asarray(model.state_transforms[k].codomain(jnp.asarray(states[:, k])))
        if not inside.all():
            raise ValueError(
                f"`initial(theta)` must lie in `support`; component {k} does not: it is {states[~inside, k][0]:g} "
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


def _check_distributions(model: AbstractModel, series: Series, theta: Any) -> None:
    state = jnp.asarray(model.initial(theta), jnp.float32)
    row = (series.inputs[0],) if series.has_inputs else ()
    _check_event("transition", _called("transition", model.transition, state, theta, row), [state.shape[0]])

    others = series.columns - len(model.exactly_observed)
    if model.observation is None:
        if others:
            raise ValueError(
                f"`observation` must describe the {others} columns of `y` that are not exactly observed; got None."
            )
        return
    observation = _called("observation", model.observation, state, theta, row)
    _check_event("observation", observation, sorted({others, series.columns}))
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


def _check_densities(model: AbstractModel, series: Series, theta: Any) -> None:
    """NaN at the data, or in the dynamics between likely states, would be NaN at every step of training."""
    rows = _telling_rows(series)
    guess = compiled_guess(model, series, theta, jnp.asarray(rows))
    x = jnp.stack([transform(guess[:, k]) for k, transform in enumerate(model.state_transforms)], axis=1)
    x = jnp.where(jnp.isfinite(x), x, jnp.asarray(model.initial(theta), x.dtype)[None])
    inputs = series.inputs[rows]
    log_probs: Any = eqx.filter_jit(log_prob_of_rows)
    data = log_probs(model.observation_log_prob, x, series.values[rows], series.observed[rows], inputs, theta=theta)
    bad = ~np.isfinite(np.asarray(data))
    if bad.any():
        row = int(rows[bad.argmax()])
        raise ValueError(
            f"`observation(x, theta).log_prob(y)` must be finite at the data; it is {data[bad.argmax()]} at row {row}, y = "
            f"{np.asarray(series.values[row])}, with θ at the centre of its prior. Is y in the distribution's support, "
            "and is the distribution defined for all x and θ?"
        )
    dynamics = log_probs(model.transition_log_prob, x, x, inputs, theta=theta)
    if np.isnan(np.asarray(dynamics)).any():
        where = int(np.isnan(np.asarray(dynamics)).argmax())
        raise ValueError(
            f"`transition(x, theta).log_prob` must not be NaN; it is at x = {np.asarray(x[where])}, with θ at the centre "
            "of its prior. Is the distribution defined there, with positive scales? A `support` keeps x where it is."
        )


def _telling_rows(series: Series) -> np.ndarray:
    rows = np.linspace(0, series.length, min(ROWS, series.length + 1)).astype(np.int64)
    values = np.asarray(series.values)
    extremes = np.concatenate([values.argmin(axis=0), values.argmax(axis=0)])
    chosen = np.unique(np.concatenate([rows, extremes]))
    most = min(ROWS + len(extremes), series.length + 1)  # always as many, so that nothing compiles anew for other data
    return np.pad(chosen, (0, most - len(chosen)), mode="edge")
