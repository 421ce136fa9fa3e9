"""What each part of the look-ahead guide buys.

    python benchmarks/ablation.py SHARED [guides] [sampling] [buffers]

SHARED is the folder that holds `reference/` with the stored posteriors. `guides` fits AR(1) and FitzHugh–Nagumo with each
guide and says how long it took to MMD² ≤ 0.01; `sampling` holds the look-ahead against backward sampling from the smoother
of the same linear model, at one θ; `buffers` varies the lengths of blocks, buffers and windows.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array
from references import load

import nmax
from nmax._objective import stretch_ratio
from nmax._scores import Scores
from nmax.data import Window, Windows, make_series
from nmax.guides import LookaheadSampler, Stretch
from nmax.lookahead import Dynamics, linearised
from nmax.reference import bias_in_sd, mmd2, sd_ratio

GUIDES = {
    "plain nMA": nmax.MovingAverageGuide(),
    "look-ahead alone": nmax.LookaheadGuide(layers=0, weighted=1),
    "look-ahead, 6 weighted draws": nmax.LookaheadGuide(layers=0, weighted=6),
    "look-ahead + nMA": nmax.LookaheadGuide(layers=2, weighted=1),
}
CLOSE = 0.01  # MMD² that counts as there
DRAWS = 64


def _case(shared: Path, name: str) -> tuple[nmax.SDE | nmax.StateSpaceModel, np.ndarray, np.ndarray]:
    stored = load(shared, name)
    return stored.model, stored.y, stored.theta


class Watch:
    """Looks at q(θ) every 500 steps of training; its own time is not counted."""

    def __init__(self, exact: np.ndarray):
        self.exact, self.begun, self.lost, self.there = exact, time.perf_counter(), 0.0, None

    def __call__(self, steps: int, guide) -> None:
        """Note the time when MMD² is small for the first time."""
        if steps % 500 or self.there:
            return
        paused = time.perf_counter()
        e = jr.normal(jr.key(9), (2_000, guide.theta_flow.size))
        if mmd2(np.asarray(jax.vmap(guide.theta_flow)(e)[0], float), self.exact) <= CLOSE:
            self.there = paused - self.begun - self.lost
        self.lost += time.perf_counter() - paused


def guides(shared: Path) -> None:
    """Each guide from cold: seconds in all and to MMD² ≤ 0.01, and how good it is in the end."""
    for name in ("ar1_T5000_s11", "fhn_T2000_s31"):
        model, y, exact = _case(shared, name)
        for label, guide in GUIDES.items():
            watch = Watch(exact)
            fit = nmax.fit(model, y, key=jr.key(0), guide=guide, progress=False, watch=watch)
            seconds = time.perf_counter() - watch.begun - watch.lost
            flat = jax.vmap(model.parameters.unconstrain)(fit.theta(4_000, key=jr.key(1)))
            draws, elbo = np.asarray(flat, float), fit.elbo(key=jr.key(2))
            apart = mmd2(draws, exact)
            when = watch.there or (seconds if apart <= CLOSE else np.nan)
            ratio = sd_ratio(draws, exact)
            print(
                f"{name:14} {label:30} {seconds:6.1f} s, MMD² ≤ {CLOSE} after {when:5.1f} s; MMD² {apart:7.4f}  "
                f"ELBO {elbo.mean:10.2f} ± {elbo.standard_error:.2f}  bias {np.abs(bias_in_sd(draws, exact)).max():.2f}  "
                f"sd ratios {ratio.min():.2f}–{ratio.max():.2f}",
                flush=True,
            )


def backward_draw(guide: LookaheadSampler, series, theta, key) -> Array:
    """Log-ratio of a path drawn backwards from the Gaussian smoother of the model made linear along the same reference."""
    values = guide.model.parameters.constrain(theta)
    rows, reference = guide.reference(values, series, jnp.int32(0))
    dynamics = Dynamics(values, guide.model, guide.drawn)
    linear = linearised(dynamics, reference, rows, guide.first(dynamics, rows.index[0]))
    eye = jnp.eye(len(guide.drawn))

    def forwards(carry, step):
        mean, cov = carry
        slope, defect, root, precision, gradient = step
        ahead, spread = slope @ mean + defect, slope @ cov @ slope.T + root @ root.T
        cov = jnp.linalg.solve(eye + spread @ precision, spread)
        mean = ahead + cov @ (gradient - precision @ ahead)
        return (mean, cov), (ahead, spread, mean, cov)

    parts = (linear.slope, linear.defect, linear.root, linear.precision, linear.gradient)
    _, (ahead, spread, mean, cov) = jax.lax.scan(forwards, (jnp.zeros(len(eye)), 0.0 * eye), parts)

    def backwards(later, step):
        mean, cov, slope, ahead, spread, z, last = step
        gain = jnp.where(last, 0.0, jnp.linalg.solve(spread, slope @ cov).T)
        rest = cov - gain @ slope @ cov
        root = jnp.linalg.cholesky(0.5 * (rest + rest.T))
        drawn = mean + gain @ (later - ahead) + root @ z
        return drawn, (drawn, jnp.sum(jnp.log(jnp.diagonal(root))))

    def shifted(a):  # of the step that follows
        return jnp.concatenate([a[1:], a[-1:]])

    z = jr.normal(key, mean.shape)
    last = jnp.arange(len(mean)) == len(mean) - 1
    steps = (mean, cov, shifted(linear.slope), shifted(ahead), shifted(spread), z, last)
    # index 0 is the model's start and is not drawn
    _, (delta, log_det) = jax.lax.scan(backwards, mean[-1], jax.tree.map(lambda a: a[1:], steps), reverse=True)
    u = jnp.concatenate([reference.mean[:1], reference.mean[1:] + delta])
    flow, slopes = guide._constrained(u)
    base = jnp.sum(-0.5 * z[1:] ** 2 - 0.5 * jnp.log(2 * jnp.pi), axis=1) - log_det - jnp.sum(slopes[1:], axis=1)
    index = jnp.arange(len(u))
    stretch = Stretch(guide.states(values, flow, series, index), jnp.concatenate([jnp.zeros(1), base]), jnp.zeros(len(u)))
    windows = Windows(series.length, series.length)
    return stretch_ratio(guide, series, windows, Window(jnp.int32(1), jnp.int32(series.length)), values, stretch).total


def sampling(shared: Path) -> None:
    """At the posterior mean of θ, the whole series as one block: mean log-ratio, and half its variance."""
    for name in ("lv_dense_s21", "lv_sparse_s21", "fhn_T2000_s31"):
        model, y, exact = _case(shared, name)
        series = make_series(y)
        guide = nmax.LookaheadGuide(block=series.length + 1, buffer=0).build(model, series, key=jr.key(0))
        theta, keys = exact.mean(axis=0), jr.split(jr.key(1), DRAWS)
        scores = Scores(guide, series, Windows(series.length, series.length))
        own, _ = scores(np.tile(theta, (DRAWS, 1)), np.zeros(DRAWS, np.int64), key=jr.key(1))
        flat = jnp.asarray(theta, jnp.float32)
        backwards = eqx.filter_jit(eqx.filter_vmap(backward_draw, in_axes=(None, None, None, 0)))
        other = np.asarray(backwards(guide, series, flat, keys), float)
        for label, value in (("look-ahead", own), ("backward sampling", other)):
            fine = value[np.isfinite(value)]
            print(
                f"{name:14} {label:18} log-ratio {fine.mean():9.2f} ± {fine.std() / len(fine) ** 0.5:.2f}, half its "
                f"variance {0.5 * fine.var(ddof=1):8.2f} nats, {len(value) - len(fine)} of {len(value)} draws not finite",
                flush=True,
            )


def buffers(shared: Path) -> None:
    """FitzHugh–Nagumo at one θ: the log-ratio of the whole series, its spread over the noise, milliseconds a pass."""
    model, y, exact = _case(shared, "fhn_T2000_s31")
    series, theta = make_series(y), exact.mean(axis=0)
    for block, buffer in ((64, 4), (64, 8), (64, 16), (64, 32), (256, 32)):
        for width in (block, 4 * block):
            guide = nmax.LookaheadGuide(block=block, buffer=buffer).build(model, series, key=jr.key(0))
            scores = Scores(guide, series, Windows(series.length, width))
            number = np.tile(np.arange(scores.windows.count), 24)
            lanes = np.tile(theta, (len(number), 1))
            scores(lanes[:24], number[:24], key=jr.key(0))
            begun = time.perf_counter()
            value, _ = scores(lanes, number, key=jr.key(1))
            seconds = time.perf_counter() - begun
            value = value.reshape(24, -1)
            print(
                f"block {block:3} buffer {buffer:2} window {width:4}: log-ratio {value.sum(axis=1).mean():8.2f}, shortfall "
                f"{0.5 * value.var(axis=0, ddof=1).sum():5.2f} nats, {1e3 * seconds / 24:5.1f} ms a pass with gradients",
                flush=True,
            )


PARTS = {"guides": guides, "sampling": sampling, "buffers": buffers}

if __name__ == "__main__":
    for part in sys.argv[2:] or PARTS:
        PARTS[part](Path(sys.argv[1]))
