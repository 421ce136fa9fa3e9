"""Fits that `faults.py` does harm to, and those that are left alone, to compare with."""

from __future__ import annotations

from pathlib import Path

import jax.random as jr
import numpy as np
from fault_tools import Place, assert_same, ended
from fault_worker import THETA

import nmax

Row = tuple[str, str, str]  # the fault, what happened, what the user saw
SLOWLY = {"pause": 0.3}
QUIET = ("--quiet", "--no-check")
FIT = ("fit", "model.py", "y.csv", *QUIET, "--guide", "nma", "--steps", "300", "--window", "20", "--draws", "2", "--out")
MODEL = "import nmax\nmodel = nmax.models.ar1()\n"
DEEP = """import hashlib, pathlib, sys, numpyro.distributions as dist, jax.numpy as jnp, nmax
run = pathlib.Path(sys.argv[sys.argv.index("--out") + 1], "run.json")
def transition(x, theta):
    if run.exists():
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    return dist.Normal(theta["level"] + 0.5 * x, theta["noise"]).to_event(1)
model = nmax.StateSpaceModel(
    prior={"level": dist.Normal(5.0, 1.0), "noise": dist.LogNormal(1.0, 0.3)}, initial=lambda theta: jnp.array([10.0]),
    transition=transition, observation=lambda x, theta: dist.Normal(x, 1.0).to_event(1))
"""  # code that does not look up for minutes, as a compiler may


def whole(at: Place) -> Path:
    """A fit that is left alone."""
    if not (at / "whole").exists():
        done = ended(at.worker(at / "whole"))
        assert done.code == 0, done.said
    return at / "whole"


def goes_on(at: Place, run: Path, **options: object) -> str:
    """Go on, and compare with a fit that was left alone; what was said."""
    done = ended(at.worker(run, **options))
    assert done.code == 0, done.said
    assert_same(run, whole(at))
    return done.said


def files(at: Place) -> None:
    (at / "model.py").write_text(MODEL, encoding="utf-8")
    (at / "deep.py").write_text(DEEP, encoding="utf-8")
    y = nmax.simulate(nmax.models.ar1(), THETA, 400, key=jr.key(1)).y
    np.savetxt(at / "y.csv", y, header="y", comments="")


def whole_by_command(at: Place, name: str = "command-whole", command: tuple[str, ...] = FIT) -> Path:
    if not (at / name).exists():
        done = ended(at.nmax(*command, at / name))
        assert done.code == 0, done.said
    return at / name
