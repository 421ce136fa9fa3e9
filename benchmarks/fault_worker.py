"""A fit in a process of its own, for `faults.py` to do harm to: small, and as slow as is asked for."""

import argparse
import encodings.cp437  # noqa: F401  zip files are read by it, and another user may not be able to import it later
import os
import sys
import time
import warnings
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import nmax

THETA = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
GUIDE = nmax.MovingAverageGuide(layers=1, length=5, width=16, depth=1, radius=2, theta_layers=1)
STEPS = 1_000


def series(seed: int = 1) -> np.ndarray:
    return nmax.simulate(nmax.models.ar1(), THETA, 400, key=jr.key(seed)).y


def undefined(away: float) -> nmax.StateSpaceModel:
    """AR(1) whose transition has no density where the coefficient is far from 0.3, the centre of its prior."""

    def transition(x, theta):
        hole = jnp.where(jnp.abs(theta["coefficient"] - 0.3) > away, jnp.nan, 1.0)
        return dist.Normal(theta["intercept"] + theta["coefficient"] * x, theta["noise"] * hole).to_event(1)

    return nmax.StateSpaceModel(
        initial=lambda theta: jnp.array([10.0]),
        transition=transition,
        observation=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
        prior={"intercept": dist.Normal(5.0, 1.0), "coefficient": dist.Normal(0.3, 0.2), "noise": dist.LogNormal(1.0, 0.3)},
    )


def slowed(name: str, marker: Path) -> None:
    """From the third checkpoint on a call of the system takes a minute, and says that it has begun."""
    call, calls = getattr(os, name), []

    def late(*arguments, **options):
        if "step-" in str(arguments[0]) or (name == "fsync" and "step-" in os.readlink(f"/proc/self/fd/{arguments[0]}")):
            calls.append(1)
            if len(calls) == 3:
                marker.touch()
                time.sleep(60)
        return call(*arguments, **options)

    setattr(os, name, late)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--every", type=float, default=0.01)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each 100 steps")
    parser.add_argument("--source", type=Path, help="a series on disk")
    parser.add_argument("--series", type=int, default=1)
    parser.add_argument("--hole", type=float, help="how far from the centre the model is defined")
    parser.add_argument("--observation-sd", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--slow", choices=["fsync", "replace"])
    parser.add_argument("--user", type=int, help="whose process it is")
    parser.add_argument("--copy", type=Path, help="where to save what `fit` returned, beside the run folder")
    options = parser.parse_args()
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    if options.user:
        os.setuid(options.user)
    if options.slow:
        slowed(options.slow, options.run.with_suffix(".slow"))
    model = nmax.models.ar1(observation_sd=options.observation_sd) if options.hole is None else undefined(options.hole)
    fit = nmax.fit(
        model,
        series(options.series) if options.source is None else nmax.source(options.source),
        key=jr.key(options.seed),
        guide=GUIDE,
        pretrain=30,
        steps=STEPS,
        draws=4,
        window=40,
        out=options.run,
        checkpoint_every=options.every,
        progress=False,
        watch=lambda step, guide: time.sleep(options.pause),
    )
    print(f"{fit.steps} steps, {fit.skipped} skipped")
    if options.copy:
        fit.save(options.copy)


if __name__ == "__main__":
    main()
