"""`read`: a series in whatever form it comes, as a `Table` on the grid of a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmax._check import names_its_options
from nmax.data._choose import choose
from nmax.data._clock import step_of, times_of
from nmax.data._dates import spoken
from nmax.data._files import from_file
from nmax.data._frames import from_array, from_object
from nmax.data._grid import Grid, Times, place, refuse_clash
from nmax.data._raw import Raw, numbers
from nmax.data._table import Table


class Loaded(NamedTuple):
    """A table, and the row of each record that it was made from; None where record i is row i."""

    table: Table
    rows: np.ndarray | None


@names_its_options
def read(source: Any, *, columns: Any = None, inputs: Any = None, time: Any = None, step: Any = None) -> Table:
    r"""Read a series, and put it on an evenly spaced grid.

    **The grid.** Row $i$ is time $t_0 + i\,\Delta$, with $t_0$ the first time and Δ the step. Each record goes to the row
    nearest to it; rows without a record are NaN. A record within 1 % of a step lies on the grid. One further off is moved,
    and a note says how many were and how far. The data are refused if two records that differ fall on one row, or if more
    than 5 % would have to move by more than a quarter of a step while they are typically less than ten steps apart. Records
    out of order are sorted, with a note. Times with a zone are converted to UTC. Calendar months, quarters and years are
    counted, not measured: a record belongs to the one that its date lies in. Inputs must be known on every row; nothing is
    interpolated.

    Args:
        source: a path (`.csv`, `.csv.gz`, `.tsv`, `.tsv.gz`, `.parquet`, `.npy`, `.npz`, `.zarr`), or an array or frame:
            NumPy, pandas, polars, Arrow, xarray.
        columns: names of the observations; by default all columns of numbers that are neither time nor inputs.
        inputs: names of the exogenous inputs.
        time: name of the time column; by default the column or index of dates, if there is just one, or else the column
            called time, date, datetime, timestamp or t. Without one, or with `time=False`, rows are counted.
        step: Δ: a number in the units of the time column, or for dates a text such as "15min", "1D", "1W", "1M", "1Q",
            "1Y", or a timedelta. By default the commonest difference of successive times, if at least 95 % are whole
            multiples of it.

    Returns:
        The table: `y`, `inputs`, the names of their columns, the times of the rows, and `notes` on what was done to them.

    Raises:
        ValueError: for data that cannot be right, with the lines they stand on and what to do.
        FileNotFoundError: if there is no such file.
    """
    return read_for(None, source, columns=columns, inputs=inputs, time=time, step=step)


def read_for(
    dt: float | int | None, source: Any, *, columns: Any = None, inputs: Any = None, time: Any = None, step: Any = None
) -> Table:
    """The same for a model with time step `dt`, which is the grid's where times are numbers and `step` is not given."""
    if isinstance(source, Table):
        raise TypeError("`source` must be a file, an array or a frame; got a Table, which has been read already.")
    return assemble(raw_of(source) or from_array(source), columns, inputs, time, step, dt).table


def raw_of(source: Any) -> Raw | None:
    """The columns of a file or of an object that has named ones; None for plain arrays."""
    return from_file(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else from_object(source)


def assemble(
    raw: Raw, columns: Any = None, inputs: Any = None, time: Any = None, step: Any = None, dt: float | int | None = None
) -> Loaded:
    """Choose columns, make the grid, and put the records on it.

    Args:
        raw: the columns, which are used up.
        columns: as of `read`.
        inputs: as of `read`.
        time: as of `read`.
        step: as of `read`.
        dt: time step of the model that the data are for.
    """
    choice = choose(raw, columns, inputs, time)
    notes = (*raw.notes, *choice.notes)
    if choice.time is None:
        if step is not None:
            raise ValueError("`step` is the distance of times, and there is no time column; name it with `time=`.")
        y, u = (_matrix(raw, names, None, raw.length) for names in (choice.columns, choice.inputs))
        table = Table(y, u if choice.inputs else None, choice.columns, choice.inputs, notes=notes)
        check_complete(table)
        return Loaded(table, None)
    times, about = times_of(raw, choice)
    chosen, remedy = step_of(times, step, dt)
    grid = place(times, chosen, remedy)
    same = _without_clashes(raw, (*choice.columns, *choice.inputs), times, grid, remedy)
    notes += (*about, *grid.notes, *same, *_about_months(grid))
    if dt is not None and times.dates:
        notes += (about_dt(dt, chosen),)
    del raw.columns[choice.time]
    y, u = (_matrix(raw, names, grid.rows, len(grid.times)) for names in (choice.columns, choice.inputs))
    table = Table(y, u if choice.inputs else None, choice.columns, choice.inputs, grid.times, times.name, notes)
    check_complete(table)
    return Loaded(table, grid.rows)


def about_dt(dt: float | int, step: Any) -> str:
    """What a step of the grid is for the model."""
    return f"One step, dt = {dt:g} of the model, is {step}."


def _about_months(grid: Grid) -> tuple[str, ...]:
    return (f"The times were taken as calendar months, and a row is {grid.step}.",) if grid.step.kind == "months" else ()


def _matrix(raw: Raw, names: Sequence[str], rows: np.ndarray | None, count: int) -> np.ndarray:
    """The columns side by side, each at its rows; they are let go of one by one."""
    matrix = np.empty((count, len(names))) if rows is None else np.full((count, len(names)), np.nan)
    for k, name in enumerate(names):
        values = numbers(raw.columns.pop(name))
        if len(beyond := np.flatnonzero(np.isinf(values))):
            raise ValueError(
                f"Values must be finite, or missing; `{name}` is infinite at {raw.where(beyond.tolist())}. Leave them empty."
            )
        matrix[slice(None) if rows is None else rows, k] = values
    return matrix


def _without_clashes(raw: Raw, names: Sequence[str], times: Times, grid: Grid, remedy: str) -> tuple[str, ...]:
    """Refuse different records on one row; the same record twice is one."""
    if not grid.clashes:
        return ()
    one, other = np.array(grid.clashes).T
    same = times.values[one] == times.values[other]
    for name in names:
        values = numbers(raw.columns[name])
        same &= (values[one] == values[other]) | (np.isnan(values[one]) & np.isnan(values[other]))
    if not same.all():
        refuse_clash(times, [pair for pair, alike in zip(grid.clashes, same, strict=True) if not alike], grid.step, remedy)
    return (f"Records left out, as they repeat another one, time and all: {len(same):,}.",)


def check_complete(table: Table) -> None:
    """Inputs act at every step, so they must be known there."""
    if table.inputs is None or not (gaps := np.isnan(table.inputs)).any():
        return
    name = table.input_columns[int(gaps.any(axis=0).argmax())]
    missing = np.flatnonzero(gaps.any(axis=1))
    raise ValueError(
        f"Inputs must be known on every row of the grid; `{name}` is missing on {len(missing):,} of {len(table.y):,} rows, "
        f"first at {spoken(table.index[missing[0]])}. Nothing is interpolated in silence: fill the gaps, or pass `inputs=` "
        "to `nmax.fit` as a frame of its own with a time for every row."
    )
