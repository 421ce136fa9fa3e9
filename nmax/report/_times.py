"""The time axis: what a row number means, where ticks go, how an instant is called."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from nmax.data import Table
from nmax.report._calendar import DAY, HOUR, MINUTE, SECOND, date_ticks, said_date
from nmax.report._numbers import count, short
from nmax.report._scale import Tick, round_ticks

KNOTS = 2_000  # of times that are not evenly spaced, months say
STEP, NUMBER, DATE = "step", "number", "date"


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """Row numbers to times: a straight line through knots, two where the times are evenly spaced.

    Attributes:
        kind: of the times: row numbers, other numbers, or dates in milliseconds since 1970.
        name: what the times are called.
        rows: row numbers of the knots.
        values: times there.
    """

    kind: str
    name: str
    rows: np.ndarray
    values: np.ndarray

    @property
    def step(self) -> float:
        """Time between two rows, on average."""
        return float((self.values[-1] - self.values[0]) / (self.rows[-1] - self.rows[0]))

    def value(self, row: float) -> float:
        """The time of a row, which may lie between or beyond them."""
        return _through(row, self.rows, self.values)

    def row(self, value: float) -> float:
        """The row of a time."""
        return _through(value, self.values, self.rows)

    def ticks(self, first: float, last: float, most: int = 5) -> list[Tick]:
        """Ticks between two rows, at rows."""
        low, high = self.value(first), self.value(last)
        found = date_ticks(low, high, most) if self.kind == DATE else round_ticks(low, high, most)
        if self.kind == STEP:
            found = [tick for tick in found if float(tick.at).is_integer()]
        return [Tick(self.row(tick.at), tick.label) for tick in found]

    def said(self, row: float) -> str:
        """A row's time in words: step 12; 3.5; 5 Mar 2001."""
        value = self.value(row)
        if self.kind == DATE:
            return said_date(value, self.step)
        return f"step {count(round(value))}" if self.kind == STEP else short(value, 6)

    @property
    def title(self) -> str:
        """What stands beside the axis; dates speak for themselves."""
        return "" if self.kind == DATE else self.name

    def spacing(self) -> str:
        """Time between two rows, in words."""
        if self.kind != DATE:
            return short(self.step, 4)
        if len(self.rows) > 2:
            return f"about {short(self.step / DAY, 3)} days"
        for unit, word in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
            if self.step >= unit:
                amount = self.step / unit
                return word if amount == 1 else f"{short(amount)} {word}s"
        return f"{short(self.step, 4)} milliseconds"

    def packed(self) -> dict[str, Any]:
        """For the page's script."""
        return {"kind": self.kind, "name": self.title, "rows": self.rows.tolist(), "values": self.values.tolist()}


def time_axis(table: Table, ahead: Any = None) -> TimeAxis:
    """The axis of a series, and of rows ahead of it: its times if it has some, else row numbers."""
    if table.times is None:
        ends = np.array([0.0, len(table.y) - 1.0])
        return TimeAxis(STEP, "step", ends, ends)
    times = np.asarray(table.times)
    if ahead is not None:
        times = np.concatenate([times, np.asarray(ahead).astype(times.dtype)])
    if np.issubdtype(times.dtype, np.datetime64):
        return TimeAxis(DATE, table.time_name, *_knots(_milliseconds(times)))
    return TimeAxis(NUMBER, table.time_name, *_knots(times.astype(np.float64)))


def _milliseconds(times: np.ndarray) -> np.ndarray:
    """Since 1970, with the parts of one that finer times have."""
    whole = times.astype("datetime64[ms]")
    since = whole.astype(np.int64).astype(np.float64)
    if np.datetime_data(times.dtype)[0] not in ("us", "ns"):
        return since
    return since + (times - whole.astype(times.dtype)).astype("timedelta64[ns]").astype(np.float64) / 1e6


def _knots(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, if a straight line between them is right to a hundredth of a step; else knots at up to 2,000 rows."""
    rows = np.arange(len(values), dtype=np.float64)
    line = np.linspace(values[0], values[-1], len(values))
    if np.max(np.abs(values - line)) <= 0.01 * (values[-1] - values[0]) / (len(values) - 1):
        return rows[[0, -1]], values[[0, -1]]
    chosen = np.unique(np.linspace(0, len(values) - 1, min(KNOTS, len(values))).astype(np.int64))
    return rows[chosen], values[chosen]


def _through(at: float, known: np.ndarray, wanted: np.ndarray) -> float:
    """A line through knots, the first and the last piece of it going on beyond them."""
    k = int(np.clip(np.searchsorted(known, at) - 1, 0, len(known) - 2))
    share = (at - known[k]) / (known[k + 1] - known[k])
    return float(wanted[k] + share * (wanted[k + 1] - wanted[k]))
