"""Observations simulated given draws of the posterior."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._draw import PIECE
from nmax._forecast import inputs_of, own_keys
from nmax.models import AbstractModel, Theta, observe

SEEN = 3  # which of a draw's keys is for simulated observations


def predictive(
    posterior: Any, draws: int, *, start: int = 0, stop: int | None = None, key: PRNGKeyArray
) -> Float[np.ndarray, "draw time obs"]:
    r"""Simulated observations of rows `start, ..., stop - 1`: $y_i \sim p(\cdot \mid x_i, \theta)$, a path and θ a draw.

    Also where nothing was observed. Exactly observed columns are those of the path, so the data themselves where there are
    some. With one key, `posterior.theta`, `posterior.path` and this are joint draws, however the series is cut up.
    """
    key, draws = check_key(key), check_count("draws", draws)
    x = posterior.path(draws, start=start, stop=stop, key=key)
    return seen_along(posterior, posterior.theta(draws, key=key), x, start, own_keys(key, draws, SEEN))


def seen_along(
    posterior: Any, theta: Theta, x: Float[np.ndarray, "draw time state"], start: int, keys: PRNGKeyArray
) -> Float[np.ndarray, "draw time obs"]:
    """Simulated observations of given states from row `start` on.

    They are made in pieces that begin at multiples of `PIECE`, as paths are, so that one compiled program makes all of them
    and the same row comes out alike, to the last bit, whatever stretch it is part of.
    """
    series, stop = posterior.series, start + x.shape[1]
    out = np.empty((*x.shape[:2], series.columns), np.float32)
    for first in range(start - start % PIECE, stop, PIECE):
        low, high = max(start, first), min(stop, first + PIECE)
        part = np.zeros((len(x), PIECE, x.shape[2]), np.float32)
        part[:] = x[:, low - start : low - start + 1]  # what lies outside is left out again
        part[:, low - first : high - first] = x[:, low - start : high - start]
        known = inputs_of(posterior.table, low, high)
        inputs = jnp.asarray(np.pad(known, ((low - first, first + PIECE - high), (0, 0)), mode="edge"))
        y = _seen(posterior.model, theta, jnp.asarray(part), inputs, jnp.int32(first), series.columns, keys)
        out[:, low - start : high - start] = np.asarray(y)[:, low - first : high - first]
    return out


@eqx.filter_jit
def _seen(
    model: AbstractModel,
    theta: Theta,
    x: Float[Array, "draw time state"],
    inputs: Float[Array, "time inputs"],
    start: Int[Array, ""],
    columns: int,
    keys: PRNGKeyArray,
) -> Float[Array, "draw time obs"]:
    index = start + jnp.arange(x.shape[1])

    def one(theta, x, key):
        return jax.vmap(lambda x, row, i: observe(model, x, theta, row, jr.fold_in(key, i), columns))(x, inputs, index)

    return jax.vmap(one)(theta, x, keys)
