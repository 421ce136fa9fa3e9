"""Run what the pages show: the Python blocks of each in one namespace, and the `nmax` lines of its shell blocks.

python docs/run_tutorials.py [PAGE.md ...]           runs the tutorials, or these pages, and fails on any error
python docs/run_tutorials.py --write [PAGE.md ...]   and puts what was printed into the `text` block that follows each block
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ITSELF = [sys.executable, *(f"-W{rule}" for rule in sys.warnoptions), __file__]
FIGURES = HERE / "figures" / "tutorials"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a block that is a file, too
WIDTH = 104  # characters of a printed line that fit a page


class Block(NamedTuple):
    """A piece of a page that can be run."""

    kind: str
    code: str
    line: int
    shown: tuple[int, int] | None  # where in the page its output stands, if it is shown


class PageError(RuntimeError):
    """A block did not run."""


def blocks(text: str) -> list[Block]:
    """The blocks of a page in their order; those with prompts are no programs and are left out."""
    found = []
    for match in BLOCK.finditer(text):
        if not match[2].startswith(">>>"):
            shown = None if match[3] is None else match.span(3)
            found.append(Block(match[1], match[2], text.count("\n", 0, match.start(2)), shown))
    return found


def run_page(page: Path, folder: Path) -> list[str]:
    """Run a page's blocks inside a folder; what each has printed. `PageError` says which block failed, and how."""
    namespace, printed = {"__name__": page.stem}, []
    for block in blocks(page.read_text(encoding="utf-8")):
        out = io.StringIO()
        try:
            with _inside(folder), contextlib.redirect_stdout(out):
                if block.kind == "sh":
                    _shell(block.code)
                else:
                    if name := FILE.match(block.code):
                        Path(name[1]).write_text(block.code, encoding="utf-8")
                    # padded, so that a traceback has the page's own line numbers
                    exec(compile("\n" * block.line + block.code, str(page), "exec"), namespace)  # noqa: S102
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise PageError(
                f"{page.name}, block in line {block.line + 1}:\n{traceback.format_exc()}{out.getvalue()}"
            ) from error
        printed.append(out.getvalue())
    return printed


def write_outputs(page: Path, printed: list[str], folder: Path) -> None:
    """Put what was printed into the page; the folder that it was run in is nobody's business."""
    text = page.read_text(encoding="utf-8")
    for block, out in reversed(list(zip(blocks(text), printed, strict=True))):
        if block.shown is not None:
            text = text[: block.shown[0]] + _cut(out.replace(f"{folder}/", "")) + text[block.shown[1] :]
    page.write_text(text, encoding="utf-8")


def main() -> int:
    """Run the pages that are asked for, each in a process of its own, and say how long each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=sorted((HERE / "tutorials").glob("*.md")))
    parser.add_argument("--write", action="store_true", help="put the output into the pages, and figures beside them")
    options = parser.parse_args()
    if len(options.pages) == 1:
        return _alone(options.pages[0], options.write)
    begun, again = time.perf_counter(), ["--write"] * options.write
    codes = [subprocess.run([*ITSELF, *again, str(page)], check=False).returncode for page in options.pages]
    failed = sum(code != 0 for code in codes)
    print(f"{'all':30} {len(codes):3} pages  {time.perf_counter() - begun:7.1f} s; {failed} failed")
    return 1 if failed else 0


def _alone(page: Path, write: bool) -> int:
    """Run one page in this process: programs that JAX has compiled fill it up, and are gone with it."""
    os.environ.setdefault("MPLBACKEND", "agg")
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            printed = run_page(page, Path(folder))
        except PageError as error:
            print(error, file=sys.stderr)
            return 1
        if write:
            write_outputs(page, printed, Path(folder))
            FIGURES.mkdir(parents=True, exist_ok=True)
            for figure in Path(folder).glob("*.png"):
                shutil.copy(figure, FIGURES / f"{page.stem}-{figure.name}")
    print(f"{page.name:30} {len(printed):3} blocks {time.perf_counter() - begun:7.1f} s", flush=True)
    return 0


def _shell(code: str) -> None:
    """Run the lines that call `nmax`, in this process; others (make, pip) are for the reader alone."""
    from nmax.cli import main as nmax_main

    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["nmax"] and (ended := nmax_main(words[1:])):
            raise RuntimeError(f"`{line}` ended with exit code {ended}")


def _cut(out: str) -> str:
    """Lines without trailing blanks, folded where they are too long for a page."""
    return "".join(f"{line.rstrip()}\n" for long in out.strip("\n").splitlines() for line in _folded(long))


def _folded(line: str) -> Iterator[str]:
    while len(line) > WIDTH and (at := line.rfind(" ", 0, WIDTH)) > 0:
        yield line[:at]
        line = "    " + line[at + 1 :]
    yield line


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    sys.exit(main())
