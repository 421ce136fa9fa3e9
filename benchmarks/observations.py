"""Poisson, Bernoulli and Student t observations: the default fit against NUTS on the whole path.

    python benchmarks/observations.py [poisson bernoulli student]

A stationary autoregression z with parameters (level, persistence, noise) is seen through each distribution. NUTS runs on
(θ, z) with the noise of z as coordinates, four chains one after the other.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import nmax

LENGTH = 400
TRUTH = {"level": 0.5, "persistence": 1.5, "noise": 0.5}
OBSERVATIONS = {
    "poisson": lambda x: dist.Poisson(jnp.exp(x)),
    "bernoulli": lambda x: dist.Bernoulli(logits=2.0 * x),
    "student": lambda x: dist.StudentT(3.0, x, 0.5),
}
PRIOR = {
    "level": dist.Normal(0.0, 1.0),
    "persistence": dist.Normal(1.0, 1.0),  # tanh of it is the autoregression's coefficient
    "noise": dist.LogNormal(-0.5, 0.5),
}


def moved(x, theta):
    return theta["level"] + jnp.tanh(theta["persistence"]) * (x - theta["level"])


def model_of(name: str) -> nmax.StateSpaceModel:
    return nmax.StateSpaceModel(
        prior=PRIOR,
        initial=lambda theta: jnp.array([0.5]),
        transition=lambda x, theta: dist.Normal(moved(x, theta), theta["noise"]).to_event(1),
        observation=lambda x, theta: OBSERVATIONS[name](x).to_event(1),
    )


def nuts(name: str, y: np.ndarray) -> np.ndarray:
    """Draws of unconstrained θ: (level, persistence, log noise)."""

    def target():
        theta = {key: numpyro.sample(key, prior) for key, prior in PRIOR.items()}
        z = numpyro.sample("z", dist.Normal(jnp.zeros(LENGTH), 1.0).to_event(1))

        def step(x, z):
            x = moved(x, theta) + theta["noise"] * z
            return x, x

        _, x = jax.lax.scan(step, jnp.float32(0.5), z)
        numpyro.sample("y", OBSERVATIONS[name](x).to_event(1), obs=jnp.asarray(y[1:, 0], jnp.float32))

    with jax.numpy_rank_promotion("allow"):
        mcmc = MCMC(
            NUTS(target), num_warmup=500, num_samples=1_500, num_chains=2, chain_method="vectorized", progress_bar=False
        )
        mcmc.run(jr.key(1))
        draws = mcmc.get_samples()
    return np.stack([draws["level"], draws["persistence"], np.log(draws["noise"])], axis=1).astype(float)


def main(names: list[str]) -> None:
    for name in names or list(OBSERVATIONS):
        model = model_of(name)
        y = nmax.simulate(model, TRUTH, LENGTH, key=jr.key(5)).y
        begun = time.perf_counter()
        fit = nmax.fit(model, y.astype(float), key=jr.key(0), progress=False)
        fit_seconds = time.perf_counter() - begun
        theta = fit.theta(4_000, key=jr.key(2))
        own = np.stack([theta["level"], theta["persistence"], np.log(theta["noise"])], axis=1).astype(float)
        begun = time.perf_counter()
        exact = nuts(name, y)
        print(
            f"{name:10} fit {fit_seconds:5.1f} s, NUTS {time.perf_counter() - begun:5.1f} s;",
            "bias / sd",
            np.round(nmax.reference.bias_in_sd(own, exact), 3),
            "sd ratio",
            np.round(nmax.reference.sd_ratio(own, exact), 3),
            f"MMD² {nmax.reference.mmd2(own, exact):.4f}; {fit.notes[-1]}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
