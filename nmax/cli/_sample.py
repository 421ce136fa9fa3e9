"""`nmax sample`: draws of parameters and paths to a file."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from pathlib import Path
from typing import Any

from nmax._lock import locked
from nmax._sample import CHAINS
from nmax.cli._model_file import add_run, model_of_run
from nmax.cli._output import InputError, Output, add_json, add_quiet
from nmax.cli._posterior import add_series, facts_of_series, own_name, posterior_of_run
from nmax.cli._shares import end_with_parent, in_shares, share_from

LONG = "and --summary keeps only mean, sd and quantiles of each step"


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "sample",
        help="draw parameters and paths from a fit, or from the exact posterior",
        description="Draw parameters and paths jointly, and write them by the ArviZ schema: netCDF (.nc) or Zarr (.zarr). "
        "Zarr is written piece by piece, by several processes if asked for; stopped, the same command goes on.",
        epilog="examples:  nmax sample run  |  nmax sample run --paths 50 --out paths.zarr --processes 2  |  "
        "nmax sample run --paths 200 --summary  |  nmax sample run --exact",
    )
    add_run(parser)
    add_series(parser)
    parser.add_argument("--draws", type=int, default=1_000, help="of the parameters (default: %(default)s)")
    parser.add_argument("--paths", type=int, default=100, help="of the whole path, jointly (default: %(default)s)")
    parser.add_argument("--exact", action="store_true", help="by NUTS: exact, for series up to some 10,000 steps")
    text = "by default RUN/samples.nc, RUN/exact.nc, RUN/summary.zarr or, if the series is long, RUN/samples.zarr"
    parser.add_argument("--out", type=Path, metavar="FILE", help=text)
    parser.add_argument("--summary", action="store_true", help="of paths keep only mean, sd and quantiles of each step")
    parser.add_argument("--processes", type=int, default=1, metavar="P", help="that write to Zarr together, on own cores")
    parser.add_argument("--chunk", type=int, default=None, metavar="ROWS", help="that are made and kept together in Zarr")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--share", type=share_from, help=argparse.SUPPRESS)  # of one of several processes, K/N
    add_quiet(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw and write."""
    out, folder = Output(options), options.folder
    if options.share is not None:
        return _write_share(options)
    if options.processes < 1:
        raise InputError(f"--processes must be 1 or more; got {options.processes}.")
    if options.out is not None and options.out.suffix not in (".nc", ".zarr"):
        raise InputError(f"--out must be a .nc or a .zarr file; got {options.out}.")
    several = options.processes > 1 and not options.exact  # they begin at once, before this process has loaded anything
    model = None if several else model_of_run(folder, options.model)
    file = _place(options) if several else _file(options, model, out)
    if file.suffix != ".zarr" and (options.summary or options.processes > 1 or options.chunk):
        raise InputError(f"--summary, --processes and --chunk are for a .zarr; got --out {file}. Pass another --out.")
    if options.exact and (options.summary or options.processes > 1):
        raise InputError("--summary and --processes are for draws from the fit; with --exact leave them out.")
    if options.exact and options.series is not None:
        raise InputError("--exact samples θ and the path of one series; several share θ here. Leave --exact out.")
    if file.exists():
        raise InputError(f"{file} is there already, and is left as it is; choose another --out, or remove it.")
    if file.suffix == ".zarr" and not options.exact:
        _write_zarr(options, file, model)
    else:
        _write_whole(options, file, model, out)
    out.say(f"Wrote {file}.")
    out.note(file=file, draws=options.draws, paths=options.paths, exact=options.exact)
    out.note(processes=options.processes, summary=options.summary)
    return out.end()


def _place(options: argparse.Namespace) -> Path:
    """Where several processes write to: to Zarr."""
    return options.out or own_name(options, "summary.zarr" if options.summary else "samples.zarr")


def _file(options: argparse.Namespace, model: Any, out: Output) -> Path:
    """Where to write; a long series goes to Zarr unless the user says otherwise."""
    from nmax.export import LARGEST

    data = facts_of_series(options)
    rows, numbers = data["rows"], data["columns"] + model.state_size
    paths = min(options.paths, options.draws)
    size, most = 4 * paths * rows * numbers, LARGEST // (4 * rows * numbers)
    if options.out is not None:
        if options.out.suffix == ".nc" and size > LARGEST:
            raise InputError(
                f"A .nc file must hold at most {LARGEST >> 20} MB of paths; {paths} of {rows:,} rows would take "
                f"{size >> 20:,} MB. Pass --out {options.out.with_suffix('.zarr')}, which is written piece by piece"
                + (f", or --paths {most}." if most else ".")
            )
        return options.out
    if options.summary:
        return own_name(options, "summary.zarr")
    name = "exact" if options.exact else "samples"
    if size <= LARGEST and options.processes == 1 and options.chunk is None:
        return own_name(options, f"{name}.nc")
    file = own_name(options, f"{name}.zarr")
    if size > LARGEST:
        out.say(f"{paths} paths of {rows:,} rows are {size >> 20:,} MB: they go to {file}, piece by piece; {LONG}.")
    return file


def _write_whole(options: argparse.Namespace, file: Path, model: Any, out: Output) -> None:
    """Draws of a fit or of chains, all in memory; chains to Zarr, too."""
    import jax.random as jr

    import nmax
    from nmax._store import whole_file

    folder, key = options.folder, jr.key(options.seed)
    posterior: Any = posterior_of_run(options, model)
    if options.exact:
        options.resumable = f"{_command(options, file)} --exact"
        each, chains = max(-(-options.draws // CHAINS), 4), folder / f"chains-{options.draws}-{options.seed}.npz"
        quiet = options.quiet or options.json
        posterior = nmax.sample(
            posterior.model, posterior.table, fit=posterior, key=key, draws=each, checkpoint=chains, progress=not quiet
        )
        out.say(posterior.summary())
    if file.suffix == ".zarr":
        posterior.to_zarr(file, draws=options.draws, paths=options.paths, key=key, **_chunk(options))
        return
    tree = posterior.to_datatree(draws=options.draws, paths=options.paths, key=key)
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as partial:
        tree.to_netcdf(partial, engine="h5netcdf")


def _write_zarr(options: argparse.Namespace, file: Path, model: Any) -> None:
    """Paths of a fit, piece by piece, by this process or by several; one such command a file at a time."""
    from nmax.export import in_the_making

    making = in_the_making(file)
    making.mkdir(parents=True, exist_ok=True)
    options.resumable = _command(options, file)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(making / "command", wait=False))
        except BlockingIOError as error:
            raise InputError(
                f"{file} must be written by one command at a time; another one is at it. Wait, or choose another --out."
            ) from error
        with _bar(options, file) as told:
            if options.processes > 1:
                command = shlex.split(options.resumable.removeprefix("nmax "))
                count = options.processes

                def own(told) -> None:
                    with contextlib.suppress(FileExistsError):  # the others were done before this one had begun
                        _written(options, file, model_of_run(options.folder, options.model), told, share=(0, count))

                in_shares([*command, "--quiet"], count, told, own)
            else:
                _written(options, file, model, told)


def _write_share(options: argparse.Namespace) -> int:
    """As one of several processes: the part of the pieces that is this one's."""
    end_with_parent()
    with contextlib.suppress(FileExistsError):  # the others were done before this one had begun
        _written(options, options.out, model_of_run(options.folder, options.model), lambda: None, share=options.share)
    return 0


def _written(options: argparse.Namespace, file: Path, model: Any, told, share: tuple[int, int] = (0, 1)) -> None:
    import jax.random as jr

    from nmax.export import to_zarr

    posterior = posterior_of_run(options, model)
    asked: Any = {"draws": options.draws, "paths": options.paths, "summary": options.summary, **_chunk(options)}
    to_zarr(posterior, file, share=share, told=told, key=jr.key(options.seed), **asked)


def _chunk(options: argparse.Namespace) -> dict[str, int]:
    return {} if options.chunk is None else {"chunk": options.chunk}


def _command(options: argparse.Namespace, file: Path) -> str:
    """The same again, to go on with."""
    parts = ["nmax", "sample", str(options.folder), "--out", str(file)]
    for name in ("draws", "paths", "processes", "seed", "chunk", "model", "series"):
        if getattr(options, name) is not None:
            parts += [f"--{name}", str(getattr(options, name))]
    return shlex.join([*parts, "--summary"] if options.summary else parts)


@contextlib.contextmanager
def _bar(options: argparse.Namespace, file: Path):
    """A progress bar over the pieces; what it yields brings it up to date."""
    from tqdm import tqdm

    from nmax.export import how_many

    with tqdm(unit="piece", desc="paths", disable=options.quiet or options.json) as bar:

        def told() -> None:
            done, count = how_many(file)
            if count is None and bar.total and file.exists():  # all of them, and in its place
                done, count = bar.total, bar.total
            if count is not None and done > bar.n:
                bar.total = count
                bar.update(done - bar.n)

        yield told
