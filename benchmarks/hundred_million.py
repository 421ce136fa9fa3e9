"""A series too long for memory: fit and summary from disk, peak memory and time of a step against a short series.

    python benchmarks/hundred_million.py FOLDER [ar1|fhn] [--rows 100000000] [--steps-only]

FOLDER gets the simulated series, in single precision. Each fit runs in a process of its own, whose peak resident memory the
system reports. The time of a step is measured apart, in one process, on both series in turns: of the scores by which the
look-ahead fits, and of training steps of the paper's guide, both at the parameters of the simulation, reading included.
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
from nmax._optimiser import Optimiser
from nmax._scores import LANES, Scores
from nmax._step import CHUNK, advance, init, rows_of_steps
from nmax.data import LongSeries, Windows, statistics_of

THETA = {
    "ar1": {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0},
    "fhn": None,  # the paper's
}
SHORT, PIECE = 10_000, 1_000_000
TURNS, WARM = 25, 3


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
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts = {"seconds": seconds, "peak_mb": peak, "parameters": summary.parameters}
    print(json.dumps(facts | {"elbo": summary.elbo, "rows": fit.series.length + 1, "reason": fit.reason}))


def step_times(name: str, files: list[Path]) -> None:
    """Median milliseconds of a call of the scores, and of a training step, on each series in turns, and their ratios."""
    model: Any = model_of(name)
    theta = model.parameters.unconstrain({k: jnp.float32(v) for k, v in truth(name).items()})
    look, plain = nmax.LookaheadGuide(block=128, buffer=64, layers=0), nmax.MovingAverageGuide()
    calls, steps = [], []
    for file in files:
        place = nmax.source(file)
        series: Any = LongSeries(place, statistics_of(place))
        guide = look.build(model, series, key=jr.key(0), theta=theta)
        calls.append(Scores(guide, series, Windows(series.length, 512)))
        state, training = init(
            plain.build(model, series, key=jr.key(1)), Optimiser(), Windows(series.length, 50), 12, key=jr.key(2)
        )
        steps.append([state, series, training])
    rng, times = np.random.default_rng(0), np.zeros((TURNS, 2, 2))
    for turn in range(TURNS):
        for which in (0, 1) if turn % 2 else (1, 0):
            scores, (state, series, training) = calls[which], steps[which]
            number, once = rng.integers(scores.windows.count, size=LANES), time.perf_counter()
            scores(np.tile(np.asarray(theta), (LANES, 1)), number, key=jr.key(turn))
            times[turn, 0, which], once = time.perf_counter() - once, time.perf_counter()
            rows = rows_of_steps(state, series, training, int(state.count))
            steps[which][0], record = advance(state, rows, training, jnp.int32(CHUNK))
            jax.block_until_ready(record)
            times[turn, 1, which] = (time.perf_counter() - once) / CHUNK
    for what, median in zip(("call of the scores", "training step"), 1e3 * np.median(times[WARM:], axis=0), strict=True):
        print(f"{what}: {median[0]:.2f} ms and {median[1]:.2f} ms, × {median[1] / median[0]:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A hundred million steps.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", choices=list(THETA))
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--steps-only", action="store_true", help="only the time of a step")
    options = parser.parse_args()
    if options.fit:
        return fitted(options.name, options.fit)
    found, files = [], [options.folder / f"{options.name}-{rows}.npy" for rows in (SHORT, options.rows)]
    if options.steps_only:
        return step_times(options.name, files)
    for rows, file in zip((SHORT, options.rows), files, strict=True):
        begun = time.perf_counter()
        simulate(options.name, rows, file)
        print(f"{file}: {file.stat().st_size / 1e6:.0f} MB, simulated in {time.perf_counter() - begun:.0f} s", flush=True)
        command = [sys.executable, __file__, str(options.folder), options.name, "--fit", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"    {found[-1]['seconds']:.0f} s, peak {found[-1]['peak_mb']:.0f} MB; {found[-1]['reason']}", flush=True)
        for (label, row), true in zip(found[-1]["parameters"].items(), truth(options.name).values(), strict=True):
            off = (row["mean"] - true) / row["sd"]
            print(f"    {label}: {row['mean']:.6g} ± {row['sd']:.2g}, truth {true:.6g}, off by {off:.1f} sd", flush=True)
    short, long = found
    print(f"memory {long['peak_mb'] - short['peak_mb']:+.0f} MB", flush=True)
    return step_times(options.name, files)


if __name__ == "__main__":
    main()
