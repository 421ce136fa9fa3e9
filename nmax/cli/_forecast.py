"""`nmax forecast`: what comes after the end of the series."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

from nmax._store import write_bytes
from nmax.cli._model_file import add_run
from nmax.cli._output import Output, add_json
from nmax.cli._posterior import add_series, own_name, posterior_of_run


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "forecast",
        help="forecast from the end of the series",
        description="Forecast observations and states from the end of the series, with the uncertainty of both.",
        epilog="examples:  nmax forecast run --steps 20  |  nmax forecast run --steps 52 --inputs plan.csv --out next.csv",
    )
    add_run(parser)
    add_series(parser)
    parser.add_argument("--steps", type=int, required=True, help="steps ahead")
    parser.add_argument("--draws", type=int, default=2_000, help="(default: %(default)s)")
    parser.add_argument(
        "--inputs", type=Path, metavar="FILE", help="future inputs, a row a step, where the model takes some"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="quantiles by step; by default RUN/forecast.csv")
    parser.add_argument("--seed", type=int, default=2, help="of the random numbers (default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Forecast, print a table, write all of it."""
    import jax.random as jr

    from nmax.data import read

    out = Output(options)
    posterior = posterior_of_run(options)
    inputs = None if options.inputs is None else read(options.inputs, columns=list(posterior.table.input_columns)).y
    forecast = posterior.forecast(options.steps, options.draws, inputs=inputs, key=jr.key(options.seed))
    file = options.out or own_name(options, "forecast.csv")
    summary = forecast.summary()
    _write(summary, file)
    out.say(summary)
    out.say(f"Wrote {file}: mean, sd and quantiles of every step.")
    out.note(file=file, steps=options.steps, draws=options.draws, notes=forecast.notes)
    return out.end()


def _write(summary: Any, file: Path) -> None:
    """A row a step, with a column a figure of every observed column and state."""
    figures = ("mean", "sd", "5%", "50%", "95%")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([summary.time_name, *(f"{name} {figure}" for name in summary.names for figure in figures)])
    for step, time in enumerate(summary.times):
        row = [time]
        for column in range(len(summary.names)):
            numbers = (summary.mean[step, column], summary.sd[step, column], *summary.quantiles[:, step, column])
            row += [f"{number:.9g}" for number in numbers]
        writer.writerow(row)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, text.getvalue().encode())
