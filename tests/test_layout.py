"""The package's shape: imports flow one way, importing does nothing else, nothing refers to this workplace."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "nmax"
LAYERS = [
    {"_types", "_check", "_noise", "_small", "_iterates", "_store", "_trees", "_processes", "_lock", "_give_back"},
    {"data", "flows", "_checkpoint", "_claim"},
    {"models", "features"},
    {"_first_guess", "reference"},
    {"lookahead", "_validate"},
    {"guides"},
    {"_prior_density", "_objective", "_optimiser", "_convergence", "_progress", "_pretrain"},
    {
        "_scores",
        "_step",
        "_summary",
        "_surface",
        "_diagnostics",
        "_noise_density",
        "_uniformity",
        "_replications",
        "_pareto",
        "_forecast_table",
        "_statistics",
        "_crps",
        "_naive",
        "_settings",
        "_guide_file",
        "_identity",
        "_asked",
    },
    {"_train", "_start", "_chains", "_draw"},
    {"_natural", "_find", "_chain_file", "_particles", "_forecast"},
    {"_locate", "_evidence", "_strip", "_predictive", "_score_table"},
    {"_stages", "_series_file", "checks", "_predictive_check", "export", "_reweigh"},
    {"_run_folder", "_joint"},
    {"_fitted"},
    {"_posterior", "_draws", "_calibration"},
    {"_many"},
    {"_load", "_finite", "_compare"},
    {"_fit"},
    {"_resume", "_sample", "_score"},
    {"_calibrate"},
    {"report"},
    {"__init__"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def imported_modules(path):
    """Names directly under `nmax` that a file imports, read without running it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "nmax":
            names = [node.module] if node.module != "nmax" else [f"nmax.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "nmax"]
        yield from (name.split(".")[1] for name in names if "." in name)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_flow_one_way(path):
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert here in RANK, f"give {here} a place in LAYERS"
    for there in imported_modules(path):
        assert there in RANK, f"give {there} a place in LAYERS"
        assert there == here or RANK[there] < RANK[here], f"{path.name} must not import {there}"


def test_the_reference_sees_nothing_of_the_library():
    seen = {name for path in (ROOT / "reference").glob("*.py") for name in imported_modules(path)}
    assert seen <= {"reference", "models", "data"}


def test_importing_changes_no_configuration_and_opens_no_device():
    code = (
        "import jax, logging; before = dict(jax.config.values); handlers = list(logging.root.handlers)\n"
        "import nmax\n"
        "assert dict(jax.config.values) == before and logging.root.handlers == handlers\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends, 'a device was opened'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_files_and_functions_stay_short():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 300, f"{path.name} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                assert length <= 70, f"{path.name}: {node.name} has {length} lines"
