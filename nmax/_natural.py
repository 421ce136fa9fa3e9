"""Natural gradients for q(θ) from scores of windows, where q(x | θ) has nothing to learn."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._scores import LANES, Scores
from nmax._start import Mode, PriorDensity
from nmax._train import History
from nmax.flows import AffineHead, ThetaFlow

RATE = 1e-2  # of the autoregressive part, by Adam
OUTLYING = 5.0  # gradients longer than so many typical ones are cut
FARTHEST = 0.25  # no entry of the head moves more in a step, in standard deviations or relative terms
LONGEST = 0.2  # a natural step at first, for a third of them; then 2 / (2 / LONGEST + k)


def started(flow: ThetaFlow, mode: Mode) -> ThetaFlow:
    """The flow with its affine head at a mode: mean and covariance of Laplace's approximation."""
    root = np.linalg.cholesky(mode.covariance)
    head = (jnp.asarray(mode.theta, jnp.float32), jnp.asarray(root, jnp.float32))
    return eqx.tree_at(lambda f: (f.head.loc, f.head.matrix), flow, head)


def settle(scores: Scores, flow: ThetaFlow, mode: Mode, steps: int, *, key: PRNGKeyArray) -> tuple[ThetaFlow, History]:
    r"""Maximise the ELBO over q(θ), with x drawn by the look-ahead.

    A draw $\vartheta = m + Lu$ and its mirror image see the same window $B$ with the same noise. With $g$ the gradient of
    the log posterior density, scaled up from the window, $L^\top g$ is the natural gradient of $m$ in standard deviations,
    and $E[L^\top g u^\top] + I$ that of $L$ in relative terms. The expectation is taken as the regression of $L^\top g$ on
    $u$, without error where the posterior is Gaussian; the mirror images cancel the choice of the window from it, so that
    the widths are those of the curvature however the scores vary. From the mean the
    window's choice is taken out by the scores of all windows at the mode, $g - \nabla\ell_B(m_0) + \frac{|B|}{T}
    \sum_{B'} \nabla\ell_{B'}(m_0)$. Steps of length $1/k$ average what is left. The autoregressive part moves by Adam.

    Returns:
        The flow, and the parts of the ELBO at every step.
    """
    prior = PriorDensity(scores.guide.model.parameters)
    windows, pairs = scores.windows, LANES // 2
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    size = np.minimum(windows.width, windows.length - np.arange(windows.count) * windows.width)
    share = size / windows.length
    anchor = mode.scores / share[:, None] - mode.scores.sum(axis=0)  # what a window's choice adds to the whole
    shift = rng.uniform()
    rule = optax.adam(optax.cosine_decay_schedule(RATE, steps, 0.05))
    opt_state = rule.init(eqx.filter(flow.autoregressive, eqx.is_inexact_array))
    records = np.empty((steps, len(History._fields)))
    for k in range(steps):
        shift = (shift + 0.6180339887498949) % 1.0
        at = ((np.arange(pairs) + shift) / pairs * windows.length).astype(np.int64) // windows.width
        half = rng.standard_normal((pairs, prior.size))
        number, e = np.concatenate([at, at]), np.concatenate([half, -half])
        theta, log_q = (np.asarray(a, np.float64) for a in _drawn(flow, jnp.asarray(e, jnp.float32)))
        noise = np.tile(np.arange(pairs), 2)
        parts, gradient = scores.parts(theta, number, key=jr.fold_in(key, k), noise=noise, theta_noise=e)
        gradient = gradient / share[number][:, None] - anchor[number] + prior.gradient(theta)
        records[k, 0] = np.mean(prior.log_prob(theta) - log_q)
        records[k, 1:] = np.mean(parts / share[number][:, None], axis=0)
        fine = np.isfinite(gradient).all(axis=1)
        fine = fine & np.roll(fine, pairs)
        if fine.sum() < 2:
            continue
        rho = 2.0 / (2.0 / LONGEST + max(0, k - steps // 3))
        e, gradient = jnp.asarray(e[fine], jnp.float32), jnp.asarray(gradient[fine], jnp.float32)
        flow, opt_state = _stepped(flow, opt_state, e, gradient, jnp.float32(rho), rule)
    return flow, History(*records.T)


@eqx.filter_jit
def _drawn(flow: ThetaFlow, e: Float[Array, "lane param"]) -> tuple[Array, Array]:
    return jax.vmap(flow)(e)


@eqx.filter_jit
def _stepped(
    flow: ThetaFlow, opt_state: optax.OptState, e: Float[Array, "lane param"], gradient: Array, rho: Array, rule
) -> tuple[ThetaFlow, optax.OptState]:
    """One natural step of the head, one of Adam for the autoregressive part."""
    params, rest = eqx.partition(flow.autoregressive, eqx.is_inexact_array)
    inner, log_det = jax.vmap(flow.inner)(e)
    pulled = _without_outliers(gradient @ flow.head.matrix)
    tilt = jnp.linalg.solve(inner.T @ inner, inner.T @ pulled).T + jnp.eye(e.shape[1])  # regression of the one on the other
    matrix = jnp.tril(tilt, -1) + 0.5 * jnp.diag(jnp.diagonal(tilt))
    loc = jnp.mean(pulled, axis=0)
    step = flow.head.moved(AffineHead(rho * _limited(loc, rho), rho * _limited(matrix, rho)))
    head = AffineHead(flow.head.loc + step.loc, flow.head.matrix + step.matrix)
    moved = eqx.tree_at(lambda f: f.head, flow, head)
    if flow.autoregressive is None:
        return moved, opt_state

    def loss(params):  # its gradient is that of −ELBO
        inner, log_det = jax.vmap(eqx.tree_at(lambda f: f.autoregressive, flow, eqx.combine(params, rest)).inner)(e)
        return -jnp.mean(log_det + jnp.sum(inner * pulled, axis=1))

    update, opt_state = rule.update(jax.grad(loss)(params), opt_state)
    return eqx.tree_at(lambda f: f.autoregressive, moved, eqx.apply_updates(flow.autoregressive, update)), opt_state


def _without_outliers(pulled: Float[Array, "lane param"]) -> Float[Array, "lane param"]:
    """Gradients far longer than the typical one, from draws far out in a tail say, cut to a length that cannot mislead."""
    length = jnp.sqrt(jnp.sum(pulled**2, axis=1))
    most = OUTLYING * jnp.maximum(jnp.median(length), pulled.shape[1] ** 0.5)
    return pulled * jnp.minimum(1.0, most / jnp.maximum(length, 1e-12))[:, None]


def _limited(step: Array, rho: Array) -> Array:
    """The step, no entry of it longer than `FARTHEST` after multiplication by ρ."""
    return step * jnp.minimum(1.0, FARTHEST / jnp.maximum(jnp.max(jnp.abs(step)) * rho, 1e-12))
