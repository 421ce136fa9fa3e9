"""From times to rows: row i of a grid is time t0 + i·step, and each record goes to the row nearest to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from nmax.data._calendar import month_rows, month_times, months_since_1970
from nmax.data._dates import spoken
from nmax.data._raw import listed
from nmax.data._steps import UNITS, Step

ON_GRID = 0.01  # of a step: up to here a record lies on the grid, further off it is moved there
FAR = 0.25  # of a step: moves beyond this are refused if they are more than a few, and the grid is not a fine one
FEW = 0.05  # of the records
TOGETHER = 0.5  # length of the mean of the records' directions, a step being once round, from which they share a grid
ROUND = 0.05  # of a step: a grid that lies so near to whole multiples of its step is moved to them
FINE = 10  # steps between successive records, typically: then half a step is little
SPARSE, LARGE, LARGEST = 1_000, 10_000_000, 2**31 - 1  # rows for a record, rows in all, rows that can be numbered


@dataclasses.dataclass(frozen=True)
class Times:
    """The times of the records, in their order.

    Attributes:
        values: numbers, or `datetime64[ns]`; none is missing.
        name: what the time column is called.
        where: numbers of records -> where they stand, in words.
        local: for dates, as the clock on the wall showed them.
        precision: to how much of themselves numbers are rounded.
        doubt: a sentence for refusals: why this column was taken for the time, and how to say that it is not.
    """

    values: np.ndarray
    name: str
    where: Callable[[Sequence[int]], str]
    local: np.ndarray | None = None
    precision: float = float(np.finfo(np.float64).eps)
    doubt: str = ""

    @property
    def dates(self) -> bool:
        """Whether they are dates."""
        return self.values.dtype.kind == "M"

    @property
    def counts(self) -> np.ndarray:
        """Something to reckon with: numbers, or whole nanoseconds since 1970."""
        return self.values.astype(np.int64) if self.dates else self.values

    @property
    def rounding(self) -> float:
        """How far off a difference of two times may be by their rounding alone."""
        return 4 * self.precision * float(np.abs(self.values).max()) if self.values.dtype.kind == "f" else 0.0


@dataclasses.dataclass(frozen=True)
class Grid:
    """Evenly spaced times, and where the records stand among them.

    Attributes:
        times: of the rows; `datetime64[M]` for steps of months.
        step: from row to row.
        rows: the row of each record; None where record i is row i.
        clashes: pairs of records that fall on one row.
        notes: what had to be done, in sentences.
    """

    times: np.ndarray
    step: Step
    rows: np.ndarray | None
    clashes: tuple[tuple[int, int], ...]
    notes: tuple[str, ...]


def place(times: Times, step: Step, remedy: str = "pass a finer `step=`") -> Grid:
    r"""Put records on the grid $t_0 + i\,\Delta$, with Δ the step and $t_0$ the first time, or near it.

    Where most records lie beside the grid of the first time but share another one, it is moved by what they are typically
    off: no single record decides. Record k goes to row $\mathrm{round}((t_k - t_0) / \Delta)$; with steps of months, to that
    of the month it lies in.

    Args:
        times: of the records.
        step: Δ.
        remedy: what a user can do about a step that is too coarse.
    """
    _check_size(times, step)
    rows, off, first = _rows(times, step)
    if step.kind != "months" and (phase := _phase(off)):
        rows, off, first = _rows(times, step, _moved(first, phase, step, times))
        first, rows = first + _whole(rows.min(), step, times), rows - rows.min()
    count = int(rows.max()) + 1
    moved = np.abs(off) > ON_GRID
    _check_moves(rows, off, times, step, remedy)
    straight = in_order(rows if step.kind == "months" else times.values)
    clashes = _clashes(rows)
    notes = [] if straight else [f"The records were not in the order of `{times.name}`; they were sorted by it."]
    if moved.any():
        most, typical = np.abs(off[moved]).max(), np.median(np.abs(off[moved]))
        notes.append(
            f"{moved.sum():,} of {len(rows):,} records were moved to the nearest row of the grid, by at most {most:.2g} and "
            f"typically {typical:.2g} of a step."
        )
    grid_times = _times(times, first, step, count)
    if (empty := count - len(rows) + len(clashes)) > 0:
        notes.append(
            f"The grid has {count:,} rows from {spoken(grid_times[0])} to {spoken(grid_times[-1])}, {step} apart; "
            f"{empty:,} of them hold no record."
        )
    straight = straight and count == len(rows) and not clashes
    return Grid(grid_times, step, None if straight else rows, clashes, tuple(notes))


def rows_on(times: Times, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a grid that other times lie on, before its start and past its end too, and how far off, in steps."""
    rows, off, _ = _rows(times, grid.step, grid.times[0])
    return rows, off


def _rows(times: Times, step: Step, first: Any = None) -> tuple[np.ndarray, np.ndarray, Any]:
    """The row of each record, how far it is from there in steps, and the time of row 0."""
    if step.kind == "months":
        assert times.local is not None
        months = months_since_1970(times.local)
        start = int(months.min() if first is None else first.astype("datetime64[M]").astype(np.int64))
        return month_rows(months, start, step), np.zeros(len(months)), start
    counts = times.counts
    start = counts.min() if first is None else first.astype(np.int64) if times.dates else first
    gap, size = counts - start, step.size
    if gap.dtype.kind in "iu" and size == int(size):
        rows = (gap + int(size) // 2) // int(size)
        return rows, (gap - rows * int(size)) / size, start
    off = gap / size
    del gap  # a long series is not held more often than it must be
    rows = np.rint(off)
    off -= rows
    off[np.abs(off) * size <= times.rounding] = 0.0
    return rows.astype(np.int64), off, start


def _phase(off: np.ndarray) -> float:
    """By what share of a step the records are typically off their grid; 0 where most are on it, or no grid suits them."""
    turns = np.exp(2j * np.pi * off)
    middle = turns.mean()
    if np.median(np.abs(off)) <= ON_GRID or abs(middle) < TOGETHER:
        return 0.0
    centre = float(np.angle(middle)) / (2 * np.pi)
    beside = off - centre
    return centre + float(np.median(beside - np.rint(beside)))


def _moved(first: Any, phase: float, step: Step, times: Times) -> Any:
    """The first time of a grid moved by a share of a step, and to a whole multiple of the step where that is near."""
    if times.dates:  # whole nanoseconds
        size = int(step.size)
        moved = int(first) + round(phase * size)
        nearest = (moved + size // 2) // size * size
        return np.datetime64(nearest if abs(moved - nearest) < ROUND * size else moved, "ns")
    moved = first + phase * step.size
    nearest = round(moved / step.size) * step.size
    return np.float64(nearest if abs(moved - nearest) < ROUND * step.size else moved)


def _whole(row: np.integer, step: Step, times: Times) -> Any:
    return int(row) * int(step.size) if times.dates else int(row) * step.size


def _times(times: Times, first: Any, step: Step, count: int) -> np.ndarray:
    if step.kind == "months":
        return month_times(first, step, count)
    grid = first + step.size * np.arange(count)
    return grid.astype("datetime64[ns]") if times.dates else grid


def _check_size(times: Times, step: Step) -> None:
    """Refuse, before anything is allocated, a grid far larger than its data."""
    if step.kind == "months":
        return
    records, counts = len(times.values), times.counts
    count = (float(counts.max()) - float(counts.min())) / step.size + 1
    if (count > SPARSE * records and count > LARGE) or count > LARGEST:
        first, last = spoken(times.values.min()), spoken(times.values.max())
        raise ValueError(
            f"A grid from {first} to {last} with a step of {step} has {count:,.0f} rows for {records:,} records. Is the "
            f"step in the right units? `{times.name}` holds the times.{times.doubt}"
        )


def _check_moves(rows: np.ndarray, off: np.ndarray, times: Times, step: Step, remedy: str) -> None:
    """Refuse moves that matter: many, of a good part of a step, on a grid whose steps are not short for the data."""
    far = np.flatnonzero(np.abs(off) > FAR)
    if len(far) <= FEW * len(off) or (apart := float(np.median(np.diff(np.sort(rows))))) >= FINE:
        return
    worst = far[np.abs(off[far]).argmax()]
    enough = max(apart, 1.0) * step.size / FINE  # where most fall on one row, a tenth of a step is a start
    closest = _closest(times)
    finer = Step(_round_below(closest if enough / SPARSE < closest < enough else enough, times.dates), step.kind)
    raise ValueError(
        f"Times must lie near a grid whose step is {step}, or be many steps apart; {len(far):,} of {len(off):,} records are "
        f"more than a quarter of a step away from their nearest row, {spoken(times.values[worst])} at "
        f"{times.where([int(worst)])} the furthest: {remedy}, {finer} say; a row of the grid is a step of the "
        f"model.{times.doubt}"
    )


def _round_below(size: float | int, dates: bool) -> float | int:
    """The next smaller number, or length of time, with one digit: 0.2 for 0.27, 2 hours for 150 minutes."""
    if dates:
        unit = max((length for length in UNITS.values() if length <= size), default=1)
        return max(int(size // unit), 1) * unit
    digit = 10.0 ** np.floor(np.log10(size))
    return float(f"{digit * np.floor(size / digit):.1g}")


def _clashes(rows: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Pairs of records with the same row, the first of them with each other one."""
    order = np.argsort(rows, kind="stable") if (rows[1:] < rows[:-1]).any() else np.arange(len(rows))
    ordered = rows[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    heads = np.searchsorted(ordered, ordered[again], side="left")
    return tuple((int(order[head]), int(order[k])) for head, k in zip(heads, again, strict=True))


def refuse_clash(times: Times, pairs: Sequence[tuple[int, int]], step: Step, remedy: str) -> NoReturn:
    """Say which records fall on one row of the grid, and which step would tell them apart."""
    one, other = pairs[0]
    spoken_times = listed([spoken(times.values[record]) for record in (one, other)])
    more = f", and {len(pairs) - 1:,} more pairs do" if len(pairs) > 1 else ""
    if times.values[one] == times.values[other]:
        advice = "Keep one of the two, or take their mean"
        advice += "; if a clock was set back, give the times with their zone, or in UTC." if times.dates else "."
    elif step.kind == "months":
        advice = "Pass a step of days or hours if that is how the records are spaced."
    else:
        finest = Step(_round_below(_closest(times), times.dates), step.kind)
        advice = f"A step of {finest} separates even the closest two: {remedy}."
    raise ValueError(
        f"Each row of the grid takes one record; those at {spoken_times} ({times.where([one, other])}) fall on the same "
        f"row{more}, with a step of {step}. {advice}{times.doubt}"
    )


def _closest(times: Times) -> float | int:
    """The smallest difference of two times that is none of rounding."""
    apart = np.diff(np.sort(times.counts))
    return apart[apart > times.rounding].min().item()


def in_order(values: np.ndarray) -> bool:
    """Whether times never go back."""
    return bool((values[1:] >= values[:-1]).all())
