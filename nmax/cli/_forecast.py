"""`nmax forecast`: what comes after the end of the series."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmax.cli._model_file import add_run, model_of_run
from nmax.cli._output import Output, add_json


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "forecast",
        help="forecast from the end of the series",
        description="Forecast observations and states from the end of the series, with the uncertainty of both.",
        epilog="examples:  nmax forecast run --steps 20  |  nmax forecast run --steps 52 --inputs plan.csv --out next.csv",
    )
    add_run(parser)
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

    import nmax
    from nmax.data import read

    out = Output(options)
    posterior = nmax.load(options.folder, model_of_run(options.folder, options.model))
    inputs = None if options.inputs is None else read(options.inputs, columns=list(posterior.table.input_columns)).y
    forecast = posterior.forecast(options.steps, options.draws, inputs=inputs, key=jr.key(options.seed))
    file = options.out or options.folder / "forecast.csv"
    forecast.to_csv(file)
    summary = forecast.summary()
    out.say(summary)
    out.say(f"Wrote {file}: mean, sd and quantiles of every step.")
    out.note(file=file, steps=options.steps, draws=options.draws, notes=forecast.notes)
    return out.end()
