"""A series too long for memory: fit and summary from disk, peak memory and time of a step against a short series.

    python benchmarks/hundred_million.py FOLDER [ar1|fhn] [--rows 100000000]

FOLDER gets the simulated series, in single precision. Each fit runs in a process of its own, whose peak resident memory the
system reports.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import nmax

THETA = {
    "ar1": {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0},
    "fhn": None,  # the paper's
}
SHORT, PIECE = 10_000, 1_000_000


def model_of(name: str):
    return nmax.models.ar1() if name == "ar1" else nmax.models.fitzhugh_nagumo()


def truth(name: str) -> dict[str, float]:
    if THETA[name] is not None:
        return THETA[name]
    names = list(model_of(name).parameters.distributions)
    return dict(zip(names, [2.0, 1.0, 1.5, 0.5, 0.3], strict=True))


def simulate(name: str, rows: int, file: Path) -> None:
    """In pieces, so that memory does not grow."""
    if file.exists():
        return
    model: Any = model_of(name)
    theta = {k: jnp.float32(v) for k, v in truth(name).items()}
    out = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(rows, 1))
    state = jnp.asarray(model.initial(theta), jnp.float32)

    @jax.jit
    def piece(state, key):
        def move(x, key):
            a, b = jr.split(key)
            x = model.transition(x, theta).sample(a)
            return x, (x, model.observation(x, theta).sample(b) if model.observation is not None else x[:1])

        state, (x, y) = jax.lax.scan(move, state, jr.split(key, PIECE))
        return state, y

    out[0] = np.asarray(model.observation(state, theta).sample(jr.key(9)))
    for k, start in enumerate(range(1, rows, PIECE)):
        state, y = piece(state, jr.fold_in(jr.key(5), k))
        stop = min(start + PIECE, rows)
        out[start:stop] = np.asarray(y)[: stop - start]
    out.flush()


def fitted(name: str, file: Path) -> None:
    """In a process of its own: fit, summary, and what it took."""
    begun = time.perf_counter()
    fit = nmax.fit(model_of(name), nmax.source(file), key=jr.key(0), progress=False)
    summary = fit.summary()
    seconds = time.perf_counter() - begun
    score_ms = step_ms(fit)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts = {"seconds": seconds, "peak_mb": peak, "step_ms": score_ms, "parameters": summary.parameters}
    print(json.dumps(facts | {"elbo": summary.elbo, "rows": fit.series.length + 1, "reason": fit.reason}))


def step_ms(fit) -> float:
    """Median time of a call of the scores of 24 windows spread over the series, reading included."""
    from nmax._scores import LANES, Scores

    scores, times = Scores(fit.guide, fit.series, fit.windows), []
    theta = np.tile(np.asarray(fit.guide.theta_flow.head.loc), (LANES, 1))
    rng = np.random.default_rng(0)
    for k in range(33):
        number, once = rng.integers(fit.windows.count, size=LANES), time.perf_counter()
        scores(theta, number, key=jr.key(k))
        times.append(time.perf_counter() - once)
    return 1e3 * float(np.median(times[3:])) / fit.windows.width * 100  # for windows of 100 steps


def main() -> None:
    parser = argparse.ArgumentParser(description="A hundred million steps.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", choices=list(THETA))
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        return fitted(options.name, options.fit)
    found = []
    for rows in (SHORT, options.rows):
        file = options.folder / f"{options.name}-{rows}.npy"
        begun = time.perf_counter()
        simulate(options.name, rows, file)
        print(f"{file}: {file.stat().st_size / 1e6:.0f} MB, simulated in {time.perf_counter() - begun:.0f} s", flush=True)
        command = [sys.executable, __file__, str(options.folder), options.name, "--fit", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(
            f"    {found[-1]['seconds']:.0f} s, peak {found[-1]['peak_mb']:.0f} MB, {found[-1]['step_ms']:.2f} ms; ", end=""
        )
        print(found[-1]["reason"], flush=True)
        for (label, row), true in zip(found[-1]["parameters"].items(), truth(options.name).values(), strict=True):
            off = (row["mean"] - true) / row["sd"]
            print(f"    {label}: {row['mean']:.6g} ± {row['sd']:.2g}, truth {true:.6g}, off by {off:.1f} sd", flush=True)
    short, long = found
    print(f"memory {long['peak_mb'] - short['peak_mb']:+.0f} MB, time of a step × {long['step_ms'] / short['step_ms']:.2f}")
    return None


if __name__ == "__main__":
    main()
