"""`as_table`: what a user passes to `nmax.fit` as data, as a `Table` for the model at hand."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

import numpy as np

from nmax.data._choose import Choice, choose
from nmax.data._clock import step_of, times_of
from nmax.data._dates import spoken
from nmax.data._frames import from_array, numbered
from nmax.data._grid import ON_GRID, Grid, place, rows_on
from nmax.data._raw import Raw, numbers
from nmax.data._read import about_dt, assemble, check_complete, raw_of
from nmax.data._source import Source
from nmax.data._source_rows import SourceRows, source_table
from nmax.data._steps import Step
from nmax.data._table import Table

SAME = 1e-6  # relative difference up to which two steps are one


def as_table(y: Any, inputs: Any = None, *, step: float | int | None = None) -> Table:
    """Data in any form as a `Table`; plain arrays are left as they are.

    Args:
        y: a `Table`, an array, a frame or a path; see `nmax.read`. Or an `nmax.source`, whose rows stay on the disk.
        inputs: exogenous inputs, likewise, with a row for each row of `y` or with times of their own; or a list of the
            names of those columns of `y` that are inputs.
        step: the model's `dt`, if it has one. Where times are numbers, it is the step of the grid; where they are dates, a
            note says what length of time it stands for.
    """
    named = isinstance(inputs, (list, tuple)) and len(inputs) > 0 and all(isinstance(name, str) for name in inputs)
    rows = None
    if isinstance(y, Source):
        if inputs is not None:
            raise ValueError("The inputs of a series on disk must be in the same file; got `inputs` beside it.")
        return source_table(y)
    if isinstance(y, Table):
        table = y if isinstance(y.y, SourceRows) else _for_model(y, step)
        if named:
            raise ValueError("`inputs` must name columns of a file or frame, not of a Table: pass them to `nmax.read`.")
    elif (raw := raw_of(y)) is not None or named:
        table, rows = assemble(from_array(y) if raw is None else raw, inputs=inputs if named else None, dt=step)
    else:
        table = _plain(y)
    if inputs is None or named:
        return table
    if table.inputs is not None:
        raise ValueError(f"Inputs must be given once; the data have {', '.join(table.input_columns)} and `inputs` came too.")
    return _with_inputs(table, rows, inputs)


def _plain(y: Any) -> Table:
    y = _array(y)
    return Table(y, None, numbered("y", y))


def _array(values: Any) -> np.ndarray:
    """As two dimensions, without a copy; what is masked is missing."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    values = np.asarray(values)
    return values[:, None] if values.ndim == 1 else values


def _for_model(table: Table, dt: float | int | None) -> Table:
    """Hold the step of a table against that of the model."""
    if dt is None or table.times is None or len(table.times) < 2:
        return table
    grid = _grid_of(table)
    if grid.step.kind == "number":
        if abs(grid.step.size - dt) > SAME * dt:
            raise ValueError(
                f"Rows must be one time step of the model apart, dt = {dt:g}; those of the table are {grid.step}. Read the "
                f"data with `nmax.read(..., step={dt:g})`, or bring `{table.time_name}` to the model's units."
            )
        return table
    note = about_dt(dt, grid.step)
    return table if note in table.notes else dataclasses.replace(table, notes=(*table.notes, note))


def _grid_of(table: Table) -> Grid:
    """The grid that a table lies on, from its times."""
    times = table.times
    assert times is not None
    if times.dtype.kind != "M":
        return Grid(times, Step(float(times[-1] - times[0]) / (len(times) - 1), "number"), None, (), ())
    months = np.datetime_data(times.dtype)[0] in "MY"
    times = times.astype("datetime64[M]" if months else "datetime64[ns]")
    return Grid(times, Step(int((times[1] - times[0]).astype(np.int64)), "months" if months else "time"), None, (), ())


def _with_inputs(table: Table, rows: np.ndarray | None, inputs: Any) -> Table:
    """Put inputs beside observations: row by row, or by their times."""
    raw = raw_of(inputs)
    if raw is None:
        values = _array(inputs)
        return _beside(table, rows, values, numbered("u", values))
    choice = choose(raw, None, None, None)
    values = np.stack([numbers(raw.columns[name]) for name in choice.columns], axis=1)
    if choice.time is None:
        return _beside(table, rows, values, choice.columns)
    return _by_time(table, raw, choice, values)


def _beside(table: Table, rows: np.ndarray | None, values: np.ndarray, names: tuple[str, ...]) -> Table:
    """Inputs without times: one row a record, or one row a row of the grid."""
    if rows is not None and len(values) == len(rows):
        spread = np.full((len(table.y), *values.shape[1:]), np.nan)
        spread[rows] = values
        values = spread
    joined = dataclasses.replace(table, inputs=values, input_columns=names)
    if rows is not None and len(values) == len(table.y):
        check_complete(joined)
    return joined


def _by_time(table: Table, raw: Raw, choice: Choice, values: np.ndarray) -> Table:
    times, notes = times_of(raw, choice)
    if table.times is None:
        grid = place(times, step_of(times, None, None)[0])
        if grid.rows is not None or len(values) != len(table.y):
            raise ValueError(
                "Inputs with times must fit observations without: one record a row, in order and without gaps; got "
                f"{len(values):,} records on {len(grid.times):,} rows for {len(table.y):,} rows of `y`. Pass `y` with its "
                "times."
            )
        timed = dataclasses.replace(table, times=grid.times, time_name=times.name, notes=(*table.notes, *notes))
        return dataclasses.replace(timed, inputs=values, input_columns=choice.columns)
    grid = _grid_of(table)
    if times.dates != (grid.step.kind != "number"):
        raise ValueError("The times of `y` and those of `inputs` must both be numbers, or both dates; they differ.")
    rows, off = rows_on(times, grid)
    if (wide := np.abs(off) > ON_GRID).any():
        _refuse_off_grid(spoken(times.values[wide.argmax()]), raw.where([int(wide.argmax())]), grid)
    inside = (rows >= 0) & (rows < len(grid.times))
    if len(np.unique(rows[inside])) < inside.sum():
        raise ValueError("Inputs must have one record for each row of the grid; two of them fall on the same row.")
    on_grid = np.full((len(grid.times), values.shape[1]), np.nan)
    on_grid[rows[inside]] = values[inside]
    if not inside.all():
        notes += (f"Records of the inputs left out, as they lie before or after the observations: {(~inside).sum():,}.",)
    joined = dataclasses.replace(table, inputs=on_grid, input_columns=choice.columns, notes=(*table.notes, *notes))
    check_complete(joined)
    return joined


def _refuse_off_grid(time: str, where: str, grid: Grid) -> NoReturn:
    raise ValueError(
        f"Inputs must lie on the grid of the observations, from {spoken(grid.times[0])} on with a step of {grid.step}; the "
        f"record at {time} ({where}) does not. Give the inputs at the times of the grid."
    )
