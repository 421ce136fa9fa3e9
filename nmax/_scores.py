"""Scores of windows: value and gradient in θ of each window's log-ratio, and what they say about θ as a whole."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._checkpoint import keeper_here
from nmax._objective import noise_size, stretch_ratio
from nmax._processes import Processes, processes
from nmax.data import Series, Windows, read_ahead
from nmax.guides import LookaheadSampler, stretches
from nmax.lookahead import Reference

LANES = 24  # windows a call
PARTS = 4  # of a value
LONG_PASS = 256  # calls from which what a pass has found is kept, where there is somewhere to keep it
TOGETHER = 1_024 * LANES  # windows whose draws are weighted at a time


class Scores:
    r"""$\ell_B(\theta)$ of single windows $B$ and its gradient, at given θ and noise.

    $\ell_B$ is the window's share of the log-ratio, $\sum_{i \in B} \{\log p(x_i \mid x_{i-1}, \theta) + \log p(y_i \mid
    x_i, \theta) - \lambda_i + D_i - D_{i-1}\}$ and its share of $\log p(y_0 \mid x_0, \theta)$, with x
    drawn by the guide at that very θ: near the log likelihood of the window, and its gradient near the score. One compiled
    function does all of it, `LANES` windows at a time.

    Attributes:
        guide: whose q(x | θ) is used.
        series: the data.
        windows: the partition.
        calls: how often the compiled function ran.

    The guide must be one whose path does not ask for θ's base noise, as the look-ahead's does not.
    """

    def __init__(self, guide: LookaheadSampler, series: Series, windows: Windows):
        self.guide, self.series, self.windows, self.calls = guide, series, windows, 0

    def __call__(
        self,
        theta: Float[np.ndarray, "lane param"],
        number: Int[np.ndarray, " lane"],
        *,
        key: PRNGKeyArray,
        noise: Int[np.ndarray, " lane"] | None = None,
    ) -> tuple[Float[np.ndarray, " lane"], Float[np.ndarray, "lane param"]]:
        """Values and gradients of any number of lanes.

        Args:
            theta: the parameters of each lane, unconstrained.
            number: its window.
            key: random key.
            noise: lanes with the same entry have the same noise; by default each has its own.
        """
        parts, gradients = self.parts(theta, number, key=key, noise=noise)
        return parts.sum(axis=1), gradients

    def parts(self, theta, number, *, key, noise=None) -> tuple[np.ndarray, np.ndarray]:
        """The same, with values as columns: dynamics, data, entropy, balance."""
        noise = np.arange(len(number)) if noise is None else noise
        if len(number) < LONG_PASS * LANES or not (keeper := keeper_here()).keeps:
            return self._parts(theta, number, noise, key)
        return keeper.stage(
            f"pass-{self._named(theta, number, noise, key)}",
            lambda: self._parts(theta, number, noise, key),
            lambda found: (dict(zip(("values", "gradients"), found, strict=True)), {}),
            lambda arrays, _: (arrays["values"], arrays["gradients"]),
        )

    def _named(self, theta: np.ndarray, number: np.ndarray, noise: np.ndarray, key: PRNGKeyArray) -> str:
        """A checksum of all that a pass depends on beside model and data."""
        digest = hashlib.sha256(f"{self.guide.block} {self.guide.buffer} {self.windows.width}".encode())
        arrays = (jr.key_data(key), theta, number, noise, *jax.tree.leaves(eqx.filter(self.guide, eqx.is_array)))
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def _parts(self, theta: np.ndarray, number: np.ndarray, noise: np.ndarray, key: PRNGKeyArray):
        batches = [slice(start, start + LANES) for start in range(0, len(number), LANES)]
        if (together := processes()) is not None and len(batches) > 1:
            return self._parts_together(together, batches, theta, number, noise, key)
        values, gradients = np.empty((len(number), PARTS)), np.empty(theta.shape)
        for part, rows in zip(batches, read_ahead(lambda part: self._rows(number[part]), batches), strict=True):
            value, gradient, _ = self._call(theta[part], number[part], noise[part], key, rows)
            count = len(number[part])
            values[part], gradients[part] = np.asarray(value)[:count], np.asarray(gradient)[:count]
        return values, gradients

    def _parts_together(self, together: Processes, batches, theta, number, noise, key) -> tuple[np.ndarray, np.ndarray]:
        """The same, each process doing every n-th batch: the very numbers that one process would find."""
        most = -(-len(batches) // together.count)
        mine = [(batches[together.rank :: together.count] + batches)[k] for k in range(most)]  # all do as many
        found = []
        for part, rows in zip(mine, read_ahead(lambda part: self._rows(number[part]), mine), strict=True):
            value, gradient, _ = self._call(theta[part], number[part], noise[part], key, rows)
            found.append(np.concatenate([np.asarray(value), np.asarray(gradient)], axis=1).astype(np.float64))
        each = together.gathered(np.stack(found))  # of each process, batch by batch
        whole = np.concatenate([each[k % together.count][k // together.count] for k in range(len(batches))])[: len(number)]
        split = whole.shape[1] - theta.shape[1]
        return whole[:, :split], whole[:, split:]

    def _rows(self, number: np.ndarray) -> Series:
        """What at most `LANES` windows need of the series, read while the device works on the last ones."""
        window = self.windows.at(np.pad(number, (0, LANES - len(number)), mode="edge"))
        return stretches(self.guide, self.series, window.start - 1, self.windows.width + 1, window.which)

    def _call(self, theta: np.ndarray, number: np.ndarray, noise: np.ndarray, key: PRNGKeyArray, rows: Series) -> _Shares:
        """At most `LANES` lanes, made up to that number."""

        def lanes(array, dtype):
            pad = ((0, LANES - len(array)), *((0, 0),) * (array.ndim - 1))
            return jnp.asarray(np.pad(array, pad, mode="edge"), dtype)

        self.calls += 1
        own = lanes(theta, jnp.float32), lanes(number, jnp.int32), lanes(noise, jnp.uint32)
        return _scores(self.guide, rows, self.windows, *own, key)

    def around(self, theta: Float[np.ndarray, " param"], *, key: PRNGKeyArray) -> Scores:
        """The same scores, with reference paths that begin at the one of a given θ, found from nothing.

        On a series that is one window this saves most of the iterations. A longer one's references are found anew.
        """
        if self.guide.known is None:
            return self
        cold = Scores(dataclasses.replace(self.guide, warm=jnp.array(False)), self.series, self.windows)
        none = np.zeros(1, np.int64)
        shares = cold._call(theta[None], none, none, key, self._rows(none))
        known = jax.tree.map(lambda a: a[0], shares.reference)
        finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(known))
        guide = dataclasses.replace(self.guide, known=known, warm=jnp.array(True)) if finite else cold.guide
        return Scores(guide, self.series, self.windows)

    def weighted(
        self, theta: Float[np.ndarray, " param"], number: Int[np.ndarray, " window"], draws: int, *, key: PRNGKeyArray
    ) -> tuple[Float[np.ndarray, " window"], Float[np.ndarray, "window param"]]:
        r"""$\log \frac1K \sum_k e^{\ell_{B,k}}$ over K draws of a window at one θ, and its gradient.

        A path in a window is weighted by how likely the model finds it against q: what the guide's shape leaves of bias in
        the score shrinks like 1/K. Only as many draws are kept at a time as memory that does not grow with T allows.
        """
        values, means = np.empty(len(number)), np.empty((len(number), len(theta)))
        for start in range(0, len(number), TOGETHER):
            part = slice(start, start + TOGETHER)
            lanes = np.repeat(number[part], draws)
            own = np.broadcast_to(theta, (len(lanes), len(theta)))
            parts, gradient = self.parts(own, lanes, key=key, noise=start * draws + np.arange(len(lanes)))
            values[part], means[part], _ = log_mean(parts, gradient, draws)
        return values, means

    def spread(self, count: int, rng: np.random.Generator) -> Int[np.ndarray, " lane"]:
        """`count` windows spread over the series, or all of them and again where there are fewer."""
        total = self.windows.count
        if count >= total:
            return np.arange(count) % total
        return ((np.arange(count) + rng.uniform()) * total / count).astype(np.int64) % total


def log_mean(parts: np.ndarray, gradient: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lanes in groups of `draws`: logarithm of the mean of their ratios, its gradient, and the parts' weighted means."""
    value = parts.sum(axis=1).reshape(-1, draws)
    top = np.max(np.where(np.isfinite(value), value, -np.inf), axis=1, keepdims=True)
    weight = np.exp(value - top)
    total = weight.sum(axis=1, keepdims=True)
    share = (weight / total)[:, :, None]
    means = (share * gradient.reshape(len(value), draws, -1)).sum(axis=1)
    return (top + np.log(total / draws))[:, 0], means, (share * parts.reshape(len(value), draws, -1)).sum(axis=1)


class _Shares(NamedTuple):
    """Parts of each lane's log-ratio, the gradient of their sum, and the reference of each where the guide keeps one."""

    parts: Float[Array, "lane part"]
    gradient: Float[Array, "lane param"]
    reference: Reference | None


def _scores_of_lanes(
    guide: LookaheadSampler,
    series: Series,
    windows: Windows,
    theta: Array,
    number: Array,
    noise: Array,
    key: PRNGKeyArray,
) -> _Shares:
    size = noise_size(guide, windows) - guide.theta_flow.size

    def share(flat, series, number, noise):
        window = windows.at(number)
        z = jr.normal(jr.fold_in(key, noise), (size,)).reshape(-1, len(guide.drawn))
        values = guide.model.parameters.constrain(flat)
        stretch = guide.path(values, jnp.zeros_like(flat), z, series, window.start - 1)
        ratio = stretch_ratio(guide, series, windows, window, values, stretch)
        parts = jnp.stack([ratio.dynamics, ratio.data, ratio.entropy, ratio.balance]) * (window.size / windows.length)
        return jnp.sum(parts), (parts, None if guide.known is None else stretch.reference)

    lanes = jax.vmap(jax.value_and_grad(share, has_aux=True), in_axes=(0, series.stacked, 0, 0))
    (_, (parts, reference)), gradient = lanes(theta, series, number, noise)
    return _Shares(parts, gradient, reference)


COMPILE: Any = {"compiler_options": {"xla_backend_optimization_level": 1}}  # compiles faster by a fifth, runs as fast
_scores = eqx.filter_jit(_scores_of_lanes, **COMPILE)
