"""The rows of a series that stretches of the path depend on: all of them in memory, or just these from the disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax.data import LongSeries, Series
from nmax.guides._base import Guide


def stretches(guide: Guide, series: Any, starts: Any, time: int) -> Series:
    """What the path of a guide needs of a series on `time` steps from each of `starts` on.

    A series in memory as it is; of one on disk the rows that matter, stacked in the order of `starts`.
    """
    if not isinstance(series, LongSeries):
        return series
    before, rows = guide.rows_around(time)
    return series.views(np.asarray(starts, np.int64) - before, rows)


def one_stretch(guide: Guide, series: Any, start: int, time: int) -> Series:
    """The same for one stretch, not stacked."""
    if not isinstance(series, LongSeries):
        return series
    before, rows = guide.rows_around(time)
    return series.view(int(start) - before, rows)
