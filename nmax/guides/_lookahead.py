"""The look-ahead guide: the model's own transition tilted by what is to come, after neural layers that reshape the noise."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nmax._first_guess import first_guess
from nmax._types import Reach
from nmax.data import Series
from nmax.features import AbstractFeature, local_features
from nmax.flows import Chain, Encoder, Side
from nmax.guides._base import Guide, Stretch
from nmax.lookahead import FIRST_PULL, Dynamics, Reference, Rows, around, draw, linearised, look_ahead, rows_of, smoothed
from nmax.models import Theta

SMALLEST = 1e-3  # width of a reference, in units of the state's spread, below which the layers see no difference


class LookaheadSampler(Guide):
    r"""Noise to path, in blocks of `block` steps, each with `buffer` steps before and after it.

    What a block looks like depends on the block, never on the stretch that was asked for: its reference path and its
    summary of what is to come use the data from `buffer` steps before it to `buffer` steps after it, and its path is begun
    `buffer` steps before it. So a window of the path is the path of the window, exactly.

    Attributes:
        layers: neural moving average layers that the noise passes first; none, or exactly the identity, at the start.
        encoder: side information of a step to one vector for them.
        centre: mean of the state, unconstrained, where a block knows nothing of its first step.
        spread: the scale on which the components vary.
        features: the local side information.
        block: steps of a block. One block longer than the series needs no buffer.
        buffer: steps around it.
        iterations: at the most, to find the reference path.
        own: whether each draw of θ has its own reference path. If not, all share that of the centre of q(θ): as good on
            a long series, where q(θ) is narrow, and it is found once for all of them.
        known: the reference of every step 0..T at some θ, from which those of others near it are found in an iteration or
            two; only for a series that is one window.
        warm: whether `known` is to be used.
        frozen: whether `known` is the reference whatever θ is: less near to each, but had for nothing.
    """

    layers: Chain
    encoder: Encoder | None
    centre: Float[Array, " drawn"]
    spread: Float[Array, " drawn"]
    features: tuple[AbstractFeature, ...] = eqx.field(static=True)
    block: int = eqx.field(static=True)
    buffer: int = eqx.field(static=True)
    own: bool = eqx.field(static=True)
    iterations: Int[Array, ""]
    known: Reference | None = None
    warm: Bool[Array, ""] = dataclasses.field(default_factory=lambda: jnp.array(False))
    frozen: bool = eqx.field(static=True, default=False)

    @property
    def reach(self) -> Reach:
        """The buffer, what may lie between the start of a block and that of the stretch, and the layers' own reach."""
        return Reach(self.buffer + self.block - 1, 0) + self.layers.reach

    def rows_around(self, time: int) -> tuple[int, int]:
        """The blocks that hold the steps, those before it that the layers look at, and the buffers."""
        earlier = -(-(self.layers.reach.left + self.buffer) // self.block) if self.encoder is not None else 0
        before = (earlier + 1) * self.block + self.buffer + self.layers.reach.left
        return before, before + -(-(time + self.block - 1) // self.block) * self.block + self.buffer + 2

    def path(
        self,
        theta: Theta,
        theta_noise: Float[Array, " param"],
        z: Float[Array, "noise drawn"],
        series: Series,
        start: Int[Array, ""],
    ) -> Stretch:
        """The path on steps from `start` on; see `Guide.path`."""
        del theta_noise
        block, buffer, left = self.block, self.buffer, self.reach.left
        time = len(z) - left
        number = start // block  # of the first block
        offset = start - number * block
        count = 1 if block > series.length else -(-(time + block - 1) // block)
        before = self.layers.reach.left + buffer
        beyond = max(0, count * block - time)  # rows of the last block that nobody asked for
        whole = jnp.concatenate([z, jnp.zeros((beyond, z.shape[1]))])
        around = jax.lax.dynamic_slice_in_dim(whole, block - 1 - offset, before + count * block)

        earlier = -(-before // block) if self.encoder is not None else 0  # blocks that only the layers look at
        numbers = number - earlier + jnp.arange(earlier + count, dtype=jnp.int32)
        rows, references = jax.vmap(lambda k: self.reference(theta, series, k))(numbers)
        shaped, log_scale = self._shaped(around, series, references, number * block - before)
        pieces = jnp.stack([shaped[k * block : (k + 1) * block + buffer] for k in range(count)])
        drawn = jax.vmap(lambda *block: self._draw_block(theta, *block))
        blocks = drawn(*jax.tree.map(lambda a: a[earlier:], (rows, references)), pieces)
        u, log_det, ahead = (_stretched(part, offset, time) for part in blocks)
        log_scale = _stretched(log_scale[buffer:][None], offset, time)

        index = start + jnp.arange(time, dtype=jnp.int32)
        live = self.live(series, index)
        base = jnp.where(live, -0.5 * z[left:] ** 2 - 0.5 * jnp.log(2 * jnp.pi) - log_scale, 0.0)
        flow, slopes = self._constrained(u)
        log_q = jnp.sum(base - jnp.where(live, slopes, 0.0), axis=1) - log_det
        inside = (index >= 1) & (index <= series.end)
        ahead = jnp.where(inside & (index < series.end), ahead, 0.0)
        own = jax.tree.map(lambda a: _stretched(a[earlier:, buffer : buffer + block], offset, time), references)
        return Stretch(self.states(theta, flow, series, index), jnp.where(inside, log_q, 0.0), ahead, own)

    def reference(self, theta: Theta, series: Series, number: Int[Array, ""]) -> tuple[Rows, Reference]:
        """The rows of a block with its buffers, and the Gaussians around which the model is made linear there.

        They are taken as given: no gradient flows through them. Where they have settled it would be zero, since of all
        references they come nearest to the posterior.
        """
        if not self.own:
            theta = self.model.parameters.constrain(self.theta_flow(jnp.zeros(self.theta_flow.size))[0])
        dynamics = Dynamics(jax.lax.stop_gradient(theta), self.model, self.drawn)
        index = number * self.block - self.buffer + jnp.arange(self.block + 2 * self.buffer + 1, dtype=jnp.int32)
        rows = rows_of(self.model, series, index)
        if self.frozen and self.known is not None:
            at = jnp.clip(index[:-1], 0, series.length)
            kept = jax.lax.stop_gradient(jax.tree.map(lambda a: a[at], self.known))
            mean = jnp.where((index[:-1] <= 0)[:, None], dynamics.start[None], kept.mean)
            return rows, dataclasses.replace(kept, mean=jax.lax.stop_gradient(mean))
        guess = first_guess(self.model, series, dynamics.theta, index[:-1])[:, jnp.array(self.drawn)]
        guess = jnp.where((index[:-1] <= 0)[:, None], dynamics.start[None], guess)
        spread = jax.lax.stop_gradient(self.spread)
        start, pull = around(guess, spread), FIRST_PULL
        if self.known is not None:
            at = jnp.clip(index[:-1], 0, series.length)
            start = jax.tree.map(lambda cold, known: jnp.where(self.warm, known[at], cold), start, self.known)
            start = dataclasses.replace(start, mean=jnp.where((index[:-1] <= 0)[:, None], dynamics.start[None], start.mean))
            pull = jnp.where(self.warm, 0.0, FIRST_PULL)
        reference = smoothed(dynamics, start, spread, rows, self.first(dynamics, index[0]), self.iterations, pull)
        return rows, jax.lax.stop_gradient(reference)

    def first(self, dynamics: Dynamics, index: Int[Array, ""]) -> tuple[Array, Array]:
        """Mean and root of the state at the first step of a block, before any data."""
        known = index <= 0
        centre, spread = jax.lax.stop_gradient((self.centre, self.spread))
        return jnp.where(known, dynamics.start, centre), jnp.where(known, 0.0, 2.0 * jnp.diag(spread))

    def _draw_block(
        self, theta: Theta, rows: Rows, reference: Reference, z: Float[Array, "time drawn"]
    ) -> tuple[Array, Array, Array]:
        """One block: $u$, log determinant and $D$ of its steps."""
        dynamics = Dynamics(theta, self.model, self.drawn)
        ahead = look_ahead(linearised(dynamics, reference, rows, self.first(dynamics, rows.index[0])))
        rows, reference, ahead = jax.tree.map(lambda a: a[: len(z)], (rows, reference, ahead))
        u, log_det = draw(dynamics, reference, ahead, rows, z)
        delta = u - reference.mean
        later = jnp.sum(delta[:, :, None] * ahead.later_precision * delta[:, None, :], axis=(1, 2))
        forecast = jnp.sum(ahead.later_gradient * delta, axis=1) - 0.5 * later
        return u[self.buffer :], log_det[self.buffer :], forecast[self.buffer :]

    def _shaped(
        self, z: Array, series: Series, references: Reference, start: Int[Array, ""]
    ) -> tuple[Float[Array, "noise drawn"], Float[Array, "noise drawn"]]:
        """The noise after the neural layers, from the first block's buffer on, and the log scales."""
        if self.encoder is None:
            return z, jnp.zeros_like(z)
        index = start + jnp.arange(len(z), dtype=jnp.int32)
        live = self.live(series, index)
        local = local_features(self.features, series, index)
        own = jax.tree.map(lambda a: a[:, self.buffer : self.buffer + self.block], references)  # each step's own block
        centre, spread = jax.lax.stop_gradient((self.centre, self.spread))
        width = jnp.diagonal(own.root, axis1=-2, axis2=-1) / spread[None, None]
        seen = jnp.concatenate([(own.mean - centre[None, None]) / spread[None, None], jnp.log(width + SMALLEST)], axis=-1)
        seen = seen.reshape(-1, seen.shape[-1])
        side = jnp.concatenate([seen[len(seen) - len(z) :], local], axis=1)
        assert self.encoder is not None
        nothing = jnp.zeros(0)  # the look-ahead is run at the drawn θ: the layers need not be told of it
        return self.layers(jnp.where(live, z, 0.0), Side(self.encoder(side), nothing, live))

    def _constrained(self, u: Float[Array, "time drawn"]) -> tuple[Array, Array]:
        """Into the support, and the logarithms of the slopes."""
        transforms = [self.model.state_transforms[k] for k in self.drawn]
        x = [transform(u[:, k]) for k, transform in enumerate(transforms)]
        slopes = [transform.log_abs_det_jacobian(u[:, k], x[k]) for k, transform in enumerate(transforms)]
        return jnp.stack(x, axis=1), jnp.stack(slopes, axis=1)


def _stretched(blocks: Float[Array, "block time ..."], offset: Int[Array, ""], time: int) -> Array:
    """The blocks end to end, cut to `time` steps from `offset` on."""
    whole = blocks.reshape(-1, *blocks.shape[2:])
    if len(blocks) == 1:  # a stretch may end beyond the only block
        whole = jnp.concatenate([whole, jnp.zeros((time, *whole.shape[1:]))])
    return jax.lax.dynamic_slice_in_dim(whole, offset, time)
