"""`nmax check`: whether to trust a run."""

from __future__ import annotations

import argparse

from nmax.cli._model_file import add_run, model_of_run
from nmax.cli._output import Output, add_json


def add(commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "check",
        help="whether to trust a fit, and why",
        description="Examine a fit. The verdict is 'trust', 'trust the means, not the widths' or 'do not trust', with "
        "reasons and remedies.",
        epilog="example:  nmax check run",
    )
    add_run(parser)
    parser.add_argument(
        "--known", action="append", default=[], metavar="NAME", help="a parameter that is meant to rest on its prior"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check, and keep the verdict with the run."""
    import nmax
    from nmax._run_folder import save_check

    out = Output(options)
    posterior = nmax.load(options.folder, model_of_run(options.folder, options.model))
    check = posterior.check(known=options.known)
    save_check(check, options.folder)
    out.say(check)
    findings = [{"about": f.about, "level": f.level, "text": f.text, "remedy": f.remedy} for f in check.findings]
    out.note(verdict=check.verdict, findings=findings, seconds=check.seconds)
    return out.end()
