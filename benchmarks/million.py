"""FitzHugh–Nagumo with a million steps, from cold: seconds, how far the truth lies off, widths, bands of the unobserved w.

    python benchmarks/million.py [--length T] [--weighted K ...] [SEED ...]

Each seed is one simulated series. K = 1 is the look-ahead alone; otherwise K draws a window are weighted against each other.
"""

from __future__ import annotations

import argparse

import jax
import jax.random as jr
import numpy as np

import nmax

TRUTH = {"rate": 2.0, "current": 1.0, "recovery": 1.5, "noise_v": 0.5, "noise_w": 0.3}
STRETCHES, STRETCH, PATHS = 5, 10_000, 200


def bands(fit: nmax.Posterior, w: np.ndarray) -> np.ndarray:
    """How often 90 % bands of w hold it, stretch by stretch."""
    held = []
    for start in np.linspace(0, len(w) - STRETCH, STRETCHES).astype(int):
        drawn = fit.path(PATHS, start=int(start), stop=int(start) + STRETCH, key=jr.key(3))[..., 1]
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        held.append(np.mean((w[start : start + STRETCH] >= low) & (w[start : start + STRETCH] <= high)))
    return np.array(held)


def report(seed: int, length: int, weighted: int) -> None:
    model = nmax.models.fitzhugh_nagumo()
    x, y = nmax.simulate(model, TRUTH, length, key=jr.key(seed))
    guide = nmax.LookaheadGuide(layers=0, weighted=weighted)
    fit = nmax.fit(model, y, key=jr.key(0), guide=guide, progress=False)
    draws = np.asarray(jax.vmap(model.parameters.unconstrain)(fit.theta(20_000, key=jr.key(1))), float)
    off = (np.asarray(model.parameters.unconstrain(TRUTH), float) - draws.mean(axis=0)) / draws.std(axis=0)
    scores = fit.modes[0].scores
    naive = np.sqrt(np.diag(np.linalg.inv(np.cov(scores.T) * len(scores))))
    held, widths = bands(fit, x[:, 1]), draws.std(axis=0) / naive
    print(
        f"seed {seed}, K = {weighted}: {fit.seconds:.1f} s; truth off by {np.round(off, 2)} sd; sds against the scores' ",
        end="",
    )
    print(f"{np.round(widths, 3)}; bound {fit.modes[0].log_evidence:.0f}; ", end="")
    print(f"bands of w hold it {100 * held.mean():.1f} % of the time ({np.round(100 * held, 1)})", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=[41, 42, 43, 31])
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--weighted", nargs="*", type=int, default=[1, 8])
    arguments = parser.parse_args()
    for one in arguments.seeds:
        for draws in arguments.weighted:
            report(one, arguments.length, draws)
