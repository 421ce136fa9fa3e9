"""Twenty fits, half of them bad on purpose, and what `fit.check()` says of each.

    python benchmarks/check.py SHARED [NUMBER ...]

SHARED is the folder that holds `reference/`. Prints a line a case and, at the end, how many bad ones were trusted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from references import load

import nmax

AR1 = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
VOLATILITY = {"trend": 0.0005, "level": -0.2, "reversion": 0.033, "volatility": 0.33, "z0": -6.0}
RIVAL = {"growth": 1.35, "predation": 0.0060, "death": 0.81}  # the fast mode of sparse Lotka–Volterra


def walk(observation, *, extra=None, scale=None):
    """An autoregression around a level, seen in some way."""
    prior = {"level": dist.Normal(0.0, 3.0), "memory": dist.Uniform(-1.0, 1.0), "noise": dist.LogNormal(0.0, 1.0)}

    def transition(x, theta):
        mean = theta["level"] + theta["memory"] * (x - theta["level"])
        return dist.Normal(mean, theta["noise"]).to_event(1)

    return nmax.StateSpaceModel(
        prior=prior | (extra or {}),
        initial=lambda theta: theta["level"][None],
        transition=transition,
        observation=observation,
    )


STUDENT = walk(lambda x, theta: dist.StudentT(4.0, x, 0.5).to_event(1))
COUNTS = walk(lambda x, theta: dist.Poisson(jnp.exp(x)).to_event(1))
NORMAL = walk(lambda x, theta: dist.Normal(x, 0.5).to_event(1))
SPARE = walk(lambda x, theta: dist.Normal(x, 0.5).to_event(1), extra={"spare": dist.Normal(0.0, 1.0)})
SCALED = nmax.StateSpaceModel(  # only the product of gain and noise shows
    prior={"gain": dist.LogNormal(0.0, 1.0), "noise": dist.LogNormal(0.0, 1.0), "memory": dist.Uniform(-1.0, 1.0)},
    initial=lambda theta: jnp.zeros(1),
    transition=lambda x, theta: dist.Normal(theta["memory"] * x, theta["noise"]).to_event(1),
    observation=lambda x, theta: dist.Normal(theta["gain"] * x, 0.3).to_event(1),
)
STEADY = nmax.StateSpaceModel(  # a random walk with steady increments
    prior={"noise": dist.LogNormal(0.0, 1.0)},
    initial=lambda theta: jnp.zeros(1),
    transition=lambda x, theta: dist.Normal(x, theta["noise"]).to_event(1),
    observation=lambda x, theta: dist.Normal(x, 0.1).to_event(1),
)


def simulated(model, theta, length, seed=0, missing=0.0):
    _, y = nmax.simulate(model, theta, length, key=jr.key(seed))
    y[np.random.default_rng(seed).uniform(size=len(y)) < missing] = np.nan
    return model, y


def outliers(seed=0):
    model, y = simulated(NORMAL, {"level": 1.0, "memory": 0.9, "noise": 1.0}, 1_000, seed)
    rng = np.random.default_rng(seed)
    return model, y + (rng.uniform(size=y.shape) < 0.05) * rng.normal(0.0, 8.0, y.shape)


def seasonal(seed=0):
    model, y = simulated(NORMAL, {"level": 1.0, "memory": 0.5, "noise": 0.5}, 1_000, seed)
    return model, y + 3.0 * np.sin(2 * np.pi * np.arange(len(y)) / 12)[:, None]


def bursts(seed=0):
    rng = np.random.default_rng(seed)
    log_scale = np.zeros(1_001)
    for i in range(1, 1_001):
        log_scale[i] = 0.98 * log_scale[i - 1] + 0.3 * rng.standard_normal()
    x = np.cumsum(np.exp(log_scale) * rng.standard_normal(1_001))
    return STEADY, (x - x[0] + 0.1 * rng.standard_normal(1_001))[:, None]


def cases(shared: Path):
    """Number -> (what, whether it is good, the model with its data, options of the fit)."""

    def stored(name):
        case = load(shared, name)
        return case.model, case.y

    ma = nmax.MovingAverageGuide()
    truth = {"level": 1.0, "memory": 0.9, "noise": 0.5}
    return {
        1: ("AR(1), T = 1,000", True, lambda: simulated(nmax.models.ar1(), AR1, 1_000), {}),
        2: ("AR(1), T = 500, paper's guide", True, lambda: simulated(nmax.models.ar1(), AR1, 500, 1), {"guide": ma}),
        3: ("Lotka–Volterra, dense", True, lambda: stored("lv_dense_s21"), {}),
        4: ("Lotka–Volterra, sparse", True, lambda: stored("lv_sparse_s21"), {}),
        5: ("FitzHugh–Nagumo, T = 2,000", True, lambda: stored("fhn_T2000_s31"), {}),
        6: ("stochastic volatility", True, lambda: simulated(nmax.models.stochastic_volatility(), VOLATILITY, 1_500, 7), {}),
        7: ("AR(1), T = 100,000", True, lambda: stored("ar1_T100000_s11"), {}),
        8: ("Student t, 40 % missing", True, lambda: simulated(STUDENT, truth, 1_000, 2, 0.4), {}),
        9: ("Poisson counts", True, lambda: simulated(COUNTS, truth, 500, 3), {}),
        10: ("Gaussian, T = 3,000", True, lambda: simulated(NORMAL, truth, 3_000, 4), {}),
        11: ("too few steps, AR(1)", False, lambda: simulated(nmax.models.ar1(), AR1, 1_000), {"guide": ma, "steps": 300}),
        12: ("too few steps, Lotka–Volterra", False, lambda: stored("lv_dense_s21"), {"guide": ma, "steps": 1_000}),
        13: (
            "buffer of 2, FitzHugh–Nagumo",
            False,
            lambda: stored("fhn_T2000_s31"),
            {"guide": nmax.LookaheadGuide(block=64, buffer=2, layers=0)},
        ),
        14: (
            "buffer of 2, Treasury bills",
            False,
            lambda: stored("sv_tbill_paper"),
            {"guide": nmax.LookaheadGuide(block=64, buffer=2, layers=0)},
        ),
        15: (
            "wrong mode, sparse Lotka–Volterra",
            False,
            lambda: stored("lv_sparse_s21"),
            {"guide": ma, "pretrain_at": RIVAL, "steps": 4_000},
        ),
        16: ("misspecified: outliers", False, outliers, {}),
        17: ("misspecified: seasons", False, seasonal, {}),
        18: ("misspecified: bursts", False, bursts, {}),
        19: (
            "unidentified product",
            False,
            lambda: simulated(SCALED, {"gain": 1.0, "noise": 1.0, "memory": 0.8}, 500, 5),
            {},
        ),
        20: ("parameter that does nothing", False, lambda: simulated(SPARE, truth | {"spare": 0.0}, 500, 6), {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Verdicts on twenty fits, half of them bad.")
    parser.add_argument("shared", type=Path)
    parser.add_argument("numbers", nargs="*", type=int)
    options = parser.parse_args()
    every, wrong = cases(options.shared), []
    for number in options.numbers or every:
        what, good, data, settings = every[number]
        model, y = data()
        fit = nmax.fit(model, y, key=jr.key(number), progress=False, **settings)
        check = fit.check()
        print(f"{number:2} {'good' if good else 'bad '} {what}: {check.verdict} ({fit.seconds:.0f} + {check.seconds:.0f} s)")
        for reason in check.reasons or (str(check.findings[0]),):
            print(f"       {reason}", flush=True)
        if not good and check.verdict == "trust":
            wrong.append(number)
        jax.clear_caches()
    print(f"bad ones trusted: {wrong or 'none'}")


if __name__ == "__main__":
    main()
