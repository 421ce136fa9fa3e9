"""What each part of the look-ahead guide buys: guides on AR(1) and FitzHugh–Nagumo, then buffers and windows.

    python benchmarks/ablation.py SHARED

SHARED is the folder that holds `reference/` with the stored posteriors.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import jax
import jax.random as jr
import numpy as np

import nmax
from nmax._scores import Scores
from nmax.data import Windows, make_series
from nmax.reference import bias_in_sd, mmd2, sd_ratio

CASES = {"ar1_T5000_s11": nmax.models.ar1, "fhn_T2000_s31": nmax.models.fitzhugh_nagumo}
GUIDES = {
    "plain nMA": nmax.MovingAverageGuide(),
    "look-ahead alone": nmax.LookaheadGuide(layers=0, weighted=1),
    "look-ahead, 4 weighted draws": nmax.LookaheadGuide(layers=0, weighted=4),
    "look-ahead + nMA": nmax.LookaheadGuide(layers=2, weighted=1),
}


def main(shared: Path) -> None:
    for name, make in CASES.items():
        file, model = np.load(shared / "reference" / f"{name}.npz"), make()
        exact, y = file["theta"].astype(float), np.full((len(file["x_mean"]), 1), np.nan)
        y[file["obs_idx"], 0] = file["y"].reshape(-1)
        for label, guide in GUIDES.items():
            begun = time.perf_counter()
            fit = nmax.fit(model, y, key=jr.key(0), guide=guide, progress=False)
            seconds = time.perf_counter() - begun
            flat = jax.vmap(model.parameters.unconstrain)(fit.theta(4_000, key=jr.key(1)))
            draws, elbo = np.asarray(flat, float), fit.elbo(key=jr.key(2))
            print(
                f"{name:14} {label:30} {seconds:6.1f} s  MMD² {mmd2(draws, exact):7.4f}  "
                f"ELBO {elbo.mean:10.2f} ± {elbo.standard_error:.2f}  bias {np.abs(bias_in_sd(draws, exact)).max():.2f}  "
                f"sd ratios {sd_ratio(draws, exact).min():.2f}–{sd_ratio(draws, exact).max():.2f}",
                flush=True,
            )
        if name.startswith("fhn"):
            buffers(model, y, exact.mean(axis=0))


def buffers(model: nmax.SDE, y: np.ndarray, theta: np.ndarray) -> None:
    """At one θ: the log-ratio of the whole series, its spread over the noise, and milliseconds a pass."""
    series = make_series(y)
    for block, buffer in ((64, 4), (64, 8), (64, 16), (64, 32), (128, 32), (256, 64)):
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
