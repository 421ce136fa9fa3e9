"""Five models that no paper comes with, fitted with default settings, against near-exact posteriors made without nmax.

    python benchmarks/own_models.py CACHE [--seed N] [--by-sample] [NAME ...]

The names are local-level, logistic, ornstein-uhlenbeck, pendulum and two-factor. CACHE is a folder for the simulated series
and their reference posteriors, which `own_references.py` makes with the Kalman filter and NUTS where they are not there yet
(minutes each, the pendulum hours). With `--by-sample` they are made by `nmax.sample`: exact NUTS on the
whole path too, if not without nmax. Prints a table: required are |bias| ≤ 0.25 posterior sd and sd ratios between 0.8 and
1.2 for every parameter, in unconstrained coordinates.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist

import nmax
from nmax._diagnostics import mixing
from nmax.reference import bias_in_sd, sd_ratio

DRAWS = 40_000
SAMPLED, WARMUP = 500, 200  # draws of each of eight chains of `nmax.sample`, where that makes the reference
BIAS, NARROW, WIDE = 0.25, 0.8, 1.2


class Case(NamedTuple):
    """A model, parameters to simulate from, the number of steps, inputs, and parameters that may rest on their prior."""

    model: nmax.StateSpaceModel | nmax.SDE
    truth: dict[str, Any]
    length: int
    inputs: np.ndarray | None = None
    known: tuple[str, ...] = ()


def local_level() -> Case:
    """A level that wanders, seen with noise."""
    model = nmax.StateSpaceModel(
        prior={"start": dist.Normal(0.0, 10.0), "step": dist.LogNormal(-1.0, 1.0), "noise": dist.LogNormal(0.0, 1.0)},
        initial=lambda theta: theta["start"][None],
        transition=lambda x, theta: dist.Normal(x, theta["step"]).to_event(1),
        observation=lambda x, theta: dist.Normal(x, theta["noise"]).to_event(1),
        states=("level",),
    )
    return Case(model, {"start": 2.0, "step": 0.3, "noise": 1.0}, 1_000)


def logistic() -> Case:
    """A population that grows towards its capacity with multiplicative noise, counted; the state is its logarithm."""

    def transition(x, theta):
        growth = theta["growth"] * (1.0 - jnp.exp(x) / theta["capacity"])
        return dist.Normal(x + growth, theta["noise"]).to_event(1)

    model = nmax.StateSpaceModel(
        prior={
            "start": dist.Normal(3.0, 1.0),
            "growth": dist.LogNormal(-1.0, 1.0),
            "capacity": dist.LogNormal(5.0, 1.0),
            "noise": dist.LogNormal(-2.0, 1.0),
        },
        initial=lambda theta: theta["start"][None],
        transition=transition,
        observation=lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1),
        states=("log population",),
    )
    return Case(model, {"start": 3.0, "growth": 0.3, "capacity": 300.0, "noise": 0.1}, 300)


def ornstein_uhlenbeck() -> Case:
    """Reversion to a mean in continuous time, seen with Student t noise of unknown tails."""
    model = nmax.SDE(
        prior={
            "rate": dist.LogNormal(0.0, 1.0),
            "mean": dist.Normal(0.0, 5.0),
            "volatility": dist.LogNormal(0.0, 1.0),
            "noise": dist.LogNormal(-1.0, 1.0),
            "tails": dist.Gamma(2.0, 0.1),
        },
        initial=lambda theta: theta["mean"][None],
        drift=lambda x, theta: theta["rate"] * (theta["mean"] - x),
        diffusion=lambda x, theta: theta["volatility"][None] ** 2,
        dt=0.1,
        observation=lambda x, theta: dist.StudentT(theta["tails"], x, theta["noise"]).to_event(1),
    )
    return Case(model, {"rate": 0.8, "mean": 1.5, "volatility": 1.0, "noise": 0.3, "tails": 4.0}, 2_000)


def pendulum() -> Case:
    """A damped pendulum that a motor pushes and air shakes; its angle is seen with noise, its velocity never."""

    def drift(x, theta, torque):
        angle, velocity = x
        return jnp.stack(
            [velocity, theta["gain"] * torque[0] - theta["damping"] * velocity - theta["gravity"] * jnp.sin(angle)]
        )

    model = nmax.SDE(
        prior={
            "gravity": dist.LogNormal(1.0, 1.0),
            "damping": dist.LogNormal(-1.0, 1.0),
            "gain": dist.LogNormal(0.0, 1.0),
            "shake": dist.LogNormal(-1.0, 1.0),
            "noise": dist.LogNormal(-2.0, 1.0),
        },
        initial=lambda theta: jnp.zeros(2),
        drift=drift,
        diffusion=lambda x, theta, torque: jnp.stack([jnp.float32(0.01**2), theta["shake"] ** 2]),
        dt=0.05,
        observation=lambda x, theta, torque: dist.Normal(x[:1], theta["noise"]).to_event(1),
        states=("angle", "velocity"),
    )
    time = 0.05 * np.arange(1_501)
    torque = 1.2 * np.sin(0.9 * time) + 0.8 * np.sin(3.1 * time + 1.0)
    return Case(model, {"gravity": 4.0, "damping": 0.5, "gain": 1.5, "shake": 0.4, "noise": 0.1}, 1_500, torque[:, None])


def two_factor() -> Case:
    """Log variance as the sum of a slow and a fast autoregression, told apart by the prior of their persistence."""

    def initial(theta):
        return theta["start"] * scales(theta) / jnp.sqrt(1.0 - persistence(theta) ** 2)

    def persistence(theta):
        return jnp.stack([theta["slow"], theta["fast"]])

    def scales(theta):
        return jnp.stack([theta["slow_noise"], theta["fast_noise"]])

    model = nmax.StateSpaceModel(
        prior={
            "level": dist.Normal(0.0, 2.0),
            "slow": dist.Uniform(0.95, 1.0),
            "fast": dist.Uniform(0.0, 0.95),
            "slow_noise": dist.LogNormal(-2.0, 1.0),
            "fast_noise": dist.LogNormal(-1.0, 1.0),
            "start": dist.Normal(0.0, 1.0).expand([2]).to_event(1),
        },
        initial=initial,
        transition=lambda x, theta: dist.Normal(persistence(theta) * x, scales(theta)).to_event(1),
        observation=lambda x, theta: dist.Normal(0.0, jnp.exp(0.5 * (theta["level"] + x[:1] + x[1:]))).to_event(1),
        states=("slow", "fast"),
    )
    truth = {"level": -0.5, "slow": 0.99, "fast": 0.7, "slow_noise": 0.12, "fast_noise": 0.5, "start": [0.5, -0.5]}
    return Case(model, truth, 2_000, known=("start",))


CASES = {
    "local-level": local_level,
    "logistic": logistic,
    "ornstein-uhlenbeck": ornstein_uhlenbeck,
    "pendulum": pendulum,
    "two-factor": two_factor,
}


def data(cache: Path, name: str) -> tuple[Case, np.ndarray]:
    """The case and its series, simulated at the first call."""
    case, file = CASES[name](), cache / f"{name}.npz"
    if not file.exists():
        _, y = nmax.simulate(case.model, case.truth, case.length, key=jr.key(17), inputs=case.inputs)
        cache.mkdir(parents=True, exist_ok=True)
        inputs = np.zeros((case.length + 1, 0)) if case.inputs is None else case.inputs
        np.savez(file, y=np.asarray(y, float), inputs=inputs)
    return case, np.load(file)["y"]


def reference(cache: Path, name: str, by_sample: bool) -> tuple[dict[str, np.ndarray], float, float]:
    """Draws of θ by name, the least effective sample size and the largest R-hat; made at the first call."""
    file = cache / (f"{name}-sampled.npz" if by_sample else f"{name}-posterior.npz")
    if not file.exists() and by_sample:
        case, y = data(cache, name)
        drawn = nmax.sample(case.model, y, inputs=case.inputs, key=jr.key(99), draws=SAMPLED, warmup=WARMUP, progress=False)
        print(drawn.summary(), flush=True)
        each = [mixing(np.asarray(drawn.record.theta, float)[:, :, k].T) for k in range(case.model.parameters.size)]
        found: dict[str, Any] = dict(drawn.theta())
        np.savez(file, ess=min(one.bulk for one in each), rhat=max(one.rhat for one in each), **found)
    if not file.exists():
        script = Path(__file__).with_name("own_references.py")
        subprocess.run([sys.executable, str(script), str(cache), name], check=True)
    found = np.load(file)
    return {k: found[k] for k in found if k not in ("ess", "rhat")}, float(found["ess"]), float(found["rhat"])


def flat(model: Any, theta: dict[str, np.ndarray]) -> np.ndarray:
    """Draws in unconstrained coordinates."""
    return np.asarray(jax.vmap(model.parameters.unconstrain)({k: jnp.asarray(v) for k, v in theta.items()}), float)


def report(cache: Path, name: str, seed: int, by_sample: bool) -> bool:
    """Fit one series, print a row of the table and what the check finds, and say whether it is close enough."""
    case, y = data(cache, name)
    exact, ess, rhat = reference(cache, name, by_sample)
    fit = nmax.fit(case.model, y, inputs=case.inputs, key=jr.key(seed), progress=False)
    draws, exact = flat(case.model, fit.theta(DRAWS, key=jr.key(1))), flat(case.model, exact)
    bias, ratio = bias_in_sd(draws, exact), sd_ratio(draws, exact)
    check = fit.check(known=case.known)
    good = np.abs(bias).max() <= BIAS and ratio.min() >= NARROW and ratio.max() <= WIDE and rhat < 1.01 and ess > 1_000
    row = f"| {name} | {case.length:,} | {fit.seconds:.0f} | {np.abs(bias).max():.2f} | {ratio.min():.2f}–{ratio.max():.2f} "
    print(f"{row}| {check.verdict} | {ess:,.0f} | {rhat:.4f} | {'good' if good else 'NOT GOOD'} |")
    for label, b, r in zip(case.model.parameters.labels, bias, ratio):
        print(f"    {label}: bias {b:+.3f} sd, sd ratio {r:.3f}")
    for line in (*fit.notes, *check.reasons):
        print(f"    {line}", flush=True)
    return bool(good)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--by-sample", action="store_true", help="references by nmax.sample")
    options = parser.parse_args()
    print("| model | T | seconds | worst bias / sd | sd ratios | check | reference: ESS | R-hat | |\n" + "|---" * 9 + "|")
    results = [report(options.cache, name, options.seed, options.by_sample) for name in options.names or CASES]
    sys.exit(0 if all(results) else 1)
