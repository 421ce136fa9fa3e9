"""The paper's guide: neural moving average layers alone."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._check import check_count, check_positive, with_named_options
from nmax._first_guess import centre_and_spread
from nmax._types import Reach
from nmax.data import Series
from nmax.features import AbstractFeature, default_features, local_features
from nmax.flows import Bijectors, Chain, Constrain, Encoder, Side, Standardise, ThetaFlow, nma_layers
from nmax.guides._base import Guide, Stretch, drawn_components, prior_centre
from nmax.models import AbstractModel, Theta


class PlainGuide(Guide):
    """Noise to path by a chain of flows that know nothing of the model.

    Attributes:
        path_flow: noise $z$ to the drawn components of the path.
        encoder: side information near a step to one vector.
        features: the local side information.
    """

    path_flow: Chain
    encoder: Encoder
    features: tuple[AbstractFeature, ...] = eqx.field(static=True)

    @property
    def reach(self) -> Reach:
        """That of the flows."""
        return self.path_flow.reach

    def rows_around(self, time: int) -> tuple[int, int]:
        """The reach of the flows and the radius of the encoder."""
        (left, right), radius = self.reach, self.encoder.radius
        return left + radius, left + time + right + 2 * radius

    def path(
        self,
        theta: Theta,
        theta_noise: Float[Array, " param"],
        z: Float[Array, "noise drawn"],
        series: Series,
        start: Int[Array, ""],
    ) -> Stretch:
        """The path on steps from `start` on; see `Guide.path`. It has no idea of what is to come: `ahead` is zero."""
        left, right = self.reach
        time = len(z) - left - right
        around = start - left + jnp.arange(len(z), dtype=jnp.int32)
        live = self.live(series, around)
        z = jnp.where(live, z, 0.0)
        side = Side(self._encode(series, start - left, len(z)), theta_noise, live)
        flow, log_scale = self.path_flow(z, side)

        here, live = around[left : left + time], live[left : left + time]
        base = -0.5 * z[left : left + time] ** 2 - 0.5 * jnp.log(2 * jnp.pi)
        log_q = jnp.sum(jnp.where(live, base - log_scale, 0.0), axis=1)
        return Stretch(self.states(theta, flow, series, here), log_q, jnp.zeros(time))

    def _encode(self, series: Series, start: Int[Array, ""], length: int) -> Float[Array, "noise side"]:
        radius = self.encoder.radius
        index = start - radius + jnp.arange(length + 2 * radius, dtype=jnp.int32)
        return self.encoder(local_features(self.features, series, index))


@with_named_options
@dataclasses.dataclass(frozen=True, kw_only=True)
class MovingAverageGuide:
    """The paper's guide: neural moving average layers for x, a masked IAF for θ. Every field has a default.

    Attributes:
        layers: affine layers of the path flow; by default 3, or 4 with more than one state component.
        length: the receptive field ℓ of each; by default 10, or 20 where observations are missing or d > 1.
        width: units of the hidden layers. Multiples of 16 run fastest.
        depth: hidden layers after the convolution.
        radius: ℓ', how far the local side information looks each way.
        encoder_depth: layers of the network that encodes it.
        reverse: whether every second layer runs against time (supplement C).
        features: the local side information; by default the paper's five, and inputs where there are some.
        theta_layers: affine layers of q(θ) before its affine head.
        theta_width: units of their networks.
        theta_depth: hidden layers of their networks.
        start_sd: standard deviation of q(θ) at the start, in unconstrained coordinates.
    """

    layers: int | None = None
    length: int | None = None
    width: int = 32
    depth: int = 2
    radius: int = 10
    encoder_depth: int = 2
    reverse: bool = False
    features: tuple[AbstractFeature, ...] | None = None
    theta_layers: int = 5
    theta_width: int = 10
    theta_depth: int = 3
    start_sd: float = 0.1

    def __post_init__(self):
        for name in ("layers", "length", "width", "encoder_depth", "theta_width", "theta_depth"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("depth", "radius", "theta_layers"):
            check_count(name, getattr(self, name), least=0)
        check_positive("start_sd", self.start_sd)

    def build(self, model: AbstractModel, series: Series, *, key: PRNGKeyArray) -> PlainGuide:
        """Make the guide for a model and a series, with θ at the centre of the prior and x on the scale of the data."""
        theta_key, encoder_key, path_key, prior_key = jr.split(key, 4)
        prior = model.parameters
        centre = prior_centre(prior, key=prior_key)
        theta_flow = ThetaFlow(
            centre,
            jnp.full(prior.size, self.start_sd),
            layers=self.theta_layers,
            width=self.theta_width,
            depth=self.theta_depth,
            key=theta_key,
        )
        drawn = drawn_components(model, series)
        features = default_features(series) if self.features is None else self.features
        encoder = Encoder(
            sum(feature.size(series) for feature in features),
            radius=self.radius,
            width=self.width,
            depth=self.encoder_depth,
            key=encoder_key,
        )
        simple = len(drawn) == 1 and series.complete
        layers = nma_layers(
            self.layers or (3 if len(drawn) == 1 else 4),
            self.length or (10 if simple else 20),
            state=len(drawn),
            side=self.width,
            theta=prior.size,
            width=self.width,
            depth=self.depth,
            reverse=self.reverse,
            key=path_key,
        )
        middle, spread = centre_and_spread(model, series, prior.constrain(centre))
        chosen = np.array(drawn)
        scale = Standardise(middle[chosen], jnp.log(spread[chosen]))
        support = Constrain(Bijectors(tuple(model.state_transforms[k] for k in drawn)))
        return PlainGuide(theta_flow, model, drawn, Chain((*layers, scale, support)), encoder, features)
