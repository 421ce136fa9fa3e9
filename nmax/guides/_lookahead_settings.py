"""`LookaheadGuide`: the settings from which the look-ahead guide is built."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._check import check_count, check_positive, with_named_options
from nmax._first_guess import centre_and_spread
from nmax.data import Series
from nmax.features import AbstractFeature, default_features
from nmax.flows import Chain, Encoder, Skew, ThetaFlow, nma_layers
from nmax.guides._base import drawn_components, prior_centre
from nmax.guides._lookahead import LookaheadSampler
from nmax.models import AbstractModel

WHOLE = 1_000  # series up to this many steps are one block
LEAST_BUFFER, MOST_BUFFER = 8, 512
FIRST_BUFFER = 32  # before anything is known of how fast the path forgets
BLOCKS = 4  # length of a block in buffers


@with_named_options
@dataclasses.dataclass(frozen=True, kw_only=True)
class LookaheadGuide:
    """The default guide: a windowed look-ahead sampler under the exact ELBO, corrected by neural moving average layers.

    Every field has a default. What is `None` is chosen from the data at the start of a fit, and reported.

    Attributes:
        layers: neural layers, behind one that skews; by default 2 where the Gaussian look-ahead falls short by more than
            5 nats in all, and none where it does not or where `weighted` draws make up for it.
        weighted: draws of x in a window that are weighted against each other at each θ, which makes up for what the
            Gaussian misses; by default 1 where it misses little, else 6, or 8 on a series of many windows.
        length: the receptive field ℓ of each.
        width: units of their hidden layers.
        depth: hidden layers after the convolution.
        block: steps that share one look-ahead; by default four buffers, or the whole series if it is short.
        buffer: steps of data before and after a block that it sees; by default as many as the path takes to forget.
        iterations: at the most, to find the reference path; it ends earlier where it has settled.
        features: local side information of the neural layers, beside the reference path.
        theta_layers: affine layers of q(θ) before its affine head.
        theta_width: units of their networks.
        theta_depth: hidden layers of their networks.
        starts: rival starts of θ that are climbed from; 1 takes the best of the prior's draws alone.
        rivals: nats of posterior mass, by Laplace's approximation, within which a rival mode is compared by the ELBO.
        rounds: of gradients in which q(θ) settles on a series of few windows, at least; there are more while it still moves.
    """

    layers: int | None = None
    weighted: int | None = None
    length: int = 10
    width: int = 32
    depth: int = 1
    block: int | None = None
    buffer: int | None = None
    iterations: int = 12
    features: tuple[AbstractFeature, ...] | None = None
    theta_layers: int = 4
    theta_width: int = 16
    theta_depth: int = 1
    starts: int = 8
    rivals: float = 40.0
    rounds: int = 3

    def __post_init__(self):
        for name in ("length", "width", "iterations", "theta_width", "theta_depth", "starts", "rounds"):
            check_count(name, getattr(self, name))
        check_positive("rivals", self.rivals)
        for name in ("block", "weighted"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("layers", "buffer", "depth", "theta_layers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=0)

    def build(
        self,
        model: AbstractModel,
        series: Series,
        *,
        key: PRNGKeyArray,
        theta: Float[Array, " param"] | None = None,
    ) -> LookaheadSampler:
        """Make the guide for a model and a series; what is left open gets a cautious value.

        Args:
            model: the model.
            series: the data.
            key: random key for the weights.
            theta: where q(θ) starts, in unconstrained coordinates; by default the centre of the prior.
        """
        theta_key, prior_key, layer_key = jr.split(key, 3)
        prior = model.parameters
        loc = prior_centre(prior, key=prior_key) if theta is None else theta
        drawn = drawn_components(model, series)
        centre, spread = centre_and_spread(model, series, prior.constrain(loc))
        block, buffer = self.extent(series, None)
        flow = ThetaFlow(
            loc,
            jnp.full(prior.size, 0.1),
            layers=self.theta_layers,
            width=self.theta_width,
            depth=self.theta_depth,
            key=theta_key,
        )
        guide = LookaheadSampler(
            theta_flow=flow,
            model=model,
            drawn=drawn,
            layers=Chain(()),
            encoder=None,
            centre=centre[np.array(drawn)],
            spread=spread[np.array(drawn)],
            features=default_features(series) if self.features is None else self.features,
            block=block,
            buffer=buffer,
            own=True,
            iterations=jnp.int32(self.iterations),
        )
        return self.with_layers(guide, self.layers or 0, series, key=layer_key)

    def with_layers(self, guide: LookaheadSampler, layers: int, series: Series, *, key: PRNGKeyArray) -> LookaheadSampler:
        """The guide with so many neural layers in front, all at the identity."""
        if not layers:
            return dataclasses.replace(guide, layers=Chain(()), encoder=None)
        encoder_key, path_key = jr.split(key)
        side = 2 * len(guide.drawn) + sum(feature.size(series) for feature in guide.features)
        made = nma_layers(
            layers,
            self.length,
            state=len(guide.drawn),
            side=self.width,
            theta=0,
            width=self.width,
            depth=self.depth,
            key=path_key,
        )
        encoder = Encoder(side, radius=0, width=self.width, depth=2, key=encoder_key)
        skew = Skew(state=len(guide.drawn), side=self.width, theta=0)
        return dataclasses.replace(guide, layers=Chain((skew, *made)), encoder=encoder)

    def extent(self, series: Series, needed: int | None) -> tuple[int, int]:
        """Steps of a block and of its buffers, given how many steps the path takes to forget if that is known."""
        if self.block is None and self.buffer is None and series.length <= WHOLE:
            return series.length + 1, 0
        if self.buffer is not None:
            buffer = self.buffer
        elif needed is None:
            buffer = min(max(FIRST_BUFFER, int(4 * float(series.typical_gap))), MOST_BUFFER)
        else:
            buffer = min(max(needed, LEAST_BUFFER), MOST_BUFFER)
        block = self.block if self.block is not None else BLOCKS * max(buffer, 2 * LEAST_BUFFER)
        return (block, buffer) if block <= series.length else (series.length + 1, 0)
