"""The quickest guide: the look-ahead at the best mode of θ, with a Gaussian q(θ) by Laplace's approximation."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._find import bare, find
from nmax._progress import Meter
from nmax._start import Mode
from nmax.data import Series, Windows
from nmax.flows import AffineHead
from nmax.guides import LookaheadGuide, LookaheadSampler, prior_centre
from nmax.models import AbstractModel

SETTINGS = LookaheadGuide(layers=0, weighted=1, theta_layers=0)


class Start(NamedTuple):
    """A guide good enough to start exact methods from.

    Attributes:
        guide: with q(θ) a Gaussian at the mode.
        windows: the partition of the series.
        modes: of θ, the one with most mass by Laplace's approximation first.
        needed: steps the path takes to forget; 0 where the whole series is one block.
    """

    guide: LookaheadSampler
    windows: Windows
    modes: tuple[Mode, ...]
    needed: int


def laplace(
    model: AbstractModel, series: Series, *, settings: LookaheadGuide = SETTINGS, meter: Meter, key: PRNGKeyArray
) -> Start:
    """Find the modes and go to the best one."""
    centre_key, build_key, mode_key = jr.split(key, 3)
    centre = prior_centre(model.parameters, key=centre_key)
    found = find(settings, model, series, centre, width=None, meter=meter, build_key=build_key, key=mode_key)
    return Start(at_mode(found.scores.guide, found.modes[0]), found.scores.windows, found.modes, found.needed)


def at_mode(guide: LookaheadSampler, mode: Mode) -> LookaheadSampler:
    """The guide with q(θ) a Gaussian at a mode."""
    loc, root = jnp.asarray(mode.theta, jnp.float32), jnp.asarray(np.linalg.cholesky(mode.covariance), jnp.float32)

    def parts(flow):
        return flow.autoregressive, flow.head

    flow = eqx.tree_at(parts, guide.theta_flow, (None, AffineHead(loc, root)), is_leaf=lambda leaf: leaf is None)
    return dataclasses.replace(guide, theta_flow=flow)


def unplaced(model: AbstractModel, series: Series, *, key: PRNGKeyArray) -> LookaheadSampler:
    """A guide of the same shape as that of `laplace`, at the centre of the prior: enough to compile with."""
    centre = prior_centre(model.parameters, key=key)
    return bare(SETTINGS, model, series, centre, width=None, key=key)
