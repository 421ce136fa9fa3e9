"""Does the strip find a stretch in which q was damaged on purpose, and nothing else?

    python benchmarks/strip.py [--seeds 20]

AR(1) with T = 100,000, a series, a fit and a place of the damage for each seed: scales times 1.5 over 500 steps.
"""

from __future__ import annotations

import argparse
import time

import jax.random as jr
import numpy as np

import nmax
from nmax.guides import DamagedGuide

LENGTH, HURT, FACTOR = 100_000, 500, 1.5
TRUTH = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}


def main() -> None:
    parser = argparse.ArgumentParser(description="The strip against damage on purpose.")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    model, right = nmax.models.ar1(), 0
    for seed in range(options.seeds):
        _, y = nmax.simulate(model, TRUTH, LENGTH, key=jr.key(seed))
        fit = nmax.fit(model, y, key=jr.key(seed), progress=False)
        start = int(np.random.default_rng(seed).integers(1, LENGTH - HURT))
        fit.guide = DamagedGuide(fit.guide, start, start + HURT, FACTOR)
        begun = time.perf_counter()
        strip = fit.strip(most=LENGTH, key=jr.key(100 + seed))
        seconds = time.perf_counter() - begun
        inside = (strip.start < start + HURT) & (strip.stop > start)
        whole = (strip.start >= start) & (strip.stop <= start + HURT)
        found, false = bool(strip.bad[whole].all()), int(strip.bad[~inside].sum())
        right += found and not false
        print(
            f"seed {seed}: damaged {start}–{start + HURT - 1}, found {strip.stretches()}, {false} windows elsewhere "
            f"({fit.seconds:.0f} + {seconds:.0f} s)",
            flush=True,
        )
    print(f"found, and nothing else, in {right} of {options.seeds} seeds")


if __name__ == "__main__":
    main()
