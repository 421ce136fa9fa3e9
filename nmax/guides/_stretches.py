"""The rows of a series that stretches of the path depend on: all of them in memory, or just these from the disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax.data import ManySeries, Series
from nmax.guides._base import Guide


def stretches(guide: Guide, series: Any, starts: Any, time: int, which: Any = None) -> Series:
    """What the path of a guide needs of a series on `time` steps from each of `starts` on.

    A series in memory as it is; of one on disk the rows that matter, stacked in the order of `starts`; of several series
    likewise, `which` being the numbers of those that the stretches lie in.
    """
    if isinstance(series, Series):
        return series
    before, rows = guide.rows_around(time)
    first = np.asarray(starts, np.int64) - before
    return series.views(first, rows, np.asarray(which)) if isinstance(series, ManySeries) else series.views(first, rows)


def one_stretch(guide: Guide, series: Any, start: int, time: int) -> Series:
    """The same for one stretch, not stacked."""
    if isinstance(series, Series):
        return series
    before, rows = guide.rows_around(time)
    return series.view(int(start) - before, rows)
