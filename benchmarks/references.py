"""The default fit against the stored posteriors: seconds, bias, widths, MMD², gap to the log evidence, bands of the path.

    python benchmarks/references.py SHARED [--seed N] [ar1_T5000_s11 lv_dense_s21 ...]

SHARED is the folder that holds `reference/`. One line a series; seconds are those of `nmax.fit`, compilation included.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import jax
import jax.random as jr
import numpy as np

import nmax
from nmax.reference import bias_in_sd, mmd2, sd_ratio

CASES = {
    "ar1_T5000_s11": nmax.models.ar1,
    "ar1_T100000_s11": nmax.models.ar1,
    "lv_dense_s21": nmax.models.lotka_volterra,
    "lv_sparse_s21": nmax.models.lotka_volterra,
    "fhn_T2000_s31": nmax.models.fitzhugh_nagumo,
    "sv_tbill_paper": nmax.models.stochastic_volatility,
    "sv_tbill_code": lambda: nmax.models.stochastic_volatility(elasticity=2.0),
}
LOG_EVIDENCE = {  # of y_1..y_T, as the references' README gives them
    "ar1_T5000_s11": -12871.400,
    "ar1_T100000_s11": -258233.601,
    "sv_tbill_paper": 660.715,
    "sv_tbill_code": 663.115,
}
DRAWS, PATHS = 40_000, 400
LONGEST = 5_000  # steps of the path that are compared


class Case(NamedTuple):
    """A model, its data with NaN where nothing was observed, and what is known of the posterior."""

    model: nmax.SDE | nmax.StateSpaceModel
    y: np.ndarray
    theta: np.ndarray
    x_mean: np.ndarray
    x_sd: np.ndarray
    log_evidence: float | None


def load(shared: Path, name: str) -> Case:
    """One stored posterior."""
    file = np.load(shared / "reference" / f"{name}.npz")
    seen = file["r" if "r" in file else "y"].reshape(len(file["obs_idx"]), -1).astype(float)
    y = np.full((len(file["x_mean"]), seen.shape[1]), np.nan)
    y[file["obs_idx"]] = seen
    evidence = LOG_EVIDENCE.get(name)
    if evidence is not None and name.startswith("ar1"):  # the ELBO counts y_0 too
        evidence -= 0.5 * (float(y[0, 0]) - 10) ** 2 + 0.5 * np.log(2 * np.pi)
    return Case(CASES[name](), y, file["theta"].astype(float), file["x_mean"], file["x_sd"], evidence)


def unconstrained(fit: nmax.Posterior, draws: int, *, key) -> np.ndarray:
    """Draws of θ in unconstrained coordinates, in the model's order."""
    return np.asarray(jax.vmap(fit.model.parameters.unconstrain)(fit.theta(draws, key=key)), float)


def report(shared: Path, name: str, seed: int) -> None:
    """Fit one series and print how far the result is from the stored posterior."""
    case = load(shared, name)
    fit = nmax.fit(case.model, case.y, key=jr.key(seed), progress=False)
    draws = unconstrained(fit, DRAWS, key=jr.key(1))[:, : case.theta.shape[1]]
    elbo = fit.elbo(key=jr.key(2))
    gap = "" if case.log_evidence is None else f", gap {case.log_evidence - elbo.mean:.2f}"
    print(f"{name} seed {seed}: {fit.seconds:.1f} s")
    print(f"  bias / sd {_row(bias_in_sd(draws, case.theta))}; sd ratio {_row(sd_ratio(draws, case.theta))}", end="; ")
    print(f"MMD² {mmd2(draws, case.theta):.4f}; ELBO {elbo.mean:.2f} ± {elbo.standard_error:.2f}{gap}")
    stop = min(len(case.y), LONGEST)
    x = fit.path(PATHS, stop=stop, key=jr.key(3))[:, 1:, -case.x_mean.shape[1] :]
    mean, sd = case.x_mean[1:stop], case.x_sd[1:stop]
    off, wide = np.abs(x.mean(axis=0) - mean) / sd, x.std(axis=0) / sd
    chance = np.sqrt(2 / np.pi / PATHS)
    print(f"  path: mean off by {_row(off.mean(axis=0))} of its sd (Monte Carlo alone {chance:.3f}), ", end="")
    print(f"sd ratio {_row(wide.mean(axis=0))}; {'; '.join(fit.notes)}", flush=True)


def _row(values: np.ndarray) -> str:
    return " ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for chosen in arguments.names or CASES:
        report(arguments.shared, chosen, arguments.seed)
