"""The command `nmax`: from a model file and a data file to a report. One file a command."""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from nmax._claim import RunInUseError
from nmax._finite import NoPosteriorError
from nmax._train import DivergedError
from nmax.cli import _check, _fit, _forecast, _info, _new, _report, _reproduce, _sample, _simulate
from nmax.cli._compiled import keep_compiled
from nmax.cli._output import InputError
from nmax.cli._stop import Terminated, heeded, leave

COMMANDS = (_new, _simulate, _fit, _check, _sample, _forecast, _report, _info, _reproduce)
EXAMPLE = """a first run:
  nmax new model.py                            write a commented model to start from; edit it
  nmax simulate model.py --out data.csv        a series from it, to try things on
  nmax fit model.py data.csv --out run         the joint posterior of parameters and path
  nmax report run                              one HTML page about it
  nmax forecast run --steps 20                 what comes next

exit codes: 0 done, 1 a claim of the paper failed, 2 input that cannot be right, 3 the work broke off,
130 interrupted and 143 terminated (a fit can be resumed)"""


OURS = Path(__file__).resolve().parents[1]
HOPELESS = (DivergedError, NoPosteriorError)  # the same call would come to the same end


class _WholeNames(argparse.ArgumentParser):
    """Options by their whole names: --step is one thing, --steps another."""

    def __init__(self, **options):
        super().__init__(**options, allow_abbrev=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = _WholeNames(
        prog="nmax",
        description="Bayesian inference in state space models and stochastic differential equations, for long series.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"nmax {version('nmax')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_WholeNames)
    for command in COMMANDS:
        command.add(commands)
    options = parser.parse_args(arguments)
    if arguments is None:  # as a program, not within somebody else's
        keep_compiled()
    options.resumable = None  # a command that can be taken up again says how
    shown, warnings.showwarning = warnings.showwarning, _warned
    try:
        with heeded(lambda number: _stopped(options, terminated=number != 2)):
            return _ended(options)
    except KeyboardInterrupt as stop:
        print(_stopped(options, terminated=isinstance(stop, Terminated)), file=sys.stderr)
        code = 143 if isinstance(stop, Terminated) else 130
        if arguments is None:  # as a program: to take Python down while the compiler is at work can crash it
            leave(code)
        return code
    finally:
        warnings.showwarning = shown


def _ended(options: argparse.Namespace) -> int:
    """Run the command; the exit code for what can go wrong."""
    try:
        return options.run(options)
    except (
        InputError,
        FileNotFoundError,
        FileExistsError,
        IsADirectoryError,
        TypeError,
        ValueError,
        RunInUseError,
    ) as error:
        if _ours(error):
            print(f"nmax: {_in_options(str(error), options)}", file=sys.stderr)
            return 2
        traceback.print_exc()
        return 3
    except (OSError, RuntimeError, ArithmeticError, ImportError, MemoryError) as error:
        print(f"nmax: broke off: {error or type(error).__name__}", file=sys.stderr)
        if options.resumable and not isinstance(error, HOPELESS):
            print(_how_to_go_on(options), file=sys.stderr)
        return 3


def _in_options(text: str, options: argparse.Namespace) -> str:
    """What the library says of its arguments, said of the command's options where they have the same names."""

    def option(match: re.Match[str]) -> str:
        return f"`--{match[1].replace('_', '-')}`" if hasattr(options, match[1]) else match[0]

    return re.sub(r"`(\w+)=`", option, text).replace(" to `nmax.read`", "")


def _stopped(options: argparse.Namespace, *, terminated: bool) -> str:
    said = f"nmax: {'terminated' if terminated else 'stopped'}."
    return f"{said}\n{_how_to_go_on(options)}" if options.resumable else said


def _how_to_go_on(options: argparse.Namespace) -> str:
    return f"nmax: what is done is kept. Go on with:  {options.resumable}"


def _ours(error: BaseException) -> bool:
    """Whether nmax itself raised this, about input; what comes from elsewhere is a defect, and its place is shown."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return isinstance(error, (InputError, FileNotFoundError)) or any(OURS in Path(frame.filename).parents for frame in last)


def _warned(message, category, filename, lineno, file=None, line=None) -> None:
    """A warning for a person: its text, not its place in the code."""
    del category, filename, lineno, file, line
    print(f"nmax: {message}", file=sys.stderr)
