"""Programs that one command has compiled are kept for the next one, as JAX can, in the user's folder of caches."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import warnings
from pathlib import Path

KEPT = 30 * 24 * 3_600  # seconds that a program is kept
CPUINFO = Path("/proc/cpuinfo")


def keep_compiled() -> None:
    """Have JAX keep what it compiles, unless the user has chosen a place already or there is none to be had.

    Half of a short command's time is compilation, of programs that an earlier command on the same run has compiled before.
    The same program is the same machine code, so results do not change.
    """
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    try:
        folder = _place()
        folder.mkdir(parents=True, exist_ok=True)
        _forget_old(folder)
    except (OSError, RuntimeError):  # no home, or one that cannot be written to
        return
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
    for name, value in (("cache_min_entry_size_bytes", -1), ("cache_min_compile_time_secs", 0)):
        jax.config.update(f"jax_persistent_{name}", value)
    jax.config.update("jax_compilation_cache_dir", str(folder))


def _place() -> Path:
    """One folder for each kind of processor: homes are shared between machines, machine code is not."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(caches) if os.path.isabs(caches) else Path.home() / ".cache"
    lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines() if CPUINFO.exists() else []
    skills = next((line for line in lines if line.lower().startswith(("flags", "features"))), platform.processor())
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {skills}".encode()).hexdigest()
    return home / "nmax" / f"compiled-{digest[:16]}"


def _forget_old(folder: Path) -> None:
    oldest = time.time() - KEPT
    for entry in os.scandir(folder):
        if entry.stat().st_mtime < oldest:
            Path(entry).unlink(missing_ok=True)
