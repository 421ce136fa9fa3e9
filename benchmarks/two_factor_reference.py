r"""The posterior of the two-factor volatility of `own_models.py`, by Gibbs sampling with a Kalman filter, without nmax.

The logarithm of $y_i^2$ is level + slow + fast + $\log \chi^2_1$, and the last is all but a mixture of ten normals (Omori,
Chib, Shephard and Nakajima, 2007). Given which of them each row takes, the model is linear and Gaussian: level, start and
path are integrated out when the other four parameters move, then drawn by a simulation smoother (Durbin and Koopman, 2002),
then the rows' normals given the path. What the mixture is off by is undone by a weight for each draw. In double precision.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax

CHAINS, WARMUP, SWEEPS, ADAPT, EVERY = 24, 600, 16_000, 50, 5
SCALES = (0.5, 1.0, 2.0)  # of a sweep's moves, times what warm-up finds
SHARE = np.array([0.00609, 0.04775, 0.13057, 0.20674, 0.22715, 0.18842, 0.12047, 0.05591, 0.01575, 0.00115])
CENTRE = np.array([1.92677, 1.34744, 0.73504, 0.02266, -0.85173, -1.97278, -3.46788, -5.55246, -8.68384, -14.65000])
VARIANCE = np.array([0.11265, 0.17788, 0.26768, 0.40611, 0.62699, 0.98583, 1.57469, 2.54498, 4.16591, 7.33342])
LEVEL_SD = 2.0  # of the prior, whose mean is zero


def parameters(eta):
    """Persistence of the slow and the fast factor, and their scales, from four unconstrained numbers."""
    phi = jnp.stack([0.95 + 0.05 * jax.nn.sigmoid(eta[0]), 0.95 * jax.nn.sigmoid(eta[1])])
    return phi, jnp.exp(eta[2:])


def log_prior(eta):
    """Uniform persistence, lognormal scales, in unconstrained coordinates."""
    uniform = jax.nn.log_sigmoid(eta[:2]) + jax.nn.log_sigmoid(-eta[:2])
    return jnp.sum(uniform) - 0.5 * (eta[2] + 2.0) ** 2 - 0.5 * (eta[3] + 1.0) ** 2


def log_of_chi_square(xi):
    """Log density of the logarithm of a chi square with one degree of freedom."""
    return 0.5 * (xi - jnp.exp(xi)) - 0.5 * jnp.log(2.0 * jnp.pi)


def by_normal(xi):
    """Log of share × density of each of the ten normals, one a column."""
    off = xi[:, None] - CENTRE
    return jnp.log(SHARE) - 0.5 * jnp.log(2.0 * jnp.pi * VARIANCE) - 0.5 * off**2 / VARIANCE


def kalman(phi, scale, seen, variance):
    """Log likelihood of `seen` = level + slow + fast + N(0, variance), with innovations, their variances and gains."""
    move, noise = jnp.concatenate([jnp.ones(1), phi]), jnp.concatenate([jnp.zeros(1), scale**2])
    first = jnp.diag(jnp.concatenate([jnp.array([LEVEL_SD**2]), scale**2 / (1.0 - phi**2)]))

    def one(carry, row):
        mean, spread, total = carry
        value, own = row
        with_data = spread.sum(axis=1)
        innovation, size = value - mean.sum(), with_data.sum() + own
        gain = move * with_data / size
        after = move[:, None] * spread * move - jnp.outer(gain, gain) * size + jnp.diag(noise)
        total -= 0.5 * (jnp.log(2.0 * jnp.pi * size) + innovation**2 / size)
        return (move * mean + gain * innovation, after, total), (innovation, size, gain)

    (_, _, total), rows = lax.scan(one, (jnp.zeros(3), first, 0.0), (seen, variance))
    return total, rows


def smoothed(phi, scale, seen, variance):
    """The mean of level and factors at each row given all of `seen`."""
    move, noise = jnp.concatenate([jnp.ones(1), phi]), jnp.concatenate([jnp.zeros(1), scale**2])
    _, rows = kalman(phi, scale, seen, variance)

    def backwards(after, row):
        innovation, size, gain = row
        return innovation / size + move * after - jnp.dot(gain, after), after

    start, after = lax.scan(backwards, jnp.zeros(3), rows, reverse=True)
    first = jnp.concatenate([jnp.array([LEVEL_SD**2]), scale**2 / (1.0 - phi**2)]) * start

    def forwards(mean, after):
        following = move * mean + noise * after
        return following, mean

    return lax.scan(forwards, first, after)[1]


def drawn(phi, scale, seen, variance, key):
    """Level and factors at each row given `seen`: a draw of the prior, moved by what it leaves unexplained."""
    first_key, path_key, seen_key = jr.split(key, 3)
    first = jr.normal(first_key, (3,)) * jnp.concatenate([jnp.array([LEVEL_SD]), scale / jnp.sqrt(1.0 - phi**2)])
    z = jr.normal(path_key, (len(seen) - 1, 2)) * scale

    def one(state, own):
        following = phi * state + own
        return following, following

    factors = jnp.concatenate([first[None, 1:], lax.scan(one, first[1:], z)[1]])
    free = jnp.concatenate([jnp.full((len(seen), 1), first[0]), factors], axis=1)
    free_seen = free.sum(axis=1) + jnp.sqrt(variance) * jr.normal(seen_key, seen.shape)
    return free + smoothed(phi, scale, seen - free_seen, variance)


def sweep(eta, path, seen, root, key):
    """Normals given the path, four parameters given the normals, the path given both; and what a draw of it weighs."""
    which_key, path_key, *moves = jr.split(key, 2 + len(SCALES))
    which = jr.categorical(which_key, by_normal(seen - path.sum(axis=1)))
    centred, variance = seen - CENTRE[which], VARIANCE[which]

    def density(eta):
        return kalman(*parameters(eta), centred, variance)[0] + log_prior(eta)

    now, accepted = density(eta), 0.0
    for size, move_key in zip(SCALES, moves):
        step_key, coin_key = jr.split(move_key)
        proposal = eta + size * root @ jr.normal(step_key, (4,))
        there = density(proposal)
        taken = jnp.log(jr.uniform(coin_key)) < there - now
        eta, now = jnp.where(taken, proposal, eta), jnp.where(taken, there, now)
        accepted += taken / len(SCALES)
    phi, scale = parameters(eta)
    path = drawn(phi, scale, centred, variance, path_key)
    start = path[0, 1:] * jnp.sqrt(1.0 - phi**2) / scale
    xi = seen - path.sum(axis=1)
    weight = jnp.sum(log_of_chi_square(xi) - jax.nn.logsumexp(by_normal(xi), axis=1))
    return eta, path, (eta, path[0, 0], start, weight, accepted)


def sample(y: np.ndarray) -> dict[str, Any]:
    """Draws of θ by name, chains first, and `log_weight`, to which each draw is to be weighted."""
    seen, begun = jnp.log(jnp.asarray(y, float) ** 2), time.perf_counter()

    sweeps: Any = jax.vmap(sweep, in_axes=(0, 0, None, None, 0))

    @jax.jit
    def some(eta, path, root, keys):
        def one(carry, key):
            eta, path, record = sweeps(*carry, seen, root, jr.split(key, CHAINS))
            return (eta, path), record

        return lax.scan(one, (eta, path), keys)

    eta = jnp.array([0.0, 1.0, -2.0, -1.0]) + 0.3 * jr.normal(jr.key(1), (CHAINS, 4))
    path = jnp.broadcast_to(jnp.array([1.0, 0.0, 0.0]) * (seen.mean() + 1.27), (CHAINS, len(seen), 3))
    size, kept, spread, recent = 1.0, [], jnp.diag(jnp.array([0.5, 0.3, 0.3, 0.2]) ** 2), []
    for part in range((WARMUP + SWEEPS) // ADAPT):
        keys = jr.split(jr.fold_in(jr.key(2), part), ADAPT)
        (eta, path), record = some(eta, path, size * jnp.linalg.cholesky(spread), keys)
        warming = (part + 1) * ADAPT <= WARMUP
        if warming:
            recent = [*recent, np.asarray(record[0])][-4:]
            size *= float(np.exp(np.mean(record[4]) - 0.3))
            if part > 2:
                spread = jnp.asarray(np.cov(np.concatenate(recent).reshape(-1, 4).T)) + 1e-6 * jnp.eye(4)
        else:
            kept.append([np.asarray(a)[::EVERY] for a in record])
        if part % 40 == 39:
            rate = float(np.mean(record[4]))
            print(f"{(part + 1) * ADAPT} sweeps, {time.perf_counter() - begun:.0f} s, {rate:.0%} accepted", flush=True)
    eta, level, start, weight, _ = (np.concatenate(column).swapaxes(0, 1) for column in zip(*kept))
    phi, scale = jax.vmap(jax.vmap(parameters))(jnp.asarray(eta))
    named = {
        "level": level,
        "slow": phi[..., 0],
        "fast": phi[..., 1],
        "slow_noise": scale[..., 0],
        "fast_noise": scale[..., 1],
    }
    return {name: np.asarray(value) for name, value in named.items()} | {"start": start, "log_weight": weight}
