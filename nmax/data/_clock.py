"""From a time column to `Times` without gaps, and the step of their grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax.data._choose import Choice
from nmax.data._dates import dates_of
from nmax.data._grid import Times
from nmax.data._infer import infer_step
from nmax.data._raw import Raw, kind, numbers, plain, precision, whole_numbers
from nmax.data._steps import Step, parse_step


def times_of(raw: Raw, choice: Choice) -> tuple[Times, tuple[str, ...]]:
    """The times of all records, and what there is to say about them."""
    name = choice.time
    assert name is not None
    column, notes = raw.columns[name], ()
    label = "time" if name == raw.index == "index" else name
    if kind(column) == "numbers":
        values = numbers(column)
        missing = np.isnan(values)
        times = Times(values, label, raw.where, precision=precision(column), doubt=choice.doubt)
    elif kind(column) in ("dates", "text"):
        dates = dates_of(raw, name)
        missing = np.isnat(dates.values)
        times = Times(dates.values, label, raw.where, dates.local, doubt=choice.doubt)
        if dates.zone is not None:
            notes = (f"The times {'are in' if dates.zone == 'UTC' else f'were converted from {dates.zone} to'} UTC.",)
    else:
        raise ValueError(f"Times must be numbers or dates; `{name}` holds {kind(column)}.{choice.doubt}")
    if missing.any():
        raise ValueError(
            f"Every record must have a time; `{name}` is missing at {raw.where(np.flatnonzero(missing).tolist())}. "
            f"Fill it in, or remove the record.{choice.doubt}"
        )
    if times.dates:
        return times, notes
    _check_numbers(times)
    if whole_numbers(column):
        values = column if isinstance(column, np.ndarray) else plain(column.cast("int64"), np.dtype(np.int64))
        times = Times(np.asarray(values).astype(np.int64), label, raw.where, doubt=choice.doubt)
    return times, notes


def step_of(times: Times, step: Any, dt: float | int | None) -> tuple[Step, str]:
    """The step of the grid, and what a user can do if it is too coarse.

    Args:
        times: of the records.
        step: as the user says, or None.
        dt: of the model, which is the step where times are numbers and the user says nothing.
    """
    if step is not None:
        return parse_step(step, dates=times.dates), "pass a finer `step=`"
    if dt is not None and not times.dates:
        return Step(dt, "number"), "bring the times to the units of the model's `dt`, or take a finer one"
    return infer_step(times), "pass a finer `step=` to `nmax.read`"


def _check_numbers(times: Times) -> None:
    values = times.values
    if len(beyond := np.flatnonzero(np.isinf(values))):
        raise ValueError(f"Times must be finite; `{times.name}` is not at {times.where(beyond.tolist())}.{times.doubt}")
    for digits, form, example in ((100, "%Y%m%d", "20200131 for 2020-01-31"), (1, "%Y%m", "202001 for 2020-01")):
        if _written_as_dates(values, digits):
            raise ValueError(
                f"Times must be numbers that can be counted with; those in `{times.name}` look like dates written without "
                f"hyphens ({form}, {example}), between which differences mean nothing. Write them with hyphens.{times.doubt}"
            )


def _written_as_dates(values: np.ndarray, digits: int) -> bool:
    """Whether all numbers read as year, month and (if `digits` is 100) day, and lie in different months."""
    if not (values == np.rint(values)).all():
        return False
    month = values // digits
    year, month = month // 100, month % 100
    day = values % digits if digits > 1 else np.ones(len(values))
    fits = (year >= 1800) & (year <= 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(fits.all() and len(np.unique(values // digits if digits > 1 else year)) > 1)
