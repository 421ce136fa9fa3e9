"""False alarms: what the catalogue of usual faults says of sound models with their data. It should be silent.

    python benchmarks/catalogue.py SHARED CACHE [NAME ...]

SHARED is the folder that holds `reference/`, CACHE that of `own_models.py`. One line a series: what is said before the fit,
what is found at the posterior, the figures behind it, and the seconds that either takes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import own_models
import references

import nmax
from nmax.checks._before import before
from nmax.checks._catalogue import by_catalogue
from nmax.data import as_table, make_series


def series(shared: Path, cache: Path, name: str) -> tuple[Any, Any, Any]:
    """Model, observations and inputs."""
    if name in references.CASES:
        stored = references.load(shared, name)
        return stored.model, stored.y, None
    case, y = own_models.data(cache, name)
    return case.model, y, case.inputs


def report(shared: Path, cache: Path, name: str) -> int:
    """Fit one series and print what the catalogue says of it; how many findings there were."""
    model, y, inputs = series(shared, cache, name)
    table = as_table(y, inputs)
    begun = time.perf_counter()
    said = before(model, table, make_series(table.y, table.inputs))
    looked = time.perf_counter() - begun
    fit = nmax.fit(model, y, inputs=inputs, key=jr.key(0), progress=False)
    begun = time.perf_counter()
    found, figures = by_catalogue(fit, (), key=jr.key(1))
    shown = ", ".join(f"{what} {value:.2g}" for what, value in figures.items())
    print(f"| {name} | {len(said)} | {len(found)} | {shown} | {looked:.1f} | {time.perf_counter() - begun:.1f} |")
    for finding in (*said, *found):
        print(f"    {finding}")
    jax.clear_caches()
    return len(said) + len(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    print("| series | said before | found after | figures | seconds before | seconds after |\n" + "|---" * 6 + "|")
    names = options.names or [*references.CASES, *own_models.CASES]
    print(f"findings in all: {sum(report(options.shared, options.cache, name) for name in names)}")
