"""The command `nmax`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all went well, 1 if a claim failed, 2 for input that cannot be right, 3 if a run broke off."""
    parser = argparse.ArgumentParser(prog="nmax", description="Bayesian inference for long state space series.")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_reproduce(commands)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except InputError as error:
        print(f"nmax: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("nmax: stopped. What is finished is kept; the same command goes on from there.", file=sys.stderr)
        return 130


class InputError(ValueError):
    """The command line asks for something that cannot be."""


def _add_reproduce(commands) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="run experiments of the paper, with figures and a table of claims",
        description="Run experiments of the paper: data, fits, near-exact posterior, figures, claims with verdicts.",
        epilog="examples:  nmax reproduce --list  |  nmax reproduce lv-dense --out runs  |  nmax reproduce all --quick",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, or `all`")
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    parser.add_argument("--quick", action="store_true", help="the shortened form of each, in minutes")
    parser.add_argument("--out", type=Path, default=Path("reproduced"), help="folder, one a name is made in it")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    parser.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> int:
    from nmax.experiments import CATALOGUE, run

    if options.list or not options.names:
        for experiment in CATALOGUE.values():
            print(f"{experiment.name:22} {experiment.title}")
        return 0
    unknown = [name for name in options.names if name not in CATALOGUE and name != "all"]
    if unknown:
        raise InputError(f"There is no experiment {', '.join(unknown)}; the names are {', '.join(CATALOGUE)}, or all.")
    short = {name for name, one in CATALOGUE.items() if any(case.quick is not None for case in one.cases)}
    if options.quick and (long := [name for name in options.names if name != "all" and name not in short]):
        raise InputError(f"There is no shortened form of {', '.join(long)}; there is one of {', '.join(sorted(short))}.")
    names = list(CATALOGUE) if "all" in options.names else options.names
    say = (lambda line: None) if options.json else print
    report, fine, broken = {}, True, False
    for name in names:
        experiment = CATALOGUE[name]
        if options.quick and name not in short:
            say(f"\n{name}: left out, it has no shortened form")
            continue
        folder = options.out / (f"{name}-quick" if options.quick else name)
        say(f"\n{name}: {experiment.title}")
        try:
            outcome = run(experiment, folder, quick=options.quick, say=say)
        except (OSError, ImportError, RuntimeError, ValueError, ArithmeticError) as error:  # the others go on
            print(f"nmax: {name} broke off: {error}", file=sys.stderr)
            report[name], broken = {"error": str(error)}, True
            continue
        fine &= outcome.holds
        for claim, value, holds in outcome.verdicts:
            say(f"  { ({True: 'holds', False: 'FAILS', None: 'open '}[holds]) }  {claim.text}: {value:.3g}")
        say("  " + ", ".join(str(file) for file in outcome.files))
        report[name] = {
            "claims": [
                {"claim": c.text, "value": v if math.isfinite(v) else None, "holds": h} for c, v, h in outcome.verdicts
            ],
            "files": [str(file) for file in outcome.files],
            "fits": {case: result.facts for case, result in outcome.results.items()},
        }
    if options.json:
        print(json.dumps(report, indent=2))
    return 3 if broken else 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
