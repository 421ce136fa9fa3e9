"""`Guide`: q(θ) and q(x | θ) joined. `MovingAverageGuide`: the settings from which the paper's guide is built."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
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
from nmax.models import AbstractModel, Theta

PRIOR_DRAWS = 4_096  # for the centre of the prior, where q(θ) starts


class Guide(eqx.Module):
    r"""$q(\theta, x) = q(\theta)\, q(x \mid \theta)$: a bijection from noise $(e, z)$ with a known density.

    Attributes:
        theta_flow: base noise $e$ to unconstrained θ.
        path_flow: noise $z$ to the drawn components of the path.
        encoder: side information near a step to one vector.
        model: the model whose posterior this approximates.
        features: the local side information.
        drawn: the state components that the path flow draws; the others are read off the data at every step.
    """

    theta_flow: ThetaFlow
    path_flow: Chain
    encoder: Encoder
    model: AbstractModel = eqx.field(static=True)
    features: tuple[AbstractFeature, ...] = eqx.field(static=True)
    drawn: tuple[int, ...] = eqx.field(static=True)

    @property
    def reach(self) -> Reach:
        """Steps of noise needed beyond a stretch of the path, on the left and on the right."""
        return self.path_flow.reach

    def theta(self, noise: Float[Array, " param"]) -> tuple[Float[Array, " param"], Float[Array, ""]]:
        """θ in unconstrained coordinates, and log q of it there."""
        return self.theta_flow(noise)

    def path(
        self,
        theta: Theta,
        theta_noise: Float[Array, " param"],
        z: Float[Array, "noise drawn"],
        series: Series,
        start: Int[Array, ""],
    ) -> tuple[Float[Array, "time state"], Float[Array, " time"]]:
        r"""The path on steps from `start` on, and $\lambda_i = \log q$ of each step.

        Args:
            theta: the parameters, on the user's own scale.
            theta_noise: the base noise they were made from.
            z: standard normal noise on these steps and on those within `reach` of them.
            series: the data.
            start: the first step. Index 0 is the model's start; so are steps outside 0..T, whose λ is zero.
        """
        left, right = self.reach
        time = len(z) - left - right
        around = start - left + jnp.arange(len(z), dtype=jnp.int32)
        live = self._live(series, around)
        z = jnp.where(live, z, 0.0)
        side = Side(self._encode(series, start - left, len(z)), theta_noise, live)
        flow, log_scale = self.path_flow(z, side)

        here, live = around[left : left + time], live[left : left + time]
        base = -0.5 * z[left : left + time] ** 2 - 0.5 * jnp.log(2 * jnp.pi)
        log_q = jnp.sum(jnp.where(live, base - log_scale, 0.0), axis=1)
        return self._states(theta, flow, series, here), log_q

    def start(self, theta: Theta, series: Series) -> Float[Array, " state"]:
        """The state at index 0."""
        nothing = jnp.zeros((1, len(self.drawn)))
        return self._states(theta, nothing, series, jnp.zeros(1, jnp.int32))[0]

    def _encode(self, series: Series, start: Int[Array, ""], length: int) -> Float[Array, "noise side"]:
        radius = self.encoder.radius
        index = start - radius + jnp.arange(length + 2 * radius, dtype=jnp.int32)
        return self.encoder(local_features(self.features, series, index))

    def _live(self, series: Series, index: Int[Array, " time"]) -> Array:
        """Which entries are drawn: those of steps 1..T that the data do not show exactly."""
        inside = (index >= 1) & (index <= series.length)
        known = series.observed[jnp.clip(index, 0, series.length)]
        exact = self.model.exactly_observed
        return jnp.stack([inside & ~known[:, exact[k]] if k in exact else inside for k in self.drawn], axis=1)

    def _states(self, theta: Theta, flow: Array, series: Series, index: Int[Array, " time"]) -> Array:
        """Put drawn, known and starting components together."""
        start = jnp.asarray(self.model.initial(theta), flow.dtype)
        row = jnp.clip(index, 0, series.length)
        inside = (index >= 1) & (index <= series.length)
        columns = []
        for k in range(self.model.state_size):
            value = jnp.broadcast_to(start[k], index.shape)
            if k in self.drawn:
                value = jnp.where(inside, flow[:, self.drawn.index(k)], value)
            if k in self.model.exactly_observed:
                column = self.model.exactly_observed[k]
                value = jnp.where(series.observed[row, column], series.values[row, column], value)
            columns.append(value)
        return jnp.stack(columns, axis=1)


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

    def build(self, model: AbstractModel, series: Series, *, key: PRNGKeyArray) -> Guide:
        """Make the guide for a model and a series, with θ at the centre of the prior and x on the scale of the data."""
        theta_key, encoder_key, path_key, prior_key = jr.split(key, 4)
        prior = model.parameters
        centre = jnp.median(prior.sample(prior_key, PRIOR_DRAWS), axis=0)
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
        return Guide(theta_flow, Chain((*layers, scale, support)), encoder, model, features, drawn)


def drawn_components(model: AbstractModel, series: Series) -> tuple[int, ...]:
    """State components that are not read off the data at every single step."""
    whole = jax.device_get(jnp.all(series.observed, axis=0))
    exact = {component for component, column in model.exactly_observed.items() if whole[column]}
    return tuple(k for k in range(model.state_size) if k not in exact)
