"""`nmax info`: about a run, or about the installation."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from nmax.cli._model_file import source_of
from nmax.cli._output import Output, add_json


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "info",
        help="about a run, or about the installation",
        description="Say what a run folder holds; without one, versions and devices.",
        epilog="examples:  nmax info  |  nmax info run",
    )
    parser.add_argument("folder", type=Path, nargs="?", metavar="RUN", help="a run folder")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what there is to know."""
    from nmax._claim import FINISHED, in_use
    from nmax._identity import versions
    from nmax._run_folder import CHECK, SUMMARY, read_run
    from nmax._series_file import kept_facts
    from nmax._store import read_json
    from nmax._summary import table as table_lines

    out = Output(options)
    if options.folder is None:
        import jax

        devices = [str(device) for device in jax.devices()]
        for name, version in versions().items():
            out.say(f"{name:10} {version}")
        out.say(f"{'devices':10} {', '.join(devices)}; {os.cpu_count()} cores")
        out.note(versions=versions(), devices=devices, cores=os.cpu_count())
        return out.end()
    folder, run, source = options.folder, read_run(options.folder), source_of(options.folder)
    kept = kept_facts(folder)
    gone = [place for place in (own.get("place") for own in kept) if place is not None and not Path(place).exists()]
    status = run["status"] if run["status"] == FINISHED or in_use(folder) else "stopped"
    out.say(f"{folder}: {status}, begun {run.get('created')}")
    out.say(
        f"model   {source.get('model', 'not said')}: {run['model']['kind']}, parameters {', '.join(run['model']['prior'])}"
    )
    data, columns = source.get("data", "not said"), ", ".join(kept[0]["columns"])
    places = data if isinstance(data, str) else ", ".join(data)
    out.say(f"data    {places}: {run['data']['rows']:,} rows, columns {columns}")
    for place in gone:
        out.say(f"        {place} is gone; put it back, or say where it is by the command that began the run")
    if run["status"] != FINISHED:
        steps = sorted(file.name for file in (folder / "checkpoints").glob("*.npz"))
        kept = f"{len(steps)} checkpoint{'s' * (len(steps) != 1)}"
        out.say(f"        {kept}. " + ("It is under way" if status != "stopped" else f"Go on with:  nmax resume {folder}"))
    if (folder / SUMMARY).exists():
        summary = read_json(folder / SUMMARY)
        out.say("\n".join(["", *table_lines(summary["parameters"])]))
        out.note(summary=summary)
    if (folder / CHECK).exists():
        check = read_json(folder / CHECK)
        out.say(f"\nverdict: {check['verdict']}")
        out.note(check=check)
    files = sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))
    out.say(f"\nfiles   {', '.join(files)}")
    out.note(run=run, under_way=status == run["status"] != FINISHED, source=source, files=files, gone=gone)
    return out.end()
