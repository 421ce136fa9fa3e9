"""The site is built without a warning, the reference is complete, and what README and the tour show runs."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import run_tutorials

import nmax

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BUILD = """
import sys
from sphinx.cmd.build import main
html, trees = sys.argv[1:]
code = main(["--fail-on-warning", "--keep-going", "--nitpicky", "--quiet", "--doctree-dir", trees, "docs", html])
from jax._src import xla_bridge
assert not xla_bridge._backends, "building the site has opened a device"
sys.exit(code)
"""


def ran(arguments, **environment):
    """Run Python at the project's root and return what it printed; a failure shows all of it."""
    variables = os.environ | {"MPLBACKEND": "agg"} | environment
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_site_is_built_without_a_warning_and_without_a_device(tmp_path):
    ran(["-c", BUILD, str(tmp_path / "html"), str(tmp_path / "trees")])
    index, reference = ((tmp_path / "html" / name).read_text(encoding="utf-8") for name in ("index.html", "api.html"))
    assert 'href="tour.html"' in index
    assert "<math" in reference
    assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css)', reference), "a page would need the network"


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\.\. auto(?:class|function|exception):: (?:nmax\.)?([\w.]+)", text, re.MULTILINE))
    public = {
        name for name, value in vars(nmax).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public - documented == set()


def test_what_readme_and_the_tour_show_runs(tmp_path):
    """Both fit the same model: what the one has compiled the other finds on the disk."""
    quick = {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    printed = ran(["-W", "error", "docs/run_tutorials.py", "README.md", "docs/tour.md"], **quick)
    assert "README.md" in printed
    assert "0 failed" in printed


def test_a_block_that_fails_is_named_by_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nx = 1\n```\n\n```python\nprint(x)\nx / 0\n```\n", encoding="utf-8")
    with pytest.raises(run_tutorials.PageError, match=r"page.md, block in line 8(?s:.*)ZeroDivisionError"):
        run_tutorials.run_page(page, tmp_path)


def test_output_goes_into_the_block_that_follows(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport os; print(6 * 7, os.path.abspath('run'))\n```\n\n```text\nold\n```\n\n```python\nprint(1)\n```\n",
        encoding="utf-8",
    )
    run_tutorials.write_outputs(page, run_tutorials.run_page(page, tmp_path), tmp_path)
    assert page.read_text(encoding="utf-8").count("42 run\n") == 1
    assert "old" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("line", ["nmax fit nowhere.py data.csv --out run", "nmax nonsense"])
def test_a_command_that_fails_fails_the_page(tmp_path, line):
    page = tmp_path / "page.md"
    page.write_text(f"```sh\nmake nothing\n{line}\n```\n", encoding="utf-8")
    with pytest.raises(run_tutorials.PageError, match="block in line 2"):
        run_tutorials.run_page(page, tmp_path)
