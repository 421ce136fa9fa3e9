"""Milliseconds a training step, compile time and peak memory against the length of the series.

    python benchmarks/step_time.py [--longest 7] [--rounds 9]

Steps of all lengths are timed in one process, in turn, and medians reported, since machines are noisy; memory is the peak
resident size of a process of its own for each length. The share of the machine's matmul peak counts all floating point
operations of a step as XLA does.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import nmax
from nmax._train import CHUNK, advance, init, step
from nmax.data import Windows, make_series


def prepare(length: int):
    """A state that can be advanced on an AR(1)-like series of this length, compiled; and how long compiling took."""
    rng = np.random.default_rng(0)
    series = make_series(10 + 3 * rng.standard_normal(length + 1, dtype=np.float32))
    guide = nmax.MovingAverageGuide().build(nmax.models.ar1(), series, key=jr.key(0))
    state, training = init(guide, nmax.Optimiser(), Windows(length, min(50, length)), 12, key=jr.key(1))
    begun = time.perf_counter()
    state, _ = jax.block_until_ready(advance(state, series, training, jnp.int32(1)))
    return state, series, training, time.perf_counter() - begun


def milliseconds_a_step(state, series, training) -> float:
    begun = time.perf_counter()
    jax.block_until_ready(advance(state, series, training, jnp.int32(CHUNK)))
    return 1e3 * (time.perf_counter() - begun) / CHUNK


def matmul_gigaflops(size: int = 2048, repeats: int = 10) -> float:
    a = jnp.ones((size, size))
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(a))
    best = np.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(product(a))
        best = min(best, time.perf_counter() - begun)
    return 2 * size**3 / best / 1e9


def floating_point_operations(state, series, training) -> float:
    compiled = eqx.filter_jit(step).lower(state, series, training).compile()
    cost = compiled.compiled.cost_analysis()
    return float((cost[0] if isinstance(cost, list) else cost)["flops"])


def peak_memory_in_own_process(length: int) -> float:
    """Mebibytes."""
    done = subprocess.run([sys.executable, __file__, "--memory", str(length)], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longest", type=int, default=7, help="power of ten of the longest series")
    parser.add_argument("--rounds", type=int, default=9, help="timings of each length")
    parser.add_argument("--memory", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        state, series, training, _ = prepare(options.memory)
        milliseconds_a_step(state, series, training)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return

    lengths = [10**n for n in range(3, options.longest + 1)]
    memory = {length: peak_memory_in_own_process(length) for length in lengths}
    ready = {length: prepare(length) for length in lengths}
    times = {length: [] for length in lengths}
    for _ in range(options.rounds):
        for length, (state, series, training, _) in ready.items():
            times[length].append(milliseconds_a_step(state, series, training))
    medians = {length: float(np.median(t)) for length, t in times.items()}

    print(f"{'T':>12}{'ms a step':>12}{'ratio':>8}{'compile s':>12}{'peak MiB':>12}")
    for length in lengths:
        ratio = medians[length] / medians[lengths[0]]
        print(f"{length:>12,}{medians[length]:>12.2f}{ratio:>8.2f}{ready[length][3]:>12.1f}{memory[length]:>12.0f}")
    operations = floating_point_operations(*ready[lengths[0]][:3])
    speed, peak = operations / medians[lengths[0]] / 1e6, matmul_gigaflops()
    print(f"\n{operations / 1e6:.0f} million floating point operations a step: {speed:.1f} GFLOP/s,")
    print(f"{100 * speed / peak:.0f} % of the {peak:.0f} GFLOP/s of a large matrix product")


if __name__ == "__main__":
    main()
