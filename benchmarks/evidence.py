"""The log evidence by weighted draws of θ against the references' own.

    python benchmarks/evidence.py SHARED [NAME ...] [--error 0.05]

SHARED is the folder that holds `reference/`. Seconds of the fit and of the evidence, compilation included.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.random as jr
import numpy as np
from references import LOG_EVIDENCE, load

import nmax

ERRORS = {"ar1_T5000_s11": 0.002, "sv_tbill_paper": 0.010, "sv_tbill_code": 0.009}  # of the references themselves


def main() -> None:
    parser = argparse.ArgumentParser(description="Log evidence against the references.")
    parser.add_argument("shared", type=Path)
    parser.add_argument("names", nargs="*", default=list(ERRORS))
    parser.add_argument("--error", type=float, default=0.05)
    options = parser.parse_args()
    for name in options.names:
        case = load(options.shared, name)
        fit = nmax.fit(case.model, case.y, key=jr.key(0), progress=False)
        found, elbo = fit.evidence(error=options.error, key=jr.key(1)), fit.elbo(key=jr.key(2))
        print(f"{name}: fit {fit.seconds:.1f} s; {found}; ELBO {elbo.mean:.2f} ± {elbo.standard_error:.2f}")
        if name in LOG_EVIDENCE and case.log_evidence is not None:
            off = found.mean - case.log_evidence
            error = float(np.hypot(found.standard_error, ERRORS.get(name, 0.01)))
            print(f"    {off:+.3f} from the reference, {off / error:+.2f} standard errors", flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main()
