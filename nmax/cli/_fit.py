"""`nmax fit` and `nmax resume`: from a model file and a data file to a run folder."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from nmax._claim import FINISHED, LOCK, RUN, Claim
from nmax._store import PARTIAL
from nmax.cli._data import add_data, table_from
from nmax.cli._model_file import COPY, SOURCE, add_run, keep_source, model_from, model_of_run
from nmax.cli._output import InputError, Output, add_json, add_quiet

GUIDES = ("lookahead", "nma")
READING = ("columns", "inputs", "time", "step", "on_disk")  # what to do the fit again takes, and the defaults
FITTING = ("seed", "guide", "steps", "window", "draws")
LONG_SAVE = 86_400
DEFAULTS = {"seed": 0, "guide": "lookahead"}


def add(commands) -> None:
    """Add the two commands to the parser."""
    parser = commands.add_parser(
        "fit",
        help="fit a model to a series: the joint posterior of parameters and path",
        description="Fit the model that a Python file defines to a series. The file is your own code and is run as such.",
        epilog="examples:  nmax fit model.py data.csv --out run  |  nmax fit model.py rates.parquet --time date --columns "
        "rate --step 1W --out run  |  nmax fit model.py data.csv --out run --guide nma --steps 5000  |  "
        "nmax fit model.py first.csv second.csv --out run",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.py", help="a Python file that defines `model`; it is run")
    add_data(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="the folder for checkpoints and results")
    parser.add_argument("--seed", type=int, default=DEFAULTS["seed"], help="of the random numbers (default: %(default)s)")
    parser.add_argument("--guide", choices=GUIDES, default=DEFAULTS["guide"], help="the default guide, or the paper's")
    parser.add_argument("--steps", type=int, help="training steps; by default as many as are needed")
    parser.add_argument("--window", type=int, help="steps of the series that a training step sees at once")
    parser.add_argument("--draws", type=int, help="windows a training step")
    _add_how(parser)
    parser.set_defaults(run=run)

    parser = commands.add_parser(
        "resume",
        help="go on with a fit that was stopped",
        description="Go on with a fit from its last checkpoint, to the same end as if it had never been stopped.",
        epilog="example:  nmax resume run",
    )
    add_run(parser)
    _add_how(parser)
    parser.set_defaults(run=resume)


def _add_how(parser: argparse.ArgumentParser) -> None:
    together = parser.add_argument_group(
        "several processes", "which fit together; see docs/long.md. RUN must be seen by all"
    )
    together.add_argument("--distributed", action="store_true", help="one of several; under Slurm or MPI that is all to say")
    together.add_argument("--coordinator", metavar="HOST:PORT", help="of process 0, where nothing starts them together")
    together.add_argument("--processes", type=int, metavar="N", help="how many there are")
    together.add_argument("--process", type=int, metavar="K", help="the number of this one, from 0")
    parser.add_argument("--no-check", action="store_true", help="leave out the check whether to trust the result")
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="least time between two (default: %(default)s)",
    )
    add_quiet(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Fit, save, check."""
    import jax.random as jr

    import nmax

    first = _together(options)
    model = model_from(options.model)
    table = table_from(options, step=getattr(model, "dt", None))
    guide: Any = nmax.LookaheadGuide() if options.guide == "lookahead" else nmax.MovingAverageGuide()
    if first:
        _refuse_other_run(options.out)
    with Claim(options.out) as claim:
        if first:
            _begin(claim, options)
        options.resumable = f"nmax resume {shlex.quote(str(options.out))}"
        posterior = nmax.fit(
            model,
            table,
            key=jr.key(options.seed),
            guide=guide,
            steps=options.steps,
            window=options.window,
            draws=options.draws,
            out=options.out,
            checkpoint_every=options.checkpoint_every,
            progress=first and not (options.quiet or options.json),
        )
        _part(options)
        return _told(options, options.out, posterior) if first else 0


def resume(options: argparse.Namespace) -> int:
    """Go on, save, check."""
    import nmax

    first = _together(options)
    model = model_of_run(options.folder, options.model)
    with Claim(options.folder):
        options.resumable = f"nmax resume {shlex.quote(str(options.folder))}"
        quiet = options.quiet or options.json or not first
        posterior = nmax.resume(options.folder, model, progress=not quiet, checkpoint_every=options.checkpoint_every)
        _part(options)
        return _told(options, options.folder, posterior) if first else 0


def _together(options: argparse.Namespace) -> bool:
    """Meet the other processes, if there are some; whether this is the one that speaks and writes."""
    if not options.distributed:
        return True
    import jax

    if hasattr(jax.config, "jax_enable_preemption_service"):  # it would swallow SIGTERM, at which we keep a checkpoint
        jax.config.update("jax_enable_preemption_service", False)
    given = (options.coordinator, options.processes, options.process)
    if any(part is not None for part in given) and not all(part is not None for part in given):
        raise InputError("--coordinator, --processes and --process belong together; pass all of them, or none under Slurm.")
    try:
        jax.distributed.initialize(*given, shutdown_timeout_seconds=LONG_SAVE)  # the others wait while the first one saves
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"The processes did not meet: {error}. Is the coordinator's port open, are all of them started?"
        ) from error
    return jax.process_index() == 0


def _part(options: argparse.Namespace) -> None:
    """Let the other processes go: what is left, the first one does alone."""
    if options.distributed:
        import jax

        jax.distributed.shutdown()


def _told(options: argparse.Namespace, folder: Path, posterior: Any) -> int:
    """Check what was fitted, write the results, and say what came of it."""
    from nmax._many import ManyPosterior
    from nmax._run_folder import read_run, save_check, save_results

    if read_run(folder)["status"] != FINISHED:  # there was a warning with the reason
        raise OSError(f"the result must be in {folder}; it could not be written. Make room, or mend the folder.")
    save_results(posterior, folder)
    out, options.resumable = Output(options), f"nmax check {shlex.quote(str(folder))}"
    if not options.no_check and posterior.checked is None:
        out.say("checking the fit; this takes about as long as the fit itself (--no-check leaves it out)")
        save_check(posterior.check(), folder)
    summary = posterior.summary()
    out.say(summary)
    out.say()
    of = " --series 0" if isinstance(posterior, ManyPosterior) else ""
    following = "  |  ".join(f"nmax {command} {folder}{of}" for command in ("report", "sample", "forecast --steps 20"))
    out.say(f"Wrote {folder}. Next:  {following}")
    verdict = None if posterior.checked is None else posterior.checked.verdict
    out.note(run=folder, parameters=summary.parameters, elbo=summary.elbo, elbo_standard_error=summary.elbo_standard_error)
    out.note(converged=posterior.converged, reason=posterior.reason, seconds=posterior.seconds, verdict=verdict)
    out.note(notes=posterior.notes)
    return out.end()


def _begin(claim: Claim, options: argparse.Namespace) -> None:
    """Take the folder, and write down what the run is made from; of a run that is there already that is known."""
    folder = options.out
    try:
        folder.mkdir(parents=True, exist_ok=True)
        claim.take()
        if not (folder / RUN).exists() or not (folder / SOURCE).exists():
            keep_source(folder, options.model, {"data": _places(options), "options": _given(options)})
    except OSError as error:
        raise InputError(
            f"--out must be a folder that can be written to; {folder} cannot: {error.strerror or error}. Nothing was done; "
            "choose another one."
        ) from error


def _refuse_other_run(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder; {folder} is a file.")
    files = {file.name for file in folder.iterdir() if not PARTIAL.fullmatch(file.name)} if folder.is_dir() else set()
    if files - {LOCK, COPY} and not (folder / SOURCE).exists():
        raise InputError(f"--out must be a new folder or one that `nmax fit` has made; {folder} has other files in it.")


def _places(options: argparse.Namespace) -> str | list[str]:
    """Where the data are; a list if there are several series."""
    places = [str(file.resolve()) for file in options.data]
    return places[0] if len(places) == 1 else places


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Options of `nmax fit` that were not left as they are, as they would be typed."""
    given = {name: getattr(options, name) for name in READING + FITTING}
    return {name: value for name, value in given.items() if value not in (None, False) and value != DEFAULTS.get(name)}
