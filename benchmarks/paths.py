"""Whole paths of a long series to Zarr by `nmax sample`: steps a second of one process and of two, on two cores.

    python benchmarks/paths.py FOLDER --prepare      # simulates and fits; once
    python benchmarks/paths.py FOLDER [--paths 20] [--rounds 3] [--summary]

One process has both cores, or is pinned to one; two have one each. They take turns, the time is that of the whole command,
start of Python and compilation included, and the figures are medians.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import jax.random as jr
import numpy as np

import nmax

THETA = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}


def prepare(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.py").write_text("import nmax\nmodel = nmax.models.ar1()\n", encoding="utf-8")
    np.save(folder / "y.npy", nmax.simulate(nmax.models.ar1(), THETA, rows - 1, key=jr.key(1)).y.astype(np.float32))
    run(folder, "fit", "model.py", "y.npy", "--out", "run", "--quiet", "--no-check", "--on-disk")


def run(folder: Path, *arguments: str, cores: set[int] | None = None) -> tuple[float, float]:
    """Seconds that a command of `nmax` takes, by the clock and of the processors."""
    mine, begun, used = os.sched_getaffinity(0), time.perf_counter(), cpu()
    try:
        os.sched_setaffinity(0, mine if cores is None else cores)
        subprocess.run([sys.executable, "-m", "nmax", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    finally:
        os.sched_setaffinity(0, mine)
    return time.perf_counter() - begun, cpu() - used


def cpu() -> float:
    """Seconds of the processors that processes begun from here have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="Paths to Zarr, by one process and by two.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_001)
    parser.add_argument("--paths", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.prepare:
        prepare(options.folder, options.rows)
        return
    cores = sorted(os.sched_getaffinity(0))[:2]
    cases = {"one, free": (set(cores), "1"), "one, pinned": ({cores[0]}, "1"), "two": (set(cores), "2")}
    asked = ["sample", "run", "--draws", str(options.paths), "--paths", str(options.paths), "--quiet", "--out", "paths.zarr"]
    asked += ["--summary"] if options.summary else []
    run(options.folder, *asked, "--processes", "2", cores=set(cores))  # compiles
    shutil.rmtree(options.folder / "paths.zarr")
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, (own, count) in cases.items():
            took, used = run(options.folder, *asked, "--processes", count, cores=own)
            seconds[name].append(took)
            files = [file for file in (options.folder / "paths.zarr").rglob("*") if file.is_file()]
            size = sum(file.stat().st_size for file in files)
            shutil.rmtree(options.folder / "paths.zarr")
            print(f"{name:12} {took:6.1f} s, {used:6.1f} s of the processors", flush=True)
    median = {name: statistics.median(times) for name, times in seconds.items()}
    print(f"{options.paths} paths of {options.rows:,} rows, {size / 1e6:.0f} MB")
    for name, took in median.items():
        ratio = f", {took / median['two']:.2f} times as long as two" if name != "two" else ""
        print(f"{name:12} {took:6.1f} s, {options.paths * options.rows / took:12,.0f} steps a second{ratio}")


if __name__ == "__main__":
    main()
