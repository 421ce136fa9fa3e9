"""`nmax report`: one HTML page about a run."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from nmax.cli._model_file import add_run, model_of_run, source_of
from nmax.cli._output import Output, add_json


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        help="write one HTML page about a fit",
        description="Write one self-contained HTML page: what was fitted, whether to trust it, parameters, path, forecasts.",
        epilog="examples:  nmax report run  |  nmax report run --forecast 50 --out report.html",
    )
    add_run(parser)
    parser.add_argument(
        "--forecast", type=int, default=20, metavar="STEPS", help="steps ahead; 0 for none (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="by default RUN/report.html")
    parser.add_argument("--seed", type=int, default=3, help="of the random numbers (default: %(default)s)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    import jax.random as jr

    import nmax
    from nmax import report

    out, folder = Output(options), options.folder
    posterior: Any = nmax.load(folder, model_of_run(folder, options.model))
    file = options.out or folder / "report.html"
    forecast_key, key = jr.split(jr.key(options.seed))
    forecast = None
    if options.forecast and not posterior.series.has_inputs:
        forecast = posterior.forecast(options.forecast, 1_000, key=forecast_key)
    elif options.forecast:
        out.say("no forecast in the report: the model takes inputs, and those to come are not known")
    source, shown = source_of(folder), shlex.quote(str(folder))
    model, data = (shlex.quote(str(source.get(name, name.upper()))) for name in ("model", "data"))
    commands = [f"nmax fit {model} {data} --out {shown}{_reading(source)}", f"nmax report {shown}"]
    report.write(posterior, file, forecast=forecast, reproduce="\n".join(commands), key=key)
    out.say(f"Wrote {file} ({file.stat().st_size / 1e6:.2f} MB). Open it in a browser.")
    out.note(file=file, bytes=file.stat().st_size)
    return out.end()


def _reading(source: dict) -> str:
    options = []
    for name, value in (source.get("read_with") or {}).items():
        if value:
            options.append(f" --{name} {shlex.quote(','.join(value) if isinstance(value, list) else str(value))}")
    return "".join(options)
