"""Where the posterior of θ is, and how far a step of the path remembers: modes, blocks, buffers, windows."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._give_back import give_back
from nmax._prior_density import PriorDensity
from nmax._progress import Meter
from nmax._scores import Scores
from nmax._start import PASSES, SAMPLE, Mode, by_mass, modes, newton
from nmax.data import ManySeries, Series, Windows, windows_over
from nmax.guides import LookaheadGuide, LookaheadSampler, stretches
from nmax.lookahead import Dynamics, around, linearised, look_ahead, memory
from nmax.models import AbstractModel

WHOLE = 2_048  # series up to this many steps are one window
LONG = 20_000  # steps from which a window has four blocks instead of two
CUT_NATS = 0.05  # what cutting the series into blocks may cost in all
STRETCHES = 12  # where the path's memory is looked at


class Found(NamedTuple):
    """What is known before q(θ) settles.

    Attributes:
        scores: of the windows, with the guide whose blocks and buffers are chosen, around the best mode.
        modes: of θ, the one with most mass by Laplace's approximation first.
        needed: steps the path takes to forget; 0 where the whole series is one block.
    """

    scores: Scores
    modes: tuple[Mode, ...]
    needed: int


def find(
    settings: LookaheadGuide,
    model: AbstractModel,
    series: Series,
    centre: Float[Array, " param"],
    *,
    width: int | None,
    meter: Meter,
    build_key: PRNGKeyArray,
    key: PRNGKeyArray,
) -> Found:
    """Find the modes, and choose blocks and buffers."""
    meter.phase("compile, then climb from several starts")
    guide = bare(settings, model, series, centre, width=width, key=build_key)
    scores = Scores(guide, series, partition(guide, series, width))
    long = scores.windows.count > 2 * SAMPLE  # the whole is passed over once blocks and buffers are chosen
    found = modes(scores, np.asarray(centre, np.float64), settings.starts, whole=not long, key=key)
    give_back()
    needed = forgetting(guide, series, found[0]) if guide.block <= series.length else 0
    give_back()
    longer = needed > guide.buffer and settings.buffer is None
    if longer:
        block, buffer = settings.extent(series, needed)
        guide = dataclasses.replace(guide, block=block, buffer=buffer)
        scores = Scores(guide, series, partition(guide, series, width))
    if longer or long:
        prior = PriorDensity(model.parameters)
        found = by_mass([newton(scores, prior, mode.theta, PASSES if long else 2, key=key) for mode in found])
    return Found(scores.around(found[0].theta, key=key), tuple(found), needed)


def bare(
    settings: LookaheadGuide,
    model: AbstractModel,
    series: Series,
    centre: Float[Array, " param"],
    *,
    width: int | None,
    key: PRNGKeyArray,
) -> LookaheadSampler:
    """The guide without neural layers; on a series of one window with room for a reference to start from."""
    guide = settings.build(model, series, key=key, theta=centre)
    guide = settings.with_layers(guide, 0, series, key=key)
    if partition(guide, series, width).count > 1:
        return guide
    return dataclasses.replace(guide, known=around(jnp.zeros((series.length + 1, len(guide.drawn))), guide.spread))


def partition(guide: LookaheadSampler, series: Series, width: int | None) -> Windows:
    """Windows of whole blocks, or the whole series if it is short, unless a width is given."""
    if width is None:
        width = series.length if series.length <= WHOLE else guide.block * (4 if series.length >= LONG else 2)
    return windows_over(series, min(width, series.length))


def forgetting(guide: LookaheadSampler, series: Series, mode: Mode) -> int:
    r"""Steps after which the path has forgotten where it was, for all that it matters.

    A block begun $\epsilon$ standard deviations off costs about $\epsilon^2/2$ nats, and there are $T / b$ blocks: the
    first lag from which on the memory stays below the ε that costs `CUT_NATS` in all.
    """
    lags = min((guide.block + 2 * guide.buffer) // 2, series.length)
    tolerance = np.sqrt(2.0 * CUT_NATS * guide.block / sum(series.lengths))
    numbers, which = _some_blocks(series, guide.block)
    rows = stretches(guide, series, numbers * guide.block, guide.block, which)
    left = np.asarray(_memory(guide, rows, jnp.asarray(mode.theta, jnp.float32), jnp.asarray(numbers, jnp.int32), lags))
    typical = np.nan_to_num(np.sqrt(np.mean(left**2, axis=0)), nan=np.inf)
    above = np.flatnonzero(typical > tolerance)
    return int(above[-1]) + 2 if len(above) else 1


def _some_blocks(series: Series, block: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Numbers of blocks spread over the series, and of the series they lie in, where there are several."""
    if not isinstance(series, ManySeries):
        last = max(series.length // block - 1, 0)
        return np.unique(np.linspace(min(1, last), last, STRETCHES).astype(np.int64)), None
    lasts = np.array(series.lengths) // block - 1  # -1 where a series is shorter than a block
    every = np.array([(number, k) for k, last in enumerate(lasts) for number in range(min(1, max(last, 0)), last + 1)])
    return tuple(every[np.unique(np.linspace(0, len(every) - 1, STRETCHES).astype(np.int64))].T)


@eqx.filter_jit
def _memory(guide: LookaheadSampler, series: Series, flat: Array, numbers: Array, lags: int) -> Float[Array, "block lags"]:
    theta = guide.model.parameters.constrain(flat)
    dynamics = Dynamics(theta, guide.model, guide.drawn)

    def one(series, number):
        rows, reference = guide.reference(theta, series, number)
        linear = linearised(dynamics, reference, rows, guide.first(dynamics, rows.index[0]))
        return memory(linear, look_ahead(linear), reference, lags // 2, lags)

    return jax.vmap(one, in_axes=(series.stacked, 0))(series, numbers)
