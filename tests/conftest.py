"""Switches of the test run: ranks are never promoted in silence, shapes in signatures are checked."""

import itertools
import os

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_rank_promotion", "raise")
FORGET, FINISHED = 25, itertools.count(1)  # tests after which compiled programs are let go

# Shapes are checked inside the library only: the outer functions must refuse bad input by themselves, as they do for users.
CHECKED = ["data", "features", "flows", "_first_guess", "_noise", "_objective", "_pretrain"]
install_import_hook([f"nmax.{name}" for name in CHECKED], "beartype.beartype").__enter__()  # for the whole run


@pytest.fixture(autouse=True, scope="session")
def caches_of_their_own(tmp_path_factory):
    """Commands that tests start keep what they compile here, not in the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
        yield


@pytest.fixture(autouse=True, scope="session")
def compiled_once(tmp_path_factory):
    """What one worker has compiled, or compiled before it was let go, is not compiled again: it is kept for the run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_compilation_cache_dir", str(shared / "compiled"))


@pytest.fixture(autouse=True)
def compile_quickly(request):
    """Most tests run little and compile much: they leave the compiler's optimisations out, except those that train long."""
    quick = request.node.path.name != "test_accuracy.py" and "in_short" not in request.node.name
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(autouse=True)
def forget_compiled_programs():
    """Every so many tests: hundreds of them in one process come up against the system's limit of memory maps."""
    yield
    if next(FINISHED) % FORGET == 0:
        jax.clear_caches()


@pytest.fixture
def key(request):
    """A key of its own for each test; the seed is printed when a test fails."""
    seed = sum(map(ord, request.node.nodeid)) % 100_000
    print(f"seed {seed}")
    return jax.random.key(seed)
