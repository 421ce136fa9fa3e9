"""Two processes against one at the same total batch: time of a training step, and whether they go the same way.

    python benchmarks/processes.py [--rounds 3] [--steps 500] [--draws 24]

Each process is held to one core. One process and two take turns, each in processes of its own; printed are the medians over
the rounds, their ratio, and how far the two trajectories of the ELBO and the weights at the end lie apart. FitzHugh–Nagumo,
the paper's guide.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LENGTH, WINDOW, WARM = 20_000, 50, 200  # steps that are not timed: compilation, and reading the first windows


def main() -> None:
    parser = argparse.ArgumentParser(description="Two processes against one.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--draws", type=int, default=24, help="windows a step, of all processes together")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options, *options.worker)
    found = {1: [], 2: []}
    for turn in range(options.rounds):
        for count in (1, 2) if turn % 2 == 0 else (2, 1):
            found[count].append(together(options, count))
            print(f"{count} process{'es' * (count > 1)}: {found[count][-1]['milliseconds']:.1f} ms a step", flush=True)
    one, two = (float(np.median([each["milliseconds"] for each in found[count]])) for count in (1, 2))
    print(f"medians {one:.1f} and {two:.1f} ms a step: {one / two:.2f} times as fast with two")
    alone, pair = found[1][0], found[2][0]
    elbo, other = np.array(alone["elbo"]), np.array(pair["elbo"])
    apart = np.abs(other - elbo) / np.maximum(np.abs(elbo), 1.0)
    print(f"ELBO of a step, largest relative difference: first 100 steps {apart[:100].max():.1e}, all {apart.max():.1e}")
    weights = np.abs(np.array(pair["loc"]) - np.array(alone["loc"]))
    print(f"mean of q(θ) at the end, largest difference: {weights.max():.1e}")
    return None


def together(options: argparse.Namespace, count: int) -> dict:
    """Run so many processes to their end; what the first of them found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        own = ["--steps", str(options.steps), "--draws", str(options.draws), "--worker", place, str(count)]
        commands = [[sys.executable, __file__, *own, str(rank), folder] for rank in range(count)]
        for process in [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]:
            if process.wait():
                raise SystemExit(f"a process ended with {process.returncode}")
        return json.loads(Path(folder, "0.json").read_text())


def work(options: argparse.Namespace, place: str, count: str, rank: str, folder: str) -> None:
    """One of the processes."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(rank)]})
    import jax
    import jax.random as jr

    if int(count) > 1:
        jax.distributed.initialize(place, int(count), int(rank))
    import nmax

    model = nmax.models.fitzhugh_nagumo()
    names = list(model.parameters.distributions)
    truth = dict(zip(names, [2.0, 1.0, 1.5, 0.5, 0.3], strict=True))
    y = nmax.simulate(model, truth, LENGTH, key=jr.key(1)).y
    times: dict[int, float] = {}
    fit = nmax.fit(
        model,
        y,
        key=jr.key(2),
        guide=nmax.MovingAverageGuide(),
        pretrain=50,
        steps=options.steps,
        draws=options.draws,
        window=WINDOW,
        progress=False,
        watch=lambda step, guide: times.setdefault(step, time.perf_counter()),
    )
    seconds = np.diff([at for step, at in times.items() if step >= WARM])
    result = {
        "milliseconds": 1e3 * float(np.median(seconds)) / 100,
        "elbo": fit.history.total.astype(float).tolist(),
        "loc": np.asarray(fit.guide.theta_flow.head.loc, float).tolist(),
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
