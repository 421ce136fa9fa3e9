"""What is likely to be wrong with a model and its data, said before any work starts: cheap, whatever the length."""

from __future__ import annotations

import warnings

import numpy as np

from nmax.checks._finding import DO_NOT_TRUST, TRUST, Finding
from nmax.checks._numbers import by_numbers, roughness, some_rows
from nmax.checks._probe import DRAWS, Probe, Use, probe, use_of
from nmax.data import Series, Table
from nmax.models import AbstractModel

UNDEFINED = 0.25  # share of prior draws at which densities may be NaN
FAR_SDS, FAR_RANGES = 20.0, 2.0  # how far y_0 may lie beyond the start: sds of its error, and ranges over the prior
ORDERS = 1e3  # between a scale of the model and one of the data


def before(model: AbstractModel, table: Table, series: Series, firsts: np.ndarray | None = None) -> list[Finding]:
    """All of these findings; none where nothing seems wrong. `firsts` are the first rows of several series."""
    looked, used = probe(model, series), use_of(model, series)
    some = some_rows(table.y)
    firsts = some[:1] if firsts is None else firsts
    findings = [*by_numbers(table, some), _undefined(looked), _unused(model, used), _no_memory(used)]
    for k, name in enumerate(table.columns):
        moves, spread = roughness(some[:, k]), float(np.nanstd(some[:, k])) if np.isfinite(some[:, k]).any() else 0.0
        findings.append(_starts(name, firsts[:, k], looked.first[:, k], looked.first_sd[:, k]))
        if moves > 0:
            narrow = _too_narrow(name, moves, looked.total_sd[:, k])
            findings.append(narrow or _too_exact(name, moves, looked.observation_sd[:, k]))
            findings.append(_too_wide(name, spread, looked.total_sd[:, k]))
    return [finding for finding in findings if finding is not None]


def warn(findings: list[Finding], stacklevel: int) -> None:
    """Say them all."""
    for finding in findings:
        warnings.warn(f"{finding}.", stacklevel=stacklevel + 1)


def _undefined(looked: Probe) -> Finding | None:
    if looked.undefined <= UNDEFINED:
        return None
    text = f"densities of the model are NaN at {looked.undefined * DRAWS:.0f} of {DRAWS} draws of the prior"
    remedy = (
        "Is there a scale whose prior allows negative numbers, or a logarithm or root of what can be negative? Scales need "
        "a positive prior, `dist.LogNormal(0.0, 1.0)` or `dist.HalfNormal(1.0)`"
    )
    return Finding("prior", DO_NOT_TRUST, text, remedy)


def _unused(model: AbstractModel, used: Use) -> Finding | None:
    spare = [name for name in model.parameters.distributions if name not in used.parameters]
    if not spare:
        return None
    text = f"the model does not use {', '.join(spare)}: nothing changes with it, so that its posterior is its prior"
    return Finding("unused parameter", TRUST, text, "Take it out of `prior`, or look for a misspelt name in the functions")


def _no_memory(used: Use) -> Finding | None:
    if used.state:
        return None
    text = "the transition ignores the state before: all states are independent of each other"
    return Finding(
        "transition", TRUST, text, "Is `x` missing in `transition`? If that is meant, no state space model is needed"
    )


def _starts(name: str, firsts: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> Finding | None:
    """The first rows of several series, of which the smallest and the largest lie furthest from the start."""
    if np.isnan(firsts).all():
        return None
    for k in {int(np.nanargmin(firsts)), int(np.nanargmax(firsts))}:
        found = _start(f"{name} of series {k}" if len(firsts) > 1 else name, float(firsts[k]), mean, sd)
        if found is not None:
            return found
    return None


def _start(name: str, y: float, mean: np.ndarray, sd: np.ndarray) -> Finding | None:
    """The start is a function of θ: no noise makes up for one that lies far from the first row."""
    fine = np.isfinite(mean) & np.isfinite(sd)
    if not np.isfinite(y) or not fine.any():
        return None
    low, high, error = mean[fine].min(), mean[fine].max(), float(np.median(sd[fine]))
    beyond = max(y - high, low - y, 0.0)
    if beyond <= FAR_SDS * error + FAR_RANGES * (high - low):
        return None
    where = f"{low:.4g}" if high - low < 1e-6 * max(abs(high), 1e-30) else f"between {low:.4g} and {high:.4g}"
    text = (
        f"`initial` is far from the first observation: it puts column {name} at {where} for {DRAWS} draws of the prior, "
        f"within an error of {error:.2g}, and row 0 holds {y:.4g}"
    )
    remedy = (
        f"Give the start a parameter with a prior around the data, `dist.Normal({y:.3g}, {_spread_of(beyond):.2g})` say, "
        "and return it from `initial`; if the series has other units than the model, scale it"
    )
    return Finding("start", DO_NOT_TRUST, text, remedy)


def _spread_of(beyond: float) -> float:
    return 10.0 ** np.floor(np.log10(beyond))


def _too_exact(name: str, moves: float, sd: np.ndarray) -> Finding | None:
    largest = _largest(sd)
    if largest is None or largest * ORDERS >= moves:
        return None
    text = (
        f"the observation noise of column {name} is at most {largest:.2g} in {DRAWS} draws of the prior, while the data "
        f"move by {moves:.2g} from row to row: as good as none"
    )
    remedy = (
        "If the column shows a state without error, pass `exactly_observed={component: column}` and leave it out of "
        "`observation`; if not, give the scale a prior that reaches the size of the noise"
    )
    return Finding("observation noise", TRUST, text, remedy)


def _too_narrow(name: str, moves: float, sd: np.ndarray) -> Finding | None:
    largest = _largest(sd)
    if largest is None or largest * ORDERS >= moves:
        return None
    text = (
        f"the model is too narrow for column {name}: its forecasts one row ahead have a sd of at most {largest:.2g} in "
        f"{DRAWS} draws of the prior, and the data move by {moves:.2g} from row to row"
    )
    remedy = f"Divide the series by {moves:.1g}, say, or give the noise a prior that reaches the size of its movement"
    return Finding("scale", TRUST, text, remedy)


def _too_wide(name: str, spread: float, sd: np.ndarray) -> Finding | None:
    smallest = float(np.min(sd[np.isfinite(sd)], initial=np.inf))
    if not np.isfinite(smallest) or spread <= 0 or smallest <= ORDERS * spread:
        return None
    text = (
        f"the model is too wide for column {name}: its forecasts one row ahead have a sd of at least {smallest:.2g} in "
        f"{DRAWS} draws of the prior, and all of the data a sd of {spread:.2g}"
    )
    remedy = (
        f"Scale the series, by {spread:.1g} say, or give the noise, in dynamics and observation, a prior that reaches down"
    )
    return Finding("scale", TRUST, text, remedy)


def _largest(sd: np.ndarray) -> float | None:
    known = sd[np.isfinite(sd)]
    return float(known.max()) if len(known) else None
