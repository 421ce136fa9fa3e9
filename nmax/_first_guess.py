"""A first guess of the path from the observations alone, to start training from."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from nmax._small import applied, inverse_cholesky, pack, transposed, unpack
from nmax.data import LongSeries, ManySeries, Series
from nmax.models import AbstractModel, Theta

ITERATIONS = 4  # of Gauss and Newton; one is enough where the observed mean is linear in the state
RIDGE = 1e-3  # pull towards the start, relative to the strongest pull of the data: decides what the data leave open
SHARES = np.array([1.0, 0.5, 0.25, 0.1, 0.03], np.float32)  # of a step, the best of which is taken: log means overshoot
ROWS = 2_000  # rows looked at for the state's centre and spread


def first_guess(
    model: AbstractModel, series: Series, theta: Theta, index: Int[Array, " time"]
) -> Float[Array, "time state"]:
    r"""States whose observed mean is near the (interpolated) observations, in unconstrained coordinates.

    Minimises $\sum_k (y_{ik} - E[y_{ik} \mid x])^2 / s_k^2$, with a weak pull towards the model's start, over the
    unconstrained state by a few Gauss–Newton steps from that start, each cut to where it helps most. Components that the
    observations do not show stay at the start; so does everything where the observation distribution has no finite mean.
    """
    start = unconstrained_start(model, theta)
    mean = _observed_mean(model, series, theta)

    def improve(state, row):
        residual = (series.values[row] - mean(state, row)) / series.scale
        jacobian = jax.jacfwd(mean)(state, row) / series.scale[:, None]
        curvature = jacobian.T @ jacobian
        pull = RIDGE * jnp.max(jnp.diagonal(curvature)) + 1e-20
        inverse = inverse_cholesky(unpack(curvature + pull * jnp.eye(len(start))))
        push = applied(inverse, unpack(jacobian.T @ residual - pull * (state - start)))
        step = pack(applied(transposed(inverse), push))
        tried = state[None] + SHARES[:, None] * step[None]
        far = jax.vmap(lambda at: jnp.sum(((series.values[row] - mean(at, row)) / series.scale) ** 2))(tried)
        far = jnp.where(jnp.isfinite(far), far + pull * jnp.sum((tried - start[None]) ** 2, axis=1), jnp.inf)
        best = tried[jnp.argmin(far)]
        return jnp.where(jnp.all(jnp.isfinite(best)) & jnp.isfinite(jnp.min(far)), best, state)

    def guess(row):
        state = start
        for _ in range(ITERATIONS):
            state = improve(state, row)
        return state

    return jax.vmap(guess)(series.at(index))


compiled_guess = eqx.filter_jit(first_guess)


def centre_and_spread(
    model: AbstractModel, series: Series | LongSeries | ManySeries, theta: Theta
) -> tuple[Float[Array, " state"], Float[Array, " state"]]:
    """Mean and standard deviation of the first guess over the series; a spread of 1 where it does not vary."""
    last = series.length if isinstance(series, Series) else series.rows - 1
    rows = np.unique(np.linspace(0, last, ROWS).astype(np.int32))
    if not isinstance(series, Series):
        series, rows = series.sampled(rows), np.arange(len(rows), dtype=np.int32)
    guess = compiled_guess(model, series, theta, jnp.asarray(rows))
    spread = jnp.std(guess, axis=0)
    return jnp.mean(guess, axis=0), jnp.where(spread > 1e-3, spread, 1.0)


def unconstrained_start(model: AbstractModel, theta: Theta) -> Float[Array, " state"]:
    """The state at index 0 on the real line of each component."""
    start = jnp.asarray(model.initial(theta), jnp.float32)
    return jnp.stack([transform.inv(start[k]) for k, transform in enumerate(model.state_transforms)])


def _observed_mean(model: AbstractModel, series: Series, theta: Theta):
    """The mean of a row of y as a function of the unconstrained state and the row's number."""
    exact = {column: component for component, column in model.exactly_observed.items()}

    def mean(state, row):
        x = jnp.stack([transform(state[k]) for k, transform in enumerate(model.state_transforms)])
        shown = {column: x[component] for column, component in exact.items()}
        if model.observation is not None:
            distribution = model.observation(x, theta, *((series.inputs[row],) if series.has_inputs else ()))
            drawn = jnp.asarray(distribution.mean, jnp.float32)
            columns = [k for k in range(series.columns) if k not in exact or len(drawn) == series.columns]
            shown = dict(zip(columns, drawn, strict=True)) | shown
        return jnp.stack([shown[k] for k in range(series.columns)])

    return mean
