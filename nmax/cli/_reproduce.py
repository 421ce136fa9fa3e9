"""`nmax reproduce`: the paper's experiments."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from nmax.cli._output import InputError


def add(commands) -> None:
    """Add the command to the parser."""
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the experiments that were asked for; 1 if a claim fails, 3 if an experiment breaks off."""
    from nmax.experiments import CATALOGUE
    from nmax.experiments import run as run_experiment

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
            outcome = run_experiment(experiment, folder, quick=options.quick, say=say)
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
