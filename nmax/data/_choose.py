"""Which column is the time, which are observations, and which inputs."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from nmax.data._raw import Raw, kind, listed, numbers, say_why_not_numbers

TIME_NAMES = ("time", "date", "datetime", "timestamp", "t")


@dataclasses.dataclass(frozen=True)
class Choice:
    """Names of columns by what they are for.

    Attributes:
        time: the time, or None where rows are counted.
        columns: observations.
        inputs: exogenous inputs.
        doubt: a sentence for refusals, if the time was found by its name alone.
        notes: what was left out.
    """

    time: str | None
    columns: tuple[str, ...]
    inputs: tuple[str, ...]
    doubt: str
    notes: tuple[str, ...]


def choose(raw: Raw, columns: Any, inputs: Any, time: Any) -> Choice:
    """Tell the columns of a source apart, as the arguments of `nmax.read` say or, where they say nothing, by its rules."""
    wanted = None if columns is None else _named(raw, "columns", columns)
    fed = raw.inputs if inputs is None else _named(raw, "inputs", inputs)
    if both := sorted(set(wanted or ()) & set(fed)):
        raise ValueError(f"A column is an observation or an input; {listed(both)} is in `columns` and in `inputs`.")
    taken = {*(wanted or ()), *fed}
    if time is None or time is False:
        clock, doubt = _find_time(raw, taken)
    else:
        clock, doubt = _named(raw, "time", time)[0], ""
        if clock in taken:
            raise ValueError(f"`time` must be a column of its own; {clock} is in `columns` or `inputs` too.")
    notes = _unused_index(raw, clock)
    if wanted is None:
        wanted, left_out = _all_numbers(raw, {*taken, clock, raw.index})
        notes += left_out
        if len(wanted) > 1 and not raw.ordered:
            notes.append(f"The source keeps no order of its columns; they were taken by name: {listed(wanted)}.")
    for name in (*wanted, *fed):
        if kind(raw.columns[name]) != "numbers":
            what, _ = say_why_not_numbers(raw.columns[name], raw.where)
            raise ValueError(f"Columns must hold numbers; `{name}` does not: {what}.")
    if not wanted:
        raise ValueError(f"There must be a column of numbers to observe; there is none. The columns are: {_catalogue(raw)}.")
    if time is False and clock is not None:
        notes.append(f"`{clock}` was not used, as `time=False` says: rows are counted.")
        clock = None
    return Choice(clock, wanted, fed, doubt, tuple(notes))


def _named(raw: Raw, argument: str, names: Any) -> tuple[str, ...]:
    """What an argument names, if the source has it."""
    given = [names] if isinstance(names, str) or not isinstance(names, Sequence) else list(names)
    chosen = tuple(str(name) for name in given)
    for name in chosen:
        if name not in raw.columns:
            near = difflib.get_close_matches(name, raw.columns, n=1, cutoff=0.5)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise ValueError(
                f"`{argument}` must name columns of the data; there is no `{name}`.{hint} There are: {_catalogue(raw)}."
            )
    if not chosen and argument == "columns":
        raise ValueError(f"`columns` must name at least one column; got none. There are: {_catalogue(raw)}.")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"`{argument}` must name each column once; got {listed(chosen)}.")
    return chosen


def _find_time(raw: Raw, taken: set[str]) -> tuple[str | None, str]:
    """The one column of dates; or the one that is called a time; and what to say if that was a mistake."""
    free = [name for name in raw.columns if name not in taken]
    dates = [name for name in free if kind(raw.columns[name]) == "dates"]
    called = [name for name in free if name.lower() in TIME_NAMES]
    if len(dates) == 1:
        return dates[0], ""
    if dates:
        called = [name for name in dates if name in called]
    if len(called) == 1:
        doubt = (
            f" `{called[0]}` was taken for the time because of its name; if it is none, name all observations in `columns`."
        )
        return called[0], "" if dates else doubt
    if several := called or dates:
        raise ValueError(
            f"More than one column could be the time: {listed(several)}. Say which with `time=`, or `time=False` for none."
        )
    return None, ""


def _all_numbers(raw: Raw, others: set[Any]) -> tuple[tuple[str, ...], list[str]]:
    """The columns of numbers apart from these, and what is to be said about the rest."""
    chosen, left_out = [], []
    for name, column in raw.columns.items():
        if name in others:
            continue
        if kind(column) == "numbers":
            chosen.append(name)
            continue
        what, meant = say_why_not_numbers(column, raw.where)
        if meant:
            raise ValueError(
                f"Columns must hold numbers; `{name}` does not: {what}. To leave it out, name the others in `columns`."
            )
        left_out.append(f"Column `{name}` was left out: {what}.")
    return tuple(chosen), left_out


def _unused_index(raw: Raw, clock: str | None) -> list[str]:
    """A note on an index that says more than the number of the row, and is not used."""
    if raw.index is None or clock is not None:
        return []
    column = raw.columns[raw.index]
    if kind(column) == "numbers" and np.array_equal(numbers(column), np.arange(raw.length)):
        return []
    return [f"The index `{raw.index}` was not used, and rows were counted; pass `time='{raw.index}'` if it holds times."]


def _catalogue(raw: Raw) -> str:
    """All columns with what they hold."""
    return listed([f"{name} ({kind(column)})" for name, column in raw.columns.items()])
