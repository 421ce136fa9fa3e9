"""`Step`: how far apart two rows of a grid are, and the ways in which a user may say so."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any

import numpy as np

UNITS = {  # of fixed length, in nanoseconds
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "D": 86_400_000_000_000,
    "W": 604_800_000_000_000,
}
MONTHS = {"M": 1, "Q": 3, "Y": 12}
WORDS = {
    "ns": "nanosecond",
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "min": "minute",
    "h": "hour",
    "D": "day",
    "W": "week",
    "M": "month",
    "Q": "quarter",
    "Y": "year",
}
NAMES = {unit: unit for unit in WORDS} | {word: unit for unit, word in WORDS.items()}
NAMES |= {f"{word}s": unit for unit, word in WORDS.items()} | {"d": "D", "w": "W", "H": "h", "y": "Y", "q": "Q", "S": "s"}
EXAMPLES = "'15min', '1h', '1D', '1W', '1M' (calendar months), '1Q' or '1Y'"


@dataclasses.dataclass(frozen=True)
class Step:
    """The distance of two rows.

    Attributes:
        size: in the units of a time column of numbers; or, for dates, in nanoseconds or in months.
        kind: "number", "time" or "months".
    """

    size: float | int
    kind: str

    def __str__(self) -> str:
        if self.kind == "number":
            return f"{self.size:.12g}"
        count, unit = self._in_words
        return f"{count:,} {WORDS[unit]}{'' if count == 1 else 's'}"

    @property
    def as_argument(self) -> str:
        """As a user would write it."""
        if self.kind == "number":
            return f"step={self.size:.6g}"
        count, unit = self._in_words
        return f"step='{count}{unit}'"

    @property
    def _in_words(self) -> tuple[int, str]:
        """How many of the largest unit that divides it; several weeks are counted in days."""
        sizes = MONTHS if self.kind == "months" else UNITS
        unit = max((unit for unit in sizes if self.size % sizes[unit] == 0), key=sizes.__getitem__)
        unit = "D" if unit == "W" and self.size > UNITS["W"] else unit
        return int(self.size) // sizes[unit], unit


def parse_step(step: Any, *, dates: bool) -> Step:
    """What a user passed as `step`, for times that are dates, or numbers."""
    if not dates:
        if isinstance(step, bool) or not isinstance(step, (int, float, np.number)) or not 0 < float(step) < np.inf:
            raise ValueError(
                f"`step` must be a positive number in the units of the time column, which holds numbers; got {step!r}."
            )
        return Step(step.item() if isinstance(step, np.generic) else step, "number")
    parsed = _parse_text(step) if isinstance(step, str) else _parse_timedelta(step)
    if parsed is None or not parsed.size > 0:
        raise ValueError(
            f"`step` must be a length of time, since the times are dates: {EXAMPLES}, or a numpy.timedelta64; got {step!r}."
        )
    return parsed


def _parse_text(step: str) -> Step | None:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)?\s*([A-Za-z]+)\s*", step)
    if found is None:
        return None
    count, name = float(found[1] or 1), found[2]
    if name == "m":
        raise ValueError(f"`step={step!r}` could mean minutes or months: write 'min' or 'M'.")
    unit = NAMES.get(name, NAMES.get(name.lower()))
    if unit is None:
        return None
    if unit not in MONTHS:
        return Step(round(count * UNITS[unit]), "time")
    return Step(int(count) * MONTHS[unit], "months") if count == int(count) else None


def _parse_timedelta(step: Any) -> Step | None:
    if hasattr(step, "to_timedelta64"):  # pandas, to its last nanosecond
        step = step.to_timedelta64()
    if isinstance(step, datetime.timedelta):
        step = np.timedelta64(step)
    if not isinstance(step, np.timedelta64) or np.isnat(step):
        return None
    unit, count = np.datetime_data(step.dtype)
    if unit in ("M", "Y"):
        return Step(int(step.astype(np.int64)) * count * MONTHS[unit], "months")
    return None if unit == "generic" else Step(int(step.astype("timedelta64[ns]").astype(np.int64)), "time")
