"""Draws from a guide: θ, pieces of the path, and the ELBO over the whole series."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._noise import noise
from nmax._objective import mirrored_elbo, noise_size
from nmax.data import LongSeries, ManySeries, Series, Window, Windows, read_ahead
from nmax.guides import Guide, stretches

PIECE = 512  # paths are made in pieces that begin at multiples of this, whatever stretch was asked for
BATCH = 500  # windows evaluated at a time for the ELBO
STREAMED = 64  # or read from the disk at a time
PASS = 20_000  # windows in one estimate of it at the most; a shorter series is passed over in full


def draw_keys(key: PRNGKeyArray, draws: int) -> PRNGKeyArray:
    """One key a draw; the first n draws are the same however many are asked for."""
    key = check_key(key)
    return jax.vmap(lambda n: jr.fold_in(key, n))(jnp.arange(check_count("draws", draws)))


def theta_noise(guide: Guide, key: PRNGKeyArray) -> Float[Array, " param"]:
    """The base noise of a draw's θ."""
    return jr.normal(jr.fold_in(key, 0), (guide.theta_flow.size,))


@eqx.filter_jit
def drawn_theta(guide: Guide, keys: PRNGKeyArray) -> dict[str, Array]:
    """θ of each key, on the user's own scale."""
    return jax.vmap(lambda key: guide.model.parameters.constrain(guide.theta(theta_noise(guide, key))[0]))(keys)


@eqx.filter_jit
def piece_of_path(guide: Guide, series: Series, start: Array, keys: PRNGKeyArray) -> Float[Array, "draw time state"]:
    """`PIECE` steps of each key's path, from `start` on."""
    left, right = guide.reach

    def one(key):
        e = theta_noise(guide, key)
        theta = guide.model.parameters.constrain(guide.theta(e)[0])
        z = noise(jr.fold_in(key, 1), start - left, PIECE + left + right, len(guide.drawn))
        return guide.path(theta, e, z, series, start).x

    return jax.vmap(one)(keys)


@eqx.filter_jit
def mean_elbo(guide: Guide, series: Series, windows: Windows, count: int, key: PRNGKeyArray) -> Float[Array, ""]:
    """An estimate of the ELBO of the whole series: all windows, or `count` spread over it."""
    shift_key, draw_key = jr.split(key)
    chosen, weight = _chosen(windows, count, shift_key)
    elbo = jax.lax.map(
        lambda each: mirrored_elbo(guide, series, windows, each[0], jr.normal(each[1], (noise_size(guide, windows),))).total,
        (chosen, jr.split(draw_key, count)),
        batch_size=min(BATCH, count),
    )
    return jnp.mean(elbo * weight)


def streamed_elbo(guide: Guide, series: LongSeries | ManySeries, windows: Windows, count: int, key: PRNGKeyArray) -> float:
    """The same from windows that are read from the disk a batch at a time."""
    shift_key, draw_key = jr.split(key)
    chosen, weight = _chosen(windows, count, shift_key)
    keys, here, totals = jr.split(draw_key, count), jax.tree.map(np.asarray, chosen), []
    batches = [np.arange(k, k + STREAMED) % count for k in range(0, count, STREAMED)]

    def read(at):
        own = _picked(here, at)
        return stretches(guide, series, own.start - 1, windows.width + 1, own.which)

    for at, part in zip(batches, read_ahead(read, batches), strict=True):
        totals.append(np.asarray(_window_elbos(guide, part, windows, _picked(chosen, at), keys[at]), np.float64))
    return float((np.concatenate(totals)[:count] * np.asarray(weight)).mean())


def _picked(chosen: Window, at: np.ndarray) -> Window:
    return jax.tree.map(lambda a: a[at], chosen)


def _chosen(windows: Windows, count: int, key: PRNGKeyArray) -> tuple[Window, Float[Array, " window"]]:
    """Every window once, or so many spread over the series, and what each counts for."""
    if count == windows.count:
        chosen = windows.at(jnp.arange(count))
        return chosen, chosen.size * (count / windows.length)
    return windows.spread(jr.randint(key, (), 0, windows.length), count), jnp.ones(count)


@eqx.filter_jit
def _window_elbos(
    guide: Guide, series: Series, windows: Windows, chosen: Window, keys: PRNGKeyArray
) -> Float[Array, " window"]:
    def one(series, window, key):
        return mirrored_elbo(guide, series, windows, window, jr.normal(key, (noise_size(guide, windows),))).total

    return jax.vmap(one, in_axes=(series.stacked, 0, 0))(series, chosen, keys)
