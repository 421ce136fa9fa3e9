"""Near-exact posteriors of the series of `own_models.py`, without nmax: the Kalman filter, or NUTS on the whole path.

    python benchmarks/own_references.py CACHE [NAME ...]

Reads CACHE/NAME.npz and writes CACHE/NAME-posterior.npz: draws of θ by name, the least effective sample size and the
largest R-hat of four chains. In double precision.
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


def two_factor(y, inputs):
    """Noise of the path, whitened by the smoother of log y² taken as Gaussian; its density is corrected exactly."""
    del inputs
    level = numpyro.sample("level", dist.Normal(0.0, 2.0))
    slow = numpyro.sample("slow", dist.Uniform(0.95, 1.0))
    fast = numpyro.sample("fast", dist.Uniform(0.0, 0.95))
    slow_noise = numpyro.sample("slow_noise", dist.LogNormal(-2.0, 1.0))
    fast_noise = numpyro.sample("fast_noise", dist.LogNormal(-1.0, 1.0))
    start = numpyro.sample("start", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    phi, scale = jnp.stack([slow, fast]), jnp.stack([slow_noise, fast_noise])
    first = start * scale / jnp.sqrt(1.0 - phi**2)
    z = numpyro.sample("path", dist.ImproperUniform(dist.constraints.real, (), (len(y) - 1, 2)))
    seen = jnp.log(y[1:, 0] ** 2 + 1e-8) + 1.27 - level
    h, log_det = _smoothed(phi, scale, first, seen, 0.5 * jnp.pi**2, z)
    before = jnp.concatenate([first[None], h[:-1]])
    numpyro.factor("dynamics", dist.Normal(phi * before, scale).log_prob(h).sum() + log_det)
    total = jnp.concatenate([first.sum()[None], h.sum(axis=1)])
    numpyro.sample("y", dist.Normal(0.0, jnp.exp(0.5 * (level + total))).to_event(1), obs=y[:, 0])


def _smoothed(phi, scale, first, seen, variance, z):
    """Backward draws of a two-factor path given `seen` = h1 + h2 + N(0, variance), with the log determinant of z → h."""

    def forwards(carry, value):
        mean, spread = phi * carry[0], phi[:, None] * carry[1] * phi[None] + jnp.diag(scale**2)
        gain = spread.sum(axis=1) / (spread.sum() + variance)
        mean_after = mean + gain * (value - mean.sum())
        spread_after = spread - jnp.outer(gain, spread.sum(axis=0))
        return (mean_after, spread_after), (mean_after, spread_after, mean, spread)

    _, (means, spreads, ahead, ahead_spreads) = lax.scan(forwards, (first, jnp.zeros((2, 2))), seen)

    def root(a):
        low = jnp.sqrt(a[0, 0])
        across = a[1, 0] / low
        return low, across, jnp.sqrt(a[1, 1] - across**2)

    def place(mean, spread, own):
        low, across, high = root(0.5 * (spread + spread.T))
        return mean + jnp.stack([low * own[0], across * own[0] + high * own[1]]), jnp.log(low) + jnp.log(high)

    last, last_det = place(means[-1], spreads[-1], z[-1])

    def backwards(following, row):
        mean, spread, next_mean, next_spread, own = row
        a, b, c = next_spread[0, 0], next_spread[0, 1], next_spread[1, 1]
        inverse = jnp.array([[c, -b], [-b, a]]) / (a * c - b**2)
        gain = (spread * phi[None]) @ inverse
        h, log_det = place(mean + gain @ (following - next_mean), spread - gain @ next_spread @ gain.T, own)
        return h, (h, log_det)

    rows = (means[:-1], spreads[:-1], ahead[1:], ahead_spreads[1:], z[:-1])
    _, (h, log_dets) = lax.scan(backwards, last, rows, reverse=True)
    return jnp.concatenate([h, last[None]]), log_dets.sum() + last_det


CASES = {  # name -> model, its parameters, warm-up and draws of each chain
    "local-level": (local_level, ("start", "step", "noise"), 500, 2_500),
    "logistic": (logistic, ("start", "growth", "capacity", "noise"), 1_000, 4_000),
    "ornstein-uhlenbeck": (ornstein_uhlenbeck, ("rate", "mean", "volatility", "noise", "tails"), 1_000, 6_000),
    "pendulum": (pendulum, ("gravity", "damping", "gain", "shake", "noise"), 1_000, 2_500),
    "two-factor": (two_factor, ("level", "slow", "fast", "slow_noise", "fast_noise", "start"), 600, 2_500),
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
    """Four chains of one posterior."""
    chains = [chain(cache, name, number) for number in range(CHAINS)]
    found = {k: np.stack([one[k] for one in chains]) for k in CASES[name][1]}
    effective = {k: effective_sample_size(v) for k, v in found.items()}
    rhat = {k: split_gelman_rubin(v) for k, v in found.items()}
    least, largest = float(min(map(np.min, effective.values()))), float(max(map(np.max, rhat.values())))
    flat: Any = {k: v.reshape(-1, *v.shape[2:]) for k, v in found.items()}
    np.savez(cache / f"{name}-posterior.npz", ess=least, rhat=largest, **flat)
    for k, draw in flat.items():
        mixed = f"ESS {np.round(effective[k])}, R-hat {np.round(rhat[k], 4)}"
        print(f"{name}, {k}: {mixed}, mean {draw.mean(axis=0)}, sd {draw.std(axis=0)}", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    for chosen in options.names or CASES:
        sample(options.cache, chosen)
