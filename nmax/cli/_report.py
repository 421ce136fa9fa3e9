"""`nmax report`: one HTML page about a run."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from nmax.cli._model_file import add_run, source_of
from nmax.cli._output import Output, add_json
from nmax.cli._posterior import add_series, own_name, posterior_of_run


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        help="write one HTML page about a fit",
        description="Write one self-contained HTML page: what was fitted, whether to trust it, parameters, path, forecasts.",
        epilog="examples:  nmax report run  |  nmax report run --forecast 50 --out report.html",
    )
    add_run(parser)
    add_series(parser)
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

    from nmax import report

    out = Output(options)
    posterior: Any = posterior_of_run(options)
    file = options.out or own_name(options, "report.html")
    forecast_key, key = jr.split(jr.key(options.seed))
    forecast = None
    if options.forecast and not posterior.series.has_inputs:
        forecast = posterior.forecast(options.forecast, 1_000, key=forecast_key)
    elif options.forecast:
        out.say("no forecast in the report: the model takes inputs, and those to come are not known")
    report.write(posterior, file, forecast=forecast, reproduce=_commands(options), key=key)
    out.say(f"Wrote {file} ({file.stat().st_size / 1e6:.2f} MB). Open it in a browser.")
    out.note(file=file, bytes=file.stat().st_size)
    return out.end()


def _commands(options: argparse.Namespace) -> str:
    """What to type to make the page again."""
    source, again = source_of(options.folder), ["nmax", "report", str(options.folder)]
    data = source.get("data", "DATA")
    fit = ["nmax", "fit", source.get("model", "MODEL.py"), *([data] if isinstance(data, str) else data)]
    fit += ["--out", str(options.folder)]
    for name, value in (source.get("options") or {}).items():
        fit.append("--" + name.replace("_", "-"))
        if value is not True:
            fit.append(",".join(value) if isinstance(value, list) else str(value))
    if options.series is not None:
        again += ["--series", str(options.series)]
    return f"{shlex.join(fit)}\n{shlex.join(again)}"
