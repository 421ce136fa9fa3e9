"""The data arguments of commands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nmax.cli._output import InputError
from nmax.data import Table, Tables

LAID_OUT = {  # files whose own layout says what is observed
    ".npy": "all columns of which are observed (in Python `nmax.source(file, inputs=2)` takes the last two as inputs)",
    ".zarr": "whose array `y` is observed, and whose array `inputs` holds the inputs, if it has one",
}


def add_data(parser: argparse.ArgumentParser) -> None:
    """The data files and how to read them."""
    text = "CSV, Parquet, .npy, .npz or Zarr; several files are independent series that share θ"
    parser.add_argument("data", type=Path, nargs="+", metavar="DATA", help=text)
    parser.add_argument("--columns", type=_names, metavar="A,B", help="columns that were observed; by default all others")
    parser.add_argument("--inputs", type=_names, metavar="U,V", help="columns of exogenous inputs, known at every row")
    parser.add_argument("--time", metavar="NAME", help="the time column; by default one called time or date, say")
    parser.add_argument("--on-disk", action="store_true", help="leave a long .npy, .parquet or .zarr series on the disk")
    parser.add_argument("--step", metavar="STEP", help="the grid's step: a number, or 1D, 15min, 1W, 1M for dates")


def table_from(options: argparse.Namespace, step: float | None = None) -> Table | Tables:
    """Read what the arguments name, one series or several; `step` is the model's own, for numeric times."""
    from nmax.data import tables_of

    each = [_table(options, file, step) for file in options.data]
    return each[0] if len(each) == 1 else tables_of(each)


def _table(options: argparse.Namespace, file: Path, step: float | None) -> Table:
    from nmax.data import as_table, read_for, source

    if options.on_disk:
        if options.time or options.step:
            raise InputError(
                "Rows of a series on the disk must be the steps of the model: --time and --step cannot be used."
            )
        if (options.columns or options.inputs) and file.suffix in LAID_OUT:
            raise InputError(
                f"On the disk --columns and --inputs choose columns of a Parquet file alone; got {file}, "
                f"{LAID_OUT[file.suffix]}. Leave them out, write the columns that are meant to a file, or leave out "
                "--on-disk."
            )
        parts = {"columns": options.columns, "inputs": options.inputs} if file.suffix == ".parquet" else {}
        return as_table(source(file, **parts))
    how = {name: getattr(options, name) for name in ("columns", "inputs", "time")}
    return read_for(step, file, **how, step=None if options.step is None else _step(options.step))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _step(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
