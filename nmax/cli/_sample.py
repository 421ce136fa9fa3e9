"""`nmax sample`: draws of parameters and paths to a file."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from nmax.cli._model_file import add_run, model_of_run
from nmax.cli._output import InputError, Output, add_json, add_quiet


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sample",
        help="draw parameters and paths from a fit, or from the exact posterior",
        description="Draw parameters and paths jointly, and write them by the ArviZ schema: netCDF (.nc) or Zarr (.zarr).",
        epilog="examples:  nmax sample run  |  nmax sample run --paths 50 --out paths.zarr  |  nmax sample run --exact",
    )
    add_run(parser)
    parser.add_argument("--draws", type=int, default=1_000, help="of the parameters (default: %(default)s)")
    parser.add_argument("--paths", type=int, default=100, help="of the whole path, jointly (default: %(default)s)")
    parser.add_argument("--exact", action="store_true", help="by NUTS: exact, for series up to some 10,000 steps")
    parser.add_argument("--out", type=Path, metavar="FILE", help="by default RUN/samples.nc, or RUN/exact.nc")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    add_quiet(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw and write."""
    import jax.random as jr

    import nmax

    out, folder, key = Output(options), options.folder, jr.key(options.seed)
    file = options.out or folder / ("exact.nc" if options.exact else "samples.nc")
    if file.suffix not in (".nc", ".zarr"):
        raise InputError(f"--out must be a .nc or a .zarr file; got {file}.")
    if file.exists():
        raise InputError(f"{file} is there already, and is left as it is; choose another --out, or remove it.")
    posterior: Any = nmax.load(folder, model_of_run(folder, options.model))
    if options.exact:
        options.resumable = f"nmax sample {shlex.quote(str(folder))} --exact --draws {options.draws} --seed {options.seed}"
        each, chains = max(options.draws // 4, 4), folder / f"chains-{options.draws}-{options.seed}.npz"
        data = posterior.table
        quiet = options.quiet or options.json
        posterior = nmax.sample(
            posterior.model, data, fit=posterior, key=key, draws=each, checkpoint=chains, progress=not quiet
        )
        out.say(posterior.summary())
    if file.suffix == ".zarr":
        posterior.to_zarr(file, draws=options.draws, paths=options.paths, key=key)
    else:
        posterior.to_datatree(draws=options.draws, paths=options.paths, key=key).to_netcdf(file, engine="h5netcdf")
    out.say(f"Wrote {file}.")
    out.note(file=file, draws=options.draws, paths=options.paths, exact=options.exact)
    return out.end()
