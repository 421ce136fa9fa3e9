"""The step of a grid that nobody named: the commonest difference of successive times."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax.data._calendar import monthly, months_since_1970
from nmax.data._grid import FEW, ON_GRID, Times, in_order
from nmax.data._steps import UNITS, WORDS, Step

SAME = 1e-6  # relative difference of two differences that are one, but for rounding
PARTS = 10  # into how many parts the smallest difference is cut in search of a step that fits


def infer_step(times: Times) -> Step:
    """The commonest difference of successive times, if almost all differences are whole multiples of it.

    Dates of which there is one a month, on the same day or near its start or end, are counted in months.
    """
    months = times.dates and times.local is not None and monthly(times.local)
    counts = months_since_1970(times.local) if months and times.local is not None else times.counts
    apart = np.diff(counts if in_order(counts) else np.sort(counts))
    if not (apart > times.rounding).all():
        apart = apart[apart > times.rounding]
    kind = "months" if months else "time" if times.dates else "number"
    if not len(apart):
        raise ValueError(
            f"The step of the grid needs two different times at least to be told from; `{times.name}` has one.{times.doubt}"
        )
    whole = apart.dtype.kind in "iu"
    if apart.max() - apart.min() <= 2 * times.rounding:  # regular; a long series is not copied again
        return Step(apart[0].item() if whole else _snapped(float(apart.mean()), len(apart), times.rounding), kind)
    size = _commonest(apart, times.rounding)
    if np.mean(fits := _fits(apart, size)) >= 1 - FEW:
        steps = int(np.rint(apart / size).sum())
        size = apart.sum().item() / steps if fits.all() and not whole else size
        return Step(size if whole else _snapped(size, steps, times.rounding), kind)
    raise ValueError(_what_to_pass(times, apart, size, kind))


def _fits(apart: np.ndarray, size: float | int) -> np.ndarray:
    """Which differences are whole multiples of a step."""
    multiples = apart / size
    return (np.abs(multiples - np.rint(multiples)) <= ON_GRID) & (multiples > 0.5)


def _commonest(apart: np.ndarray, rounding: float) -> float | int:
    ordered = np.sort(apart)
    apart_from_last = np.diff(ordered) > (np.maximum(SAME * ordered[1:], 2 * rounding) if rounding else 0)
    starts = np.concatenate([[0], np.flatnonzero(apart_from_last) + 1])
    sizes = np.diff(np.concatenate([starts, [len(ordered)]]))
    most = int(sizes.argmax())
    group = ordered[starts[most] : starts[most] + sizes[most]]
    return group[0].item() if apart.dtype.kind in "iu" else float(group.mean())


def _snapped(size: float | int, steps: int, rounding: float) -> float:
    """The roundest number that gives the same grid of so many steps: 0.1 for the mean of 0.1 and 0.09999999999999998."""
    allowed = (SAME * size + 2 * rounding) / steps
    return next(near for digits in range(1, 18) if abs((near := float(f"{size:.{digits}g}")) - size) <= allowed)


def _what_to_pass(times: Times, apart: np.ndarray, size: float | int, kind: str) -> str:
    smallest, fit = apart.min().item(), np.mean(_fits(apart, size))
    parts = (smallest / k for k in range(1, PARTS + 1) if kind == "number" or smallest % k == 0)
    better = next((part for part in parts if np.mean(_fits(apart, part)) >= 1 - FEW), None)
    if better is None:
        advice = (
            f"the smallest difference is {_roughly(smallest, kind)}, the median {_roughly(np.median(apart), kind)}; each "
            "record goes to the nearest row, and a step no longer than the smallest difference keeps them apart"
        )
    else:
        advice = f"{Step(_rounded(better, kind), kind).as_argument} would fit"
    return (
        f"The step of the grid cannot be told from `{times.name}`: only {fit:.0%} of the differences of successive times "
        f"are whole multiples of the commonest, {_roughly(size, kind)}. Pass `step=` to `nmax.read`: {advice}.{times.doubt}"
    )


def _rounded(size: float | int, kind: str) -> float | int:
    return float(f"{size:.6g}") if kind == "number" else int(size)


def _roughly(size: Any, kind: str) -> str:
    """In words, to three digits: 1.85 days."""
    if kind != "time":
        return str(Step(_rounded(float(size), kind), kind))
    unit = max((unit for unit in UNITS if UNITS[unit] <= max(size, 1)), key=UNITS.__getitem__)
    count = f"{size / UNITS[unit]:.3g}"
    return f"{count} {WORDS[unit]}{'' if count == '1' else 's'}"
