"""Scales of a figure: limits that hold everything, round ticks, and labels for them.

The page's script does the same when a figure is zoomed: `niceTicks` there and `round_ticks` here must agree.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nmax.report._numbers import SUPERSCRIPTS, fixed

MARGIN = 0.05  # of the range, above and below


class Tick(NamedTuple):
    """A place on a scale and what is written there."""

    at: float
    label: str


class Scale(NamedTuple):
    """From numbers between `low` and `high` to places between 0 and 1."""

    low: float
    high: float

    def __call__(self, values: Any) -> np.ndarray:
        return (np.asarray(values, np.float64) - self.low) / (self.high - self.low)

    def ticks(self, most: int = 5) -> list[Tick]:
        """Round numbers within it."""
        return round_ticks(self.low, self.high, most)


def limits(*parts: Any, margin: float = MARGIN, floor: float | None = None) -> Scale:
    """A scale that holds all finite numbers of the parts, with some margin; never below `floor`."""
    finite = [part[np.isfinite(part)] for part in (np.asarray(p, np.float64).ravel() for p in parts)]
    finite = [part for part in finite if len(part)]
    if not finite:
        return Scale(0.0, 1.0)
    low, high = min(float(part.min()) for part in finite), max(float(part.max()) for part in finite)
    wide = high - low
    if wide <= 1e-6 * max(abs(low), abs(high)):  # constant, as far as single precision can tell
        wide = 0.2 * max(abs(low), abs(high)) or 1.0
        low, high = low - 0.5 * wide, high + 0.5 * wide
    low, high = low - margin * wide, high + margin * wide
    return Scale(low if floor is None else max(low, floor), high)


def round_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Multiples of 1, 2 or 5 times a power of ten: at most `most` of them, but two at least."""
    step = round_step((high - low) / most)
    places = _multiples(low, high, step)
    while len(places) > most:
        step = round_step(1.5 * step)
        places = _multiples(low, high, step)
    while len(places) < 2:
        step = round_step(0.4 * step)
        places = _multiples(low, high, step)
    top = step * max((abs(k) for k in places), default=0)
    return [Tick(float(k * step), tick_label(float(k * step), step, top)) for k in places]


def _multiples(low: float, high: float, step: float) -> range:
    return range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)


def round_step(least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least * (1 - 1e-9))


def tick_label(value: float, step: float, top: float) -> str:
    """A multiple of `step` with the decimals that it needs, on an axis whose largest label is `top`."""
    if abs(value) < 1e-9 * step:
        return "0"
    if top >= 1e12 or top < 1e-3:
        power = math.floor(math.log10(top) + 1e-9)
        return f"{_plain(value / 10.0**power, step / 10.0**power)}×10{str(power).translate(SUPERSCRIPTS)}"
    for unit, word in ((1e9, "bn"), (1e6, "mn")):
        if top >= unit * (1 - 1e-9) and step >= 0.0099 * unit:
            return _plain(value / unit, step / unit) + word
    return _plain(value, step)


def _plain(value: float, step: float) -> str:
    return fixed(value, max(0, -math.floor(math.log10(step) + 1e-9)))
