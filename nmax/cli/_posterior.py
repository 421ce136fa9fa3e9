"""The posterior of a run, or, where that is of several series, of one of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nmax._run_folder import read_run
from nmax.cli._model_file import model_of_run
from nmax.cli._output import InputError


def add_series(parser: argparse.ArgumentParser) -> None:
    """Which series a command about a path is meant for."""
    text = "number of the series, from 0, where the run is of several"
    parser.add_argument("--series", type=int, metavar="K", help=text)


def posterior_of_run(options: argparse.Namespace, model: Any = None) -> Any:
    """An `nmax.Posterior`: that of a run of one series, or of the series that is asked for."""
    import nmax

    facts_of_series(options)  # refuses before anything is loaded
    posterior: Any = nmax.load(options.folder, model_of_run(options.folder, options.model) if model is None else model)
    return posterior if options.series is None else posterior.one(options.series)


def facts_of_series(options: argparse.Namespace) -> dict[str, Any]:
    """What the run folder says of the one series that a command is about."""
    data = read_run(options.folder)["data"]
    count = data.get("series")
    if count is None:
        if options.series is not None:
            raise InputError(f"--series is for a run of several series; {options.folder} is of one. Leave it out.")
        return data
    if options.series is None or not 0 <= options.series < count:
        came = "" if options.series is None else f" --series {options.series} is none of them."
        raise InputError(
            f"{options.folder} is a run of {count} series that share θ, and paths are of one.{came} Pass --series K, "
            f"K from 0 to {count - 1}."
        )
    return data[f"series {options.series}"]


def own_name(options: argparse.Namespace, name: str) -> Path:
    """A file of the run folder by its usual name, with the number of the series where there are several."""
    file = options.folder / name
    return file if options.series is None else file.with_stem(f"{file.stem}-{options.series}")
