"""Where experiments get their data and near-exact posteriors from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from nmax.experiments._declare import Data
from nmax.models import AbstractModel

BILLS, BILLS_FIRST = "treasury_bill_3m_weekly.txt", 300  # the paper leaves the first 300 weeks out
DATA_VARIABLE, REFERENCE_VARIABLE = "NMAX_DATA", "NMAX_REFERENCE"


def treasury_bills(path: str | Path | None = None) -> np.ndarray:
    """The 1,509 weekly three-month Treasury bill rates of the paper, in per cent, 13 August 1967 to 30 August 1996.

    Args:
        path: a text file with one rate a line, 1,809 of them; by default `treasury_bill_3m_weekly.txt` in the folder that
            the variable `NMAX_DATA` names. FRED has such rates as series WTB3MS; whether they are the very same figures
            was not checked.
    """
    folder = os.environ.get(DATA_VARIABLE)
    file = Path(path) if path is not None else Path(folder or ".") / BILLS
    if not file.exists():
        raise FileNotFoundError(
            f"The Treasury bill rates must lie in a text file, one a line; there is no {file}. Set the variable "
            f"{DATA_VARIABLE} to the folder of {BILLS}, or make it from FRED's weekly series WTB3MS."
        )
    rates = np.loadtxt(file)
    if rates.ndim != 1 or len(rates) != 1_809:
        raise ValueError(f"{file} must hold 1,809 rates, one a line; it has shape {rates.shape}.")
    return rates[BILLS_FIRST:]


def stored(name: str, model: AbstractModel, truth: dict[str, float] | None = None) -> Data | None:
    """A series with its near-exact posterior from the folder that `NMAX_REFERENCE` names, if it is there."""
    folder = os.environ.get(REFERENCE_VARIABLE)
    file = Path(folder or ".") / f"{name}.npz"
    if not folder or not file.exists():
        return None
    with np.load(file, allow_pickle=False) as arrays:
        index = arrays["obs_idx"]
        seen = arrays["r" if "r" in arrays else "y"].reshape(len(index), -1).astype(float)
        y = np.full((len(arrays["x_mean"]), seen.shape[1]), np.nan)
        y[index] = seen
        x = arrays["x_true"].reshape(len(y), -1) if "x_true" in arrays else None
        return Data(model, y, truth, x, arrays["theta"].astype(float))
