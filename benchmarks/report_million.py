"""A page about a fit to a million steps: seconds to write it, its size, seconds until a browser shows it.

    python benchmarks/report_million.py [--model ar1] [--length T] [--out FOLDER]

Seconds to write are with compilation, the fit's not included. The browser is the Chromium of the machine, without a window.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import jax.random as jr

import nmax

GAP = 40  # rows without an observation
MODELS = {
    "ar1": (nmax.models.ar1, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}),
    "fhn": (
        nmax.models.fitzhugh_nagumo,
        {"rate": 2.0, "current": 1.0, "recovery": 1.5, "noise_v": 0.5, "noise_w": 0.3},
    ),
}


def seconds_to_open(file: Path) -> float:
    """From the request to two frames after the load event, by a fresh page of a browser that runs already."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        begun = time.perf_counter()
        page.goto(file.resolve().as_uri(), wait_until="load")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seconds = time.perf_counter() - begun
        browser.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="ar1")
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("out/report"))
    options = parser.parse_args()
    make, truth = MODELS[options.model]
    model = make()
    _, y = nmax.simulate(model, truth, options.length, key=jr.key(1))
    y[options.length // 3 : options.length // 3 + GAP] = float("nan")
    fit = nmax.fit(model, y, key=jr.key(0), progress=False)
    print(f"{options.model}, T = {options.length:,}: fitted in {fit.seconds:.1f} s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    file = nmax.report.write(fit, options.out / f"{options.model}_{options.length}.html")
    seconds = time.perf_counter() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"written in {seconds:.1f} s; {file.stat().st_size / 1e6:.2f} MB; memory grew by {grown:.0f} MB", flush=True)
    print(f"opens in {seconds_to_open(file):.2f} s", flush=True)


if __name__ == "__main__":
    main()
