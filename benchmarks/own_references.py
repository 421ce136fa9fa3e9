"""Near-exact posteriors of the series of `own_models.py`, without nmax: the Kalman filter, NUTS on the whole path, or Gibbs.

    python benchmarks/own_references.py CACHE [NAME ...]

Reads CACHE/NAME.npz and writes CACHE/NAME-posterior.npz: draws of θ by name, the least effective sample size and the
largest R-hat of four chains (of 24 for two factors, which have a sampler of their own, `two_factor_reference.py`). In double
precision.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import two_factor_reference
from jax import lax
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

CHAINS = 4


def kalman_log_likelihood(y, start, step, noise):
    """Of a local level whose first state is `start`."""

    def one(carry, value):
        mean, variance, total = carry
        total += dist.Normal(mean, jnp.sqrt(variance + noise**2)).log_prob(value)
        gain = variance / (variance + noise**2)
        return (mean + gain * (value - mean), (1 - gain) * variance + step**2, total), None

    (_, _, total), _ = lax.scan(one, (start, 0.0, 0.0), y)
    return total


def local_level(y, inputs):
    """The path is integrated out exactly."""
    del inputs
    start = numpyro.sample("start", dist.Normal(0.0, 10.0))
    step = numpyro.sample("step", dist.LogNormal(-1.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(0.0, 1.0))
    numpyro.factor("likelihood", kalman_log_likelihood(y[:, 0], start, step, noise))


def logistic(y, inputs):
    """The path itself, in units that make its noise about one."""
    del inputs
    start = numpyro.sample("start", dist.Normal(3.0, 1.0))
    growth = numpyro.sample("growth", dist.LogNormal(-1.0, 1.0))
    capacity = numpyro.sample("capacity", dist.LogNormal(5.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(-2.0, 1.0))
    around = jnp.log(y[1:, 0] + 1.0)
    rest = numpyro.sample("path", dist.ImproperUniform(dist.constraints.real, (), around.shape))
    x = jnp.concatenate([jnp.asarray(start)[None], around + 0.1 * rest])
    mean = x[:-1] + growth * (1.0 - jnp.exp(x[:-1]) / capacity)
    numpyro.factor("dynamics", dist.Normal(mean, noise).log_prob(x[1:]).sum())
    numpyro.sample("y", dist.Poisson(jnp.exp(x)).to_event(1), obs=y[:, 0])


def ornstein_uhlenbeck(y, inputs):
    """The path itself."""
    del inputs
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    volatility = numpyro.sample("volatility", dist.LogNormal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(-1.0, 1.0))
    tails = numpyro.sample("tails", dist.Gamma(2.0, 0.1))
    rest = numpyro.sample("path", dist.ImproperUniform(dist.constraints.real, (), (len(y) - 1,)))
    x = jnp.concatenate([jnp.asarray(mean)[None], jnp.median(y) + 0.3 * rest])  # moved with the mean it mixes badly
    following = dist.Normal(x[:-1] + 0.1 * rate * (mean - x[:-1]), volatility * jnp.sqrt(0.1))
    numpyro.factor("dynamics", following.log_prob(x[1:]).sum())
    numpyro.sample("y", dist.StudentT(tails, x, noise).to_event(1), obs=y[:, 0])


def pendulum(y, inputs):
    """The noise of the path."""
    gravity = numpyro.sample("gravity", dist.LogNormal(1.0, 1.0))
    damping = numpyro.sample("damping", dist.LogNormal(-1.0, 1.0))
    gain = numpyro.sample("gain", dist.LogNormal(0.0, 1.0))
    shake = numpyro.sample("shake", dist.LogNormal(-1.0, 1.0))
    noise = numpyro.sample("noise", dist.LogNormal(-2.0, 1.0))
    z = numpyro.sample("path", dist.Normal(0.0, 1.0).expand([len(y) - 1, 2]).to_event(2))
    dt = 0.05

    def one(x, row):
        torque, own = row
        angle, velocity = x
        force = gain * torque[0] - damping * velocity - gravity * jnp.sin(angle)
        spread = jnp.sqrt(dt) * jnp.stack([jnp.asarray(0.01), shake])
        x = x + dt * jnp.stack([velocity, force]) + spread * own
        return x, x[0]

    _, angle = lax.scan(one, jnp.zeros(2), (inputs[1:], z))
    angle = jnp.concatenate([jnp.zeros(1), angle])
    numpyro.sample("y", dist.Normal(angle, noise).to_event(1), obs=y[:, 0])


CASES = {  # name -> model, its parameters, warm-up and draws of each chain
    "local-level": (local_level, ("start", "step", "noise"), 500, 2_500),
    "logistic": (logistic, ("start", "growth", "capacity", "noise"), 1_000, 4_000),
    "ornstein-uhlenbeck": (ornstein_uhlenbeck, ("rate", "mean", "volatility", "noise", "tails"), 1_000, 6_000),
    "pendulum": (pendulum, ("gravity", "damping", "gain", "shake", "noise"), 1_000, 2_500),
}


def chain(cache: Path, name: str, number: int) -> dict[str, np.ndarray]:
    """One chain of a posterior, kept in a file of its own, so that a run that was stopped goes on."""
    model, names, warmup, draws = CASES[name]
    kept = cache / f"{name}-chain{number}.npz"
    if not kept.exists():
        file, begun = np.load(cache / f"{name}.npz"), time.perf_counter()
        median = numpyro.infer.init_to_median(num_samples=50)
        together: Any = [names]  # θ is correlated, the noise of the path is not
        kernel = NUTS(model, dense_mass=together, init_strategy=median)
        mcmc = MCMC(kernel, num_warmup=warmup, num_samples=draws, progress_bar=False)
        data = jnp.asarray(file["y"]), jnp.asarray(file["inputs"])
        mcmc.run(jax.random.key(number), *data, extra_fields=("diverging", "num_steps"))
        extra, seconds = mcmc.get_extra_fields(), time.perf_counter() - begun
        diverged, steps = int(extra["diverging"].sum()), float(extra["num_steps"].mean())
        print(f"{name}, chain {number}: {seconds:.0f} s, {diverged} divergences, {steps:.0f} leapfrogs a draw", flush=True)
        drawn: Any = {k: np.asarray(v) for k, v in mcmc.get_samples().items() if k in names}
        np.savez(kept, **drawn)
    return dict(np.load(kept))


def sample(cache: Path, name: str) -> None:
    """All chains of one posterior."""
    found, log_weight = chains_of(cache, name)
    effective = {k: effective_sample_size(v) for k, v in found.items()}
    rhat = {k: split_gelman_rubin(v) for k, v in found.items()}
    share = np.mean(np.exp(log_weight)) ** 2 / np.mean(np.exp(2 * log_weight))  # of the draws, what weights leave
    least, largest = share * float(min(map(np.min, effective.values()))), float(max(map(np.max, rhat.values())))
    chosen = resampled(log_weight.reshape(-1))
    flat: Any = {k: v.reshape(-1, *v.shape[2:])[chosen] for k, v in found.items()}
    np.savez(cache / f"{name}-posterior.npz", ess=least, rhat=largest, **flat)
    for k, draw in flat.items():
        mixed = f"ESS {np.round(effective[k])}, R-hat {np.round(rhat[k], 4)}"
        print(f"{name}, {k}: {mixed}, mean {draw.mean(axis=0)}, sd {draw.std(axis=0)}", flush=True)


def chains_of(cache: Path, name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Draws by name, chains first, and to what each is to be weighted."""
    if name == "two-factor":
        found = two_factor_reference.sample(np.load(cache / f"{name}.npz")["y"][:, 0])
        return found, found.pop("log_weight")
    chains = [chain(cache, name, number) for number in range(CHAINS)]
    found = {k: np.stack([one[k] for one in chains]) for k in CASES[name][1]}
    return found, np.zeros(next(iter(found.values())).shape[:2])


def resampled(log_weight: np.ndarray) -> np.ndarray:
    """Numbers of draws, each as often as its weight says: all once where the weights are alike."""
    weight = np.exp(log_weight - log_weight.max())
    steps = (np.arange(len(weight)) + 0.5) / len(weight)
    return np.searchsorted(np.cumsum(weight) / weight.sum(), steps)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    for chosen in options.names or (*CASES, "two-factor"):
        sample(options.cache, chosen)
