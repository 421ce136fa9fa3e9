"""Kill a fit at random moments and resume it, again and again: the weights must be those of a fit that was left alone.

    python benchmarks/kill.py [--kills 50] [--seed 0]

Each attempt runs in a process of its own, which gets SIGKILL after a random time. Compiled programs are kept between the
processes, as JAX can, so that the moments fall into training and not only into compilation.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORKER = """
import sys, jax.random as jr, nmax
guide = nmax.MovingAverageGuide(layers=2, length=5, width=16, depth=1, radius=2, theta_layers=2)
model = nmax.models.ar1()
y = nmax.simulate(model, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 400, key=jr.key(1)).y
nmax.fit(model, y, key=jr.key(2), guide=guide, pretrain=100, steps=4_000, draws=4, window=40, out=sys.argv[1],
         checkpoint_every=0.05, progress=False)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill and resume a fit.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        cache = {"JAX_COMPILATION_CACHE_DIR": f"{folder}/cache", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        environment = {**os.environ, **cache}

        def begin(run: str) -> subprocess.Popen:
            return subprocess.Popen([sys.executable, "-c", WORKER, f"{folder}/{run}"], env=environment)

        begin("warm").wait()  # compiles
        began = time.perf_counter()
        assert begin("whole").wait() == 0
        whole = time.perf_counter() - began
        print(f"left alone: {whole:.1f} s")
        kills, finished, seen = 0, False, []
        while kills < options.kills or not finished:
            process = begin("killed")
            try:
                finished = process.wait(timeout=chance.uniform(0.3, 0.9) * whole if kills < options.kills else None) == 0
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills, finished = kills + 1, False
                states = sorted(Path(folder, "killed", "checkpoints").glob("step-*.npz"))
                seen.append(int(states[-1].stem.split("-")[1]) if states else 0)
                continue
            if finished and kills < options.kills:  # it came to its end: again from the beginning
                compare(folder)
                for file in sorted(Path(folder, "killed").rglob("*"), reverse=True):
                    file.unlink() if file.is_file() else file.rmdir()
        compare(folder)
        print(f"{kills} kills, at steps {seen}: weights equal to those of the fit that was left alone, bit for bit")


def compare(folder: str) -> None:
    with np.load(f"{folder}/whole/fitted.npz") as one, np.load(f"{folder}/killed/fitted.npz") as other:
        names = set(one.files) - {"nmax"}  # the facts hold the seconds
        assert names == set(other.files) - {"nmax"}
        for name in names:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


if __name__ == "__main__":
    main()
