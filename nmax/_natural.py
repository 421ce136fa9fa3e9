"""q(θ) from scores of windows, where q(x | θ) has nothing to learn: natural gradients, taken all at once."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._scores import LANES, Scores, log_mean
from nmax._start import Mode, PriorDensity
from nmax._surface import fitted, moved_to, through_gradients
from nmax._train import History
from nmax.flows import AffineHead, ThetaFlow

WIDER = 1.2  # draws of the first round, in widths of the mode's Gaussian
MANY = 200  # windows from which on the posterior of θ is taken for Gaussian
CHANGE = 3.0  # how much narrower or wider than the scores' covariance says a direction may be
BOUND = 12  # calls of the scores from which the ELBO at a mode is estimated
OUTLYING = 6.0  # gradients longer than so many typical ones are left out


def settle(
    scores: Scores, flow: ThetaFlow, mode: Mode, steps: int, *, weighted: int = 1, key: PRNGKeyArray
) -> tuple[ThetaFlow, History]:
    r"""Maximise the ELBO over q(θ), with x drawn by the look-ahead.

    For a Gaussian $q(\vartheta)$ with mean $m$ and covariance $LL^\top$ the natural gradient vanishes where
    $E[L^\top g] = 0$ and $E[L^\top g u^\top] = -I$, $g$ being the gradient of the log posterior density at $\vartheta = m +
    Lu$: where the linear part of $g$, regressed on $u$, says so. Gradients cost a scan over a window each, so they are
    kept, and a polynomial is put through all of them by least squares; q(θ), autoregressive part and all, is fitted to
    that at leisure. Two rounds: draws from the mode's Gaussian, somewhat wider, then from the q(θ) that this gives.

    A draw and its mirror image see the same window $B$ with the same noise, so that the choice of the window cancels from
    the curvature; from the slope it is taken out by the scores of all windows at the mode, $g - \nabla\ell_B(m_0)\,T/|B| +
    \sum_{B'} \nabla\ell_{B'}(m_0)$. The widths are those of the curvature however the scores vary: a misspecified model's
    too.

    Args:
        scores: of the windows.
        flow: the shape of q(θ).
        mode: where to begin.
        steps: calls of the scores in all, `LANES` draws each.
        weighted: draws of x that are weighted against each other at each θ (`Scores.weighted`). With more than one, q(θ)
            maximises a tighter bound than the ELBO, in which q(x | θ) counts for less.
        key: random key.

    Returns:
        The flow, and the parts of the ELBO at every step: in the first round at draws wider than q.
    """
    if scores.windows.count >= MANY:
        return _settled_narrow(scores, flow, mode, steps, key=key)
    draw_keys, fit_keys = jr.split(jr.fold_in(key, 0)), jr.split(jr.fold_in(key, 1))
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    root = np.linalg.cholesky(mode.covariance)
    flat = eqx.tree_at(lambda f: f.autoregressive, flow, None, is_leaf=lambda leaf: leaf is None)
    proposal = moved_to(_standard(flat), mode.theta, WIDER * root)
    points, gradients, records = [], [], []
    settled = flow
    for draw_key, fit_key in zip(draw_keys, fit_keys, strict=True):
        theta, gradient, record = _draws(scores, proposal, mode, max(1, steps // 2), weighted, rng, key=draw_key)
        points.append(np.linalg.solve(root, (theta - mode.theta).T).T)
        gradients.append(gradient @ root)
        records.append(record)
        u, pulled = np.concatenate(points), np.concatenate(gradients)
        length = np.linalg.norm(pulled, axis=1)
        fine = np.isfinite(length) & (length < OUTLYING * max(np.nanmedian(length), len(mode.theta) ** 0.5))
        surface = through_gradients(u[fine], pulled[fine])
        settled = moved_to(fitted(_standard(flow), surface, key=fit_key), mode.theta, root)
        proposal = settled
    return settled, History(*np.concatenate(records).T)


def _settled_narrow(
    scores: Scores, flow: ThetaFlow, mode: Mode, steps: int, *, key: PRNGKeyArray
) -> tuple[ThetaFlow, History]:
    """On a long series: a Gaussian at the mode, which a whole pass has found, with the widths of the curvature."""
    root = np.linalg.cholesky(mode.covariance)
    flat = eqx.tree_at(lambda f: f.autoregressive, flow, None, is_leaf=lambda leaf: leaf is None)
    proposal = moved_to(_standard(flat), mode.theta, root)
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    theta, gradient, record = _draws(scores, proposal, mode, steps, 1, rng, key=key)
    u, pulled = np.linalg.solve(root, (theta - mode.theta).T).T, gradient @ root
    fine = np.isfinite(pulled).all(axis=1)
    slope, *_ = np.linalg.lstsq(u[fine], pulled[fine], rcond=None)
    values, vectors = np.linalg.eigh(-0.5 * (slope + slope.T))
    width = np.clip(values, 1 / CHANGE**2, CHANGE**2) ** -0.5
    factor = np.linalg.cholesky((vectors * width**2) @ vectors.T)
    return moved_to(_standard(flat), mode.theta, root @ factor), History(*record.T)


def bound(scores: Scores, flow: ThetaFlow, mode: Mode, *, key: PRNGKeyArray) -> tuple[float, float]:
    """The ELBO of q(θ) with the look-ahead's q(x | θ), in nats, and its standard error."""
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    total = _draws(scores, flow, mode, BOUND, 1, rng, key=key)[2].sum(axis=1)
    return float(total.mean()), float(total.std(ddof=1) / np.sqrt(len(total)))


def _draws(
    scores: Scores, flow: ThetaFlow, mode: Mode, calls: int, weighted: int, rng: np.random.Generator, *, key: PRNGKeyArray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mirrored draws of θ, the gradients of the log posterior density at them, and the parts of the ELBO by call."""
    prior = PriorDensity(scores.guide.model.parameters)
    windows, pairs = scores.windows, max(1, LANES // (2 * weighted))
    share = np.minimum(windows.width, windows.length - np.arange(windows.count) * windows.width) / windows.length
    anchor = mode.scores / share[:, None] - mode.scores.sum(axis=0)  # what a window's choice adds to the whole
    shift, out = rng.uniform(), []
    for k in range(calls):
        shift = (shift + 0.6180339887498949) % 1.0
        at = ((np.arange(pairs) + shift) / pairs * windows.length).astype(np.int64) // windows.width
        half = rng.standard_normal((pairs, len(mode.theta)))
        number, e = np.tile(rng.permutation(at), 2), np.concatenate([half, -half])
        theta, log_q = (np.asarray(a, np.float64) for a in _drawn(flow, jnp.asarray(e, jnp.float32)))
        noise = np.tile(np.arange(pairs * weighted), 2)
        lanes = np.repeat(theta, weighted, axis=0), np.repeat(number, weighted)
        parts, gradient = scores.parts(*lanes, key=jr.fold_in(key, k), noise=noise)
        _, gradient, parts = log_mean(parts, gradient, weighted)
        gradient = gradient / share[number][:, None] - anchor[number] + prior.gradient(theta)
        own = np.mean(prior.log_prob(theta) - log_q)
        out.append((theta, gradient, np.append(own, np.mean(parts / share[number][:, None], axis=0))))
    theta, gradient, record = zip(*out, strict=True)
    return np.concatenate(theta), np.concatenate(gradient), np.stack(record)


def _standard(flow: ThetaFlow) -> ThetaFlow:
    """The flow with its head at the identity."""
    size = flow.size
    return eqx.tree_at(lambda f: f.head, flow, AffineHead(jnp.zeros(size), jnp.eye(size)))


@eqx.filter_jit
def _drawn(flow: ThetaFlow, e: Float[Array, "lane param"]) -> tuple[Array, Array]:
    return jax.vmap(flow)(e)
