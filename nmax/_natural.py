"""q(θ) from scores of windows, where q(x | θ) has nothing to learn: natural gradients, taken all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from nmax._convergence import Convergence, Movement, movement
from nmax._iterates import Change, change_of
from nmax._prior_density import PriorDensity
from nmax._scores import LANES, Scores, log_mean
from nmax._start import Mode
from nmax._step import History
from nmax._surface import DEGREES, fitted, moved_to, through_gradients
from nmax.data import Windows
from nmax.flows import AffineHead, ThetaFlow

WIDTHS = (1.2, 1.0, 1.0)  # of the draws of each round: from the mode's Gaussian, then from the q(θ) that the last one gave
MORE = 4  # rounds after these at the most, while q(θ) still moves
FAR = 3.0  # widths beyond the typical distance of a draw at which it is left out of later rounds
MOMENTS = 10_000  # draws by which q(θ) is centred and scaled for the next round
MANY = 200  # windows from which on the posterior of θ is taken for Gaussian,
STEPS = 25_000  # and the steps that windows of several series must have for that: those of short series may be few
CHANGE = 3.0  # how much narrower or wider than the scores' covariance says a direction may be
BOUND = 12  # calls of the scores from which the ELBO at a mode is estimated
CHECK, ASTRAY = 6, 0.5  # and that of a round's q(θ), which may not be so many nats below the last one's, errors aside
ENTROPY = 2  # the column of the entropy among the parts of a log-ratio
OUTLYING = 6.0  # gradients longer than so many typical ones are left out


class Settlement(NamedTuple):
    """q(θ), and how it settled.

    Attributes:
        flow: q(θ).
        history: the parts of the bound at every step.
        refused: whether a round was refused because the bound fell.
        moved: how q(θ) moved in the last round, the refused one if there was one; on a long series the Newton step left.
        gain: what the bound gained in it.
        rounds: how many there were; none on a long series.
    """

    flow: ThetaFlow
    history: History
    refused: bool
    moved: Movement
    gain: Change
    rounds: int

    def convergence(self, mode: Mode, labels: Sequence[str]) -> Convergence:
        """Whether q(θ) came to rest at this mode."""
        slight = self.moved.slight and (self.gain.slight or not self.rounds)
        last = f"the last of {self.rounds} rounds" + (", which lowered the bound and was refused" if self.refused else "")
        return Convergence(
            converged=mode.arrived and slight and not self.refused,
            rhat=float("nan"),
            elbo=self.gain.nats,
            elbo_standard_error=self.gain.standard_error,
            judged_by=last if self.rounds else "the last Newton step",
            again="another round" if self.rounds else "another Newton step",
            **self.moved.described(labels),
        )


def settle(
    scores: Scores,
    flow: ThetaFlow,
    mode: Mode,
    steps: int,
    *,
    weighted: int = 1,
    rounds: int = len(WIDTHS),
    key: PRNGKeyArray,
) -> Settlement:
    r"""Maximise the ELBO over q(θ), with x drawn by the look-ahead.

    For a Gaussian $q(\vartheta)$ with mean $m$ and covariance $LL^\top$ the natural gradient vanishes where
    $E[L^\top g] = 0$ and $E[L^\top g u^\top] = -I$, $g$ being the gradient of the log posterior density at $\vartheta = m +
    Lu$: where the linear part of $g$, regressed on $u$, says so. Gradients cost a scan over a window each, so they are
    kept, and a surface is put through all of them; q(θ), autoregressive part and all, is fitted to that at leisure. So
    many rounds, and some more while it still moves: draws from the mode's Gaussian, somewhat wider, then from the q(θ) that
    the last round gave, in whose mean and covariance the surface is centred and scaled anew. Where the new q(θ) has a lower
    bound than the last one's, a quadratic surface is tried; if that does no better, the round is not believed, and is the
    last.

    A draw and its mirror image see the same window $B$ with the same noise, so that the choice of the window cancels from
    the curvature; from the slope it is taken out by the scores of all windows at the mode, $g - \nabla\ell_B(m_0)\,T/|B| +
    \sum_{B'} \nabla\ell_{B'}(m_0)$. The widths are those of the curvature however the scores vary: a misspecified model's
    too.

    Args:
        scores: of the windows.
        flow: the shape of q(θ).
        mode: where to begin.
        steps: calls of the scores in three rounds, `LANES` draws each, beside those that check a round.
        weighted: draws of x that are weighted against each other at each θ (`Scores.weighted`). With more than one, q(θ)
            maximises a tighter bound than the ELBO, in which q(x | θ) counts for less.
        rounds: at least, before it can count as at rest.
        key: random key.

    The parts of the bound are, in the first round, those at draws wider than q.
    """
    if many(scores.windows):
        return _settled_narrow(scores, flow, mode, steps, key=key)
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    root = np.linalg.cholesky(mode.covariance)
    flat = eqx.tree_at(lambda f: f.autoregressive, flow, None, is_leaf=lambda leaf: leaf is None)
    settled = moved_to(_standard(flat), mode.theta, root)
    centre, thetas, gradients, records = mode.theta, [], [], []
    check_key = jr.fold_in(key, len(WIDTHS))
    last, refused = _totals(scores, settled, mode, CHECK, weighted, key=check_key), False
    for k, width in enumerate(WIDTHS + (1.0,) * MORE):
        draw_key, fit_key = jr.split(jr.fold_in(key, k + (k >= len(WIDTHS))))  # the number between is the check's
        calls = max(1, steps // len(WIDTHS))
        theta, gradient, record = _draws(scores, settled, mode, calls, weighted, rng, width=width, key=draw_key)
        thetas.append(theta)
        gradients.append(gradient)
        records.append(record)
        u = np.linalg.solve(root, (np.concatenate(thetas) - centre).T).T
        pulled = _fine(u, np.concatenate(gradients) @ root)
        for degree in DEGREES:  # where fresh draws contradict the surface, a plainer one is tried
            found = moved_to(fitted(_standard(flow), through_gradients(*pulled, degree), key=fit_key), centre, root)
            now = _totals(scores, found, mode, CHECK, weighted, key=check_key)
            if not (refused := _fell(last, now)):
                break
        moved, gain = _moved(settled, found, key=key), change_of(now - last)
        if refused:
            break  # the q(θ) that the draws came from is kept
        settled, last = found, now
        if k + 1 >= rounds and moved.slight and gain.slight:
            break
        centre, root = _moments(settled, key=fit_key)
    return Settlement(settled, History(*np.concatenate(records).T), refused, moved, gain, len(records))


def many(windows: Windows) -> bool:
    """Whether there are so many windows that their scores say all of the posterior of θ."""
    return windows.count >= MANY and (not windows.lengths or windows.length >= STEPS)


def _fine(u: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without the draws far from where the mass is now known to be, or with a gradient out of all proportion."""
    length = np.linalg.norm(gradient, axis=1)
    fine = np.isfinite(length) & (np.linalg.norm(u, axis=1) < FAR + u.shape[1] ** 0.5)
    fine &= length < OUTLYING * max(np.nanmedian(length), u.shape[1] ** 0.5)
    return u[fine], gradient[fine]


def _moments(flow: ThetaFlow, *, key: PRNGKeyArray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of q(θ), and a lower triangular root of its covariance."""
    theta = np.asarray(_drawn(flow, jr.normal(key, (MOMENTS, flow.size)))[0], np.float64)
    return theta.mean(axis=0), np.linalg.cholesky(np.cov(theta.T).reshape(flow.size, -1))


def _moved(before: ThetaFlow, after: ThetaFlow, *, key: PRNGKeyArray) -> Movement:
    """From one q(θ) to the next, by the same noise."""
    looks = []
    for flow in (before, after):
        mean, root = _moments(flow, key=key)
        looks.append(np.stack([mean, 0.5 * np.log(np.sum(root**2, axis=1))]))
    return movement(np.stack(looks[:1]), looks[1])


def _settled_narrow(scores: Scores, flow: ThetaFlow, mode: Mode, steps: int, *, key: PRNGKeyArray) -> Settlement:
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
    settled = moved_to(_standard(flat), mode.theta, root @ factor)
    unknown = np.full(flow.size, np.nan)
    left = Movement(np.abs(np.broadcast_to(mode.left, unknown.shape)), unknown)
    return Settlement(settled, History(*record.T), False, left, Change(np.nan, np.nan), 0)


def bound(scores: Scores, flow: ThetaFlow, mode: Mode, *, key: PRNGKeyArray) -> tuple[float, float]:
    """The ELBO of q(θ) with the look-ahead's q(x | θ), in nats, and its standard error."""
    total = _totals(scores, flow, mode, BOUND, 1, key=key)
    return float(total.mean()), float(total.std(ddof=1) / np.sqrt(len(total)))


def _totals(
    scores: Scores, flow: ThetaFlow, mode: Mode, calls: int, weighted: int, *, key: PRNGKeyArray
) -> Float[np.ndarray, " call"]:
    """Estimates of the bound, one a call; the same key means the same windows and noise."""
    rng = np.random.default_rng(int(jr.randint(key, (), 0, 2**31 - 1)))
    return _draws(scores, flow, mode, calls, weighted, rng, key=key)[2].sum(axis=1)


def _fell(last: np.ndarray, now: np.ndarray) -> bool:
    """Whether the bound fell from one q(θ) to the next, by estimates with the same noise, or can no longer be had."""
    gain = change_of(now - last)
    if np.sum(np.isfinite(now)) < np.sum(np.isfinite(last)) or not np.isfinite(gain.nats):
        return bool(np.isfinite(last).any())
    return gain.nats + 2 * gain.standard_error < -ASTRAY


def _draws(
    scores: Scores,
    flow: ThetaFlow,
    mode: Mode,
    calls: int,
    weighted: int,
    rng: np.random.Generator,
    *,
    width: float = 1.0,
    key: PRNGKeyArray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mirrored draws of θ, the gradients of the log posterior density at them, and the parts of the ELBO by call.

    The base noise of the draws has the given width; the ELBO is that of q only where it is 1.
    """
    prior = PriorDensity(scores.guide.model.parameters)
    windows, pairs = scores.windows, max(1, LANES // (2 * weighted))
    share = np.asarray(windows.at(np.arange(windows.count)).size) / windows.length
    anchor = mode.scores / share[:, None] - mode.scores.sum(axis=0)  # what a window's choice adds to the whole
    shift, out = rng.uniform(), []
    for k in range(calls):
        shift = (shift + 0.6180339887498949) % 1.0
        at = np.asarray(windows.holding(((np.arange(pairs) + shift) / pairs * windows.length).astype(np.int64)))
        half = rng.standard_normal((pairs, len(mode.theta))) * width
        number, e = np.tile(rng.permutation(at), 2), np.concatenate([half, -half])
        theta, log_q = (np.asarray(a, np.float64) for a in _drawn(flow, jnp.asarray(e, jnp.float32)))
        noise = np.tile(np.arange(pairs * weighted), 2)
        lanes = np.repeat(theta, weighted, axis=0), np.repeat(number, weighted)
        parts, gradient = scores.parts(*lanes, key=jr.fold_in(key, k), noise=noise)
        value, gradient, parts = log_mean(parts, gradient, weighted)
        parts[:, ENTROPY] += value - parts.sum(axis=1)  # the bound is the logarithm of the mean, not the mean
        gradient = gradient / share[number][:, None] - anchor[number] + prior.gradient(theta)
        every = np.column_stack([prior.log_prob(theta) - log_q, parts / share[number][:, None]])
        out.append((theta, gradient, _mean_of_finite(every)))
    theta, gradient, record = zip(*out, strict=True)
    return np.concatenate(theta), np.concatenate(gradient), np.stack(record)


def _mean_of_finite(rows: np.ndarray) -> np.ndarray:
    """The mean of the rows that are finite; NaN if more than a quarter are not."""
    fine = np.isfinite(rows).all(axis=1)
    return rows[fine].mean(axis=0) if fine.mean() >= 0.75 else np.full(rows.shape[1], np.nan)


def _standard(flow: ThetaFlow) -> ThetaFlow:
    """The flow with its head at the identity."""
    size = flow.size
    return eqx.tree_at(lambda f: f.head, flow, AffineHead(jnp.zeros(size), jnp.eye(size)))


@eqx.filter_jit
def _drawn(flow: ThetaFlow, e: Float[Array, "lane param"]) -> tuple[Array, Array]:
    return jax.vmap(flow)(e)
