"""`Tables`: several independent series as they came, one `Table` each."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from typing import Any

import jax
import numpy as np

from nmax.data._as_table import as_table
from nmax.data._frames import from_object
from nmax.data._source import Source
from nmax.data._table import Table

SAME = 1e-6  # relative difference up to which two steps are one
ONE = "If they are the rows of one series, pass `numpy.stack(y)`."


@dataclasses.dataclass(frozen=True)
class Tables:
    """Several series of one model, with the columns that they have in common.

    Attributes:
        each: their tables.
    """

    each: tuple[Table, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of y."""
        return self.each[0].columns

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of them, and how their rows were put on the grid; of how many series the same is true."""
        steps = [len(table.y) - 1 for table in self.each]
        between = f"{min(steps):,}" if min(steps) == max(steps) else f"{min(steps):,} to {max(steps):,}"
        said = f"{len(steps)} independent series of {between} steps share θ" if len(steps) > 1 else "a list of one series"
        counted = Counter(note for table in self.each for note in dict.fromkeys(table.notes))
        return (said, *(f"{note} ({times} of {len(steps)} series)" for note, times in counted.items()))

    def joined(self, rows: int) -> Table:
        """Some `rows` rows, the first ones of each series, end to end: to look at their numbers."""
        most = max(rows // len(self.each), 2)
        y = np.concatenate([np.asarray(one.y[:most]) for one in self.each])
        inputs = None
        if self.each[0].inputs is not None:
            inputs = np.concatenate([np.asarray(one.inputs[:most]) for one in self.each])
        return dataclasses.replace(self.each[0], y=y, inputs=inputs, times=None)


def tables_of(y: Any, inputs: Any = None, *, step: float | int | None = None) -> Table | Tables:
    """Data in any form: a `Table` of one series, or `Tables` of a list of several.

    A list or tuple is several series if its entries are arrays, frames, files, tables or sources; a list of numbers, or of
    lists of numbers, is one.

    Args:
        y: as of `as_table`, or a list of such.
        inputs: likewise, for each series; or the names of those columns that are inputs, of every series.
        step: as of `as_table`.
    """
    if isinstance(y, Tables):
        if inputs is not None:
            raise ValueError("`inputs` must come with the tables that they belong to; got `inputs` beside `Tables`.")
        return y
    if not isinstance(y, (list, tuple)) or not any(map(_is_series, y)):
        return as_table(y, inputs, step=step)
    for k, one in enumerate(y):
        if not _is_series(one):
            raise TypeError(
                f"A list of series must hold arrays, frames, files, tables or sources alone; entry {k} is a "
                f"{type(one).__name__}. Pass `numpy.asarray(...)` of it."
            )
    named = isinstance(inputs, (list, tuple)) and len(inputs) > 0 and all(isinstance(name, str) for name in inputs)
    if inputs is not None and not named and (not isinstance(inputs, (list, tuple)) or len(inputs) != len(y)):
        what = f"{len(inputs)} of them" if isinstance(inputs, (list, tuple)) else f"one {type(inputs).__name__}"
        raise ValueError(
            f"`inputs` must be a list with an entry for each of the {len(y)} series, or None; got {what}. Series that have "
            "the same inputs need them once each."
        )
    beside = [inputs] * len(y) if named or inputs is None else inputs
    each = []
    for k, (one, own) in enumerate(zip(y, beside, strict=True)):
        try:
            each.append(as_table(one, own, step=step))
        except (ValueError, TypeError) as error:
            raise type(error)(f"Series {k} of the list: {error}") from error
    _check_alike(each)
    return Tables(tuple(each))


def one_table(y: Any, inputs: Any = None, *, step: float | int | None = None) -> Table:
    """The same where there can be but one series: a list of several is refused."""
    table = tables_of(y, inputs, step=step)
    if isinstance(table, Tables):
        raise ValueError(
            f"`y` must be one series here; got a list of {len(table.each)}. `nmax.fit` takes several that share θ, and "
            f"`fit.one(k)` is the posterior of one of them. {ONE}"
        )
    return table


def _is_series(entry: Any) -> bool:
    """Whether an entry of a list is a series by itself: anything but a number, or a list of numbers."""
    if isinstance(entry, (Table, Source, os.PathLike, str)):
        return True
    if isinstance(entry, (np.ndarray, jax.Array)):
        return entry.ndim > 0
    return not isinstance(entry, (list, tuple, dict)) and from_object(entry) is not None


def _check_alike(each: list[Table]) -> None:
    """Refuse series that cannot be of one model."""
    first = each[0]
    for k, table in enumerate(each):
        for what, here, there in (
            ("columns of `y`", table.columns, first.columns),
            ("inputs", table.input_columns if table.inputs is not None else (), first.input_columns),
        ):
            if len(here) != len(there) or (len(here) > 1 and here != there):
                raise ValueError(
                    f"All series of a list must have the same {what}; series 0 has {_spoken(there)}, series {k} has "
                    f"{_spoken(here)}. Choose them with `nmax.read(..., columns=..., inputs=...)`, NaN standing for what "
                    "one of them lacks."
                )
        if (here := _step(table)) is not None and (there := _step(first)) is not None and abs(here - there) > SAME * there:
            raise ValueError(
                f"All series of a list must have the same step between rows; those of series 0 and {k} differ. Read them "
                "with `nmax.read(..., step=...)`."
            )
        if np.ndim(table.y) == 2 and len(table.y) < 2:
            raise ValueError(f"Every series of a list must have at least two rows, y_0 and y_1; series {k} has one. {ONE}")


def _spoken(names: tuple[str, ...]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"


def _step(table: Table) -> float | None:
    """The distance of two rows in the units of the times, nanoseconds for dates and months for months; None if unknown."""
    times = table.times
    if times is None or len(times) < 2:
        return None
    if times.dtype.kind != "M":
        return float(times[-1] - times[0]) / (len(times) - 1)
    months = np.datetime_data(times.dtype)[0] in "MY"
    count = times.astype("datetime64[M]" if months else "datetime64[ns]").astype(np.int64)
    return float(count[1] - count[0])
