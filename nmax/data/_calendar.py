"""Calendar months, quarters and years, whose lengths differ: steps of a grid that are counted, not measured."""

from __future__ import annotations

import numpy as np

from nmax.data._steps import Step

EDGE = 4  # days at a month's start or end within which a month's record may lie: weekends and holidays move it
ENOUGH = 6  # records from which on that is no chance


def months_since_1970(local: np.ndarray) -> np.ndarray:
    """The number of the month that an instant lies in."""
    return local.astype("datetime64[M]").astype(np.int64)


def monthly(local: np.ndarray) -> bool:
    """Whether dates look like one record a month, quarter or year.

    No two of them lie in one month; all lie on the same day of it, or on its last where it has no such day; or there are six
    at least and all lie among a month's first four days, or all among its last four.
    """
    months = local.astype("datetime64[M]")
    if len(np.unique(months)) < len(months) or len(months) < 2:
        return False
    day = (local.astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
    last = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64) - 1
    if (day == np.minimum(day.max(), last)).all():
        return True
    return bool(len(months) >= ENOUGH and ((day < EDGE).all() or (day > last - EDGE).all()))


def month_rows(months: np.ndarray, first: int, step: Step) -> np.ndarray:
    """The row of each month: that of the quarter or year it lies in, row 0 being that of month `first`.

    Steps that divide a year follow the calendar; others count from the first month.
    """
    size = int(step.size)
    if 12 % size == 0:
        return months // size - first // size
    return (months - first) // size


def month_times(first: int, step: Step, count: int) -> np.ndarray:
    """The months that the rows begin with."""
    size = int(step.size)
    start = first // size * size if 12 % size == 0 else first
    return (start + size * np.arange(count)).astype("datetime64[M]")
