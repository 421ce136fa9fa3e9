"""What commands print: lines for a person, or one JSON object for a program."""

from __future__ import annotations

import argparse
import json
from typing import Any

from nmax._store import plain


class InputError(ValueError):
    """The command line asks for something that cannot be."""


class Output:
    """Lines as they come, or with `--json` facts, all at the end."""

    def __init__(self, options: argparse.Namespace):
        self.as_json, self.facts = options.json, {}

    def say(self, line: object = "") -> None:
        """A line for a person."""
        if not self.as_json:
            print(line, flush=True)

    def note(self, **facts: Any) -> None:
        """Facts for a program."""
        self.facts.update(facts)

    def end(self) -> int:
        """Print the facts, and succeed."""
        if self.as_json:
            print(json.dumps(plain(self.facts), indent=2, ensure_ascii=False))
        return 0


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that all commands have."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """For commands that take a while."""
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
