"""A file that holds the state of the chains and all draws so far, written as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._chains import ChainState, Record
from nmax._noise_density import NoiseDensity

SAVE_EVERY = 30.0  # seconds between two checkpoints at the least


class ChainFile:
    """Where chains are kept between two runs; nowhere if `file` is None."""

    def __init__(self, file: Path | None, density: NoiseDensity, settings: tuple, key: PRNGKeyArray):
        self.file, self.last = file, time.perf_counter()
        level = np.asarray(density.level[1]).tobytes() + np.asarray(jr.key_data(key)).tobytes()
        self.what = json.dumps([*settings, hashlib.sha256(level).hexdigest()])

    def read(self, state: ChainState) -> tuple[ChainState, list[Record], int]:
        """The chains as they were saved, or as they are at the start."""
        if self.file is None or not self.file.exists():
            return state, [], 0
        with np.load(self.file, allow_pickle=False) as kept:
            if str(kept["what"]) != self.what:
                raise ValueError(
                    f"{self.file} must come from the same call: model, series, key, chains, draws, warm-up and target. It "
                    "comes from another one; pass another file, or remove it."
                )
            leaves, tree = jax.tree.flatten((state.chains, state.adaptation))
            restored = jax.tree.unflatten(tree, [jnp.asarray(kept[f"state{k}"]) for k in range(len(leaves))])
            key = jr.wrap_key_data(jnp.asarray(kept["key"]))
            count = int(kept["records"])
            arrays = [np.split(kept[name], count) if count else [] for name in Record._fields]
            records = [Record(*parts) for parts in zip(*arrays, strict=True)]
            chains, adaptation = restored
            return ChainState(chains, adaptation, key), records, int(kept["warmed"])

    def write(self, state: ChainState, records: list[Record], warmed: int, *, now: bool = False) -> None:
        """Save, unless that was done a moment ago."""
        if self.file is None or not (now or time.perf_counter() - self.last > SAVE_EVERY):
            return
        leaves = jax.tree.leaves((state.chains, state.adaptation))
        arrays: dict[str, Any] = {f"state{k}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        if records:
            arrays |= dict(zip(Record._fields, map(np.concatenate, zip(*records, strict=True)), strict=True))
        else:
            arrays |= {name: np.zeros(0) for name in Record._fields}
        partial = self.file.with_name(self.file.name + ".partial.npz")
        counts = {"records": len(records), "warmed": warmed}
        arrays |= {"what": self.what, "key": np.asarray(jr.key_data(state.key)), **counts}
        np.savez(partial, **arrays)
        partial.replace(self.file)
        self.last = time.perf_counter()
