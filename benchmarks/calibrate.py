"""Simulation-based calibration of the default fit, and of the same fits narrowed by a fifth, which must not pass.

    python benchmarks/calibrate.py ar1|lv [--replications 200] [--out DIR]

Goes on where it was stopped. Every series is fitted once: both calibrations rank the truth among draws of the same fits.
"""

import argparse
import dataclasses
import threading
import time
from pathlib import Path

import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import nmax
from nmax.models import ar1, lotka_volterra

WIDTH = 0.8  # of the narrowed guide
SLICE = 20  # replications after which the narrowed guide catches up, so that few fits are lost by an interruption
CASES = {
    "ar1": (
        ar1,
        {"length": 200},
        {
            "intercept": dist.Normal(5.0, 1.0),
            "coefficient": dist.Uniform(-0.9, 0.9),
            "noise": dist.LogNormal(float(np.log(3.0)), 0.3),
        },
    ),
    "lv": (
        lotka_volterra,
        {"length": 500, "observe_every": 10},
        {
            "growth": dist.LogNormal(float(np.log(0.5)), 0.2),
            "predation": dist.LogNormal(float(np.log(0.0025)), 0.2),
            "death": dist.LogNormal(float(np.log(0.3)), 0.2),
        },
    ),
}


class Narrowed:
    """A fit whose draws are pulled towards their mean."""

    def __init__(self, fit):
        self.fit = fit

    def theta(self, draws, *, key):
        """Draws of the parameters, pulled."""
        return {name: pulled(values) for name, values in self.fit.theta(draws, key=key).items()}

    def path(self, draws, *, start, stop, key):
        """Draws of the states, pulled."""
        return pulled(self.fit.path(draws, start=start, stop=stop, key=key))


def pulled(values):
    mean = np.mean(values, axis=0, keepdims=True)
    return mean + WIDTH * (values - mean)


class Fits:
    """Fits by their key: the narrowed guide asks for each a second time, and then it is let go."""

    def __init__(self):
        self.kept, self.lock = {}, threading.Lock()

    def made(self, model, y, *, key, inputs):
        """A fit, which is kept."""
        fit = nmax.fit(model, y, key=key, inputs=inputs, progress=False)
        with self.lock:
            self.kept[jr.key_data(key).tobytes()] = fit
        return fit

    def narrowed(self, model, y, *, key, inputs):
        """The fit that was kept, narrowed; fitted again only if an earlier run has made it."""
        with self.lock:
            fit = self.kept.pop(jr.key_data(key).tobytes(), None)
        return Narrowed(nmax.fit(model, y, key=key, inputs=inputs, progress=False) if fit is None else fit)


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibration of the default fit, and of a guide a fifth too narrow.")
    parser.add_argument("name", choices=list(CASES))
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("out/calibrate"))
    options = parser.parse_args()
    make, setting, prior = CASES[options.name]
    model = dataclasses.replace(make(), prior=prior)  # one object for all slices, which share what is compiled for it
    fits, begun = Fits(), time.perf_counter()
    methods = {"default": fits.made, f"narrowed to {WIDTH:g}": fits.narrowed}
    results = {}
    for count in sorted({*range(SLICE, options.replications, SLICE), options.replications}):
        for what, method in methods.items():
            results[what] = nmax.calibrate(
                model,
                **setting,
                key=jr.key(0),
                method=method,
                replications=count,
                workers=options.workers,
                out=options.out / options.name / what.replace(" ", "_"),
            )
    total = time.perf_counter() - begun
    for what, result in results.items():
        file = result.plot(options.out / options.name / f"{what.replace(' ', '_')}.png")
        print(f"\n{options.name}, {what} ({file})\n{result}")
    seconds = results["default"].seconds
    print(f"\n{np.median(seconds):.1f} s a replication (the first {seconds.max():.1f} s), {total:.0f} s in all, this time")


if __name__ == "__main__":
    main()
