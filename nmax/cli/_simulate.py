"""`nmax simulate`: a series from a model."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from nmax._store import write_bytes
from nmax.cli._model_file import model_from, run_file
from nmax.cli._output import InputError, Output, add_json


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "simulate",
        help="draw a series from a model",
        description="Draw a path and observations from a model, and write the observations as CSV.",
        epilog="examples:  nmax simulate model.py --out data.csv  |  nmax simulate model.py --steps 5000 --missing 0.3 "
        "--set noise=0.2 --set level=1 --out data.csv --path path.csv",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.py", help="defines `model`, and `theta`, the values to use")
    parser.add_argument("--out", type=Path, required=True, metavar="DATA.csv", help="the file for the observations")
    parser.add_argument("--path", type=Path, metavar="PATH.csv", help="a file for the states, which a fit does not see")
    parser.add_argument("--steps", type=int, default=1_000, help="steps after the first row (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter in place of `theta`'s")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="observe every Nth row only")
    parser.add_argument(
        "--missing", type=float, default=0.0, metavar="SHARE", help="leave out so many of the rows, at random"
    )
    parser.add_argument(
        "--inputs", type=Path, metavar="FILE", help="exogenous inputs, STEPS + 1 rows, if the model takes some"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate and write."""
    import jax.random as jr

    import nmax

    for option, file in (("--out", options.out), ("--path", options.path)):
        if file is not None and file.suffix.lower() != ".csv":  # under another name it would be read as something else
            raise InputError(f"{option} must be a .csv file, the form that is written; got {file}.")
    out, defined = Output(options), run_file(options.model)
    model, theta = model_from(options.model), _theta(options, defined.get("theta"))
    if not 0 <= options.missing < 1:
        raise InputError(f"--missing must be a share from 0 to below 1; got {options.missing}.")
    inputs = None if options.inputs is None else nmax.read(options.inputs)
    known = {} if inputs is None else {"inputs": inputs.y}
    x, y = nmax.simulate(model, theta, options.steps, key=jr.key(options.seed), observe_every=options.every, **known)
    times = np.arange(len(y)) * getattr(model, "dt", 1.0)
    keep = np.isfinite(y).any(axis=1)
    chance = np.random.default_rng(options.seed).random(len(y))
    keep &= (chance >= options.missing) | (np.arange(len(y)) == 0)  # the grid begins at the first row that is there
    columns = ("y",) if y.shape[1] == 1 else tuple(f"y{k}" for k in range(y.shape[1]))
    extra = () if inputs is None else inputs.columns
    if inputs is not None:
        keep[:], y = True, np.where(keep[:, None], y, np.nan)  # inputs are needed at every row
        y = np.column_stack([y, inputs.y])
    _write(options.out, ("time", *columns, *extra), times[keep], y[keep])
    out.say(f"Wrote {options.out}: {keep.sum():,} of {len(y):,} rows, columns {', '.join((*columns, *extra))}.")
    out.note(data=options.out, rows=int(keep.sum()), columns=columns, theta=theta)
    if options.path is not None:
        _write(options.path, ("time", *model.state_names), times, x)
        out.say(f"Wrote {options.path}: the states.")
        out.note(path=options.path)
    out.say(f"Fit it:  nmax fit {options.model} {options.out} --out run")
    return out.end()


def _theta(options: argparse.Namespace, default: Any) -> dict[str, Any]:
    """The values that the file gives, with those of the command line in their place."""
    if default is not None and not isinstance(default, dict):
        raise InputError(
            f"`theta` in {options.model} must be a dict, parameter name -> value; it is a {type(default).__name__}."
        )
    theta = dict(default or {})
    for entry in options.set:
        name, equals, value = entry.partition("=")
        try:
            theta[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise InputError(f"--set must be NAME=VALUE with a number; got {entry!r}.")
    if not theta:
        raise InputError(
            f"{options.model} must define `theta`, the values to simulate with, or pass --set NAME=VALUE for each."
        )
    return theta


def _write(file: Path, columns: tuple[str, ...], times: np.ndarray, rows: np.ndarray) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for time, row in zip(times, rows, strict=True):
        writer.writerow([f"{time:.10g}", *("" if np.isnan(value) else repr(float(value)) for value in row)])
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, text.getvalue().encode())
