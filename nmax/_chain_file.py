"""A file that holds the state of the chains and all draws so far, written as a whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._chains import ChainState, Record
from nmax._noise_density import NoiseDensity
from nmax._store import DamagedFileError, read_arrays, remove_partials, write_arrays

SAVE_EVERY = 30.0  # seconds between two checkpoints at the least


class Drawn(NamedTuple):
    """Where the chains are, what they have drawn on the way there, and how many calls of the warm-up are done."""

    state: ChainState
    records: tuple[Record, ...] = ()
    warmed: int = 0


class ChainFile:
    """Where chains are kept between two runs; nowhere if `file` is None. What cannot be written ends nothing."""

    def __init__(self, file: Path | None, density: NoiseDensity, settings: tuple, key: PRNGKeyArray):
        self.file, self.last, self.told = file, time.perf_counter(), False
        level = np.asarray(density.level[1]).tobytes() + np.asarray(jr.key_data(key)).tobytes()
        self.what = json.dumps([*settings, hashlib.sha256(level).hexdigest()])

    def read(self, state: ChainState) -> Drawn:
        """The chains as they were saved, or as they are at the start. A damaged file is put aside, with a warning."""
        if self.file is None:
            return Drawn(state)
        remove_partials(self.file.parent, {self.file.name})
        try:
            arrays, facts = read_arrays(self.file)
        except FileNotFoundError:
            return Drawn(state)
        except DamagedFileError as error:
            aside = self.file.with_name(self.file.name + ".damaged")  # it may be a file of something else
            with contextlib.suppress(OSError):
                self.file.replace(aside)
            warnings.warn(f"{error} The chains begin anew; it is now {aside.name}.", stacklevel=4)
            return Drawn(state)
        if facts.get("what") != self.what:
            raise ValueError(
                f"{self.file} must come from the same call: model, series, key, chains, draws, warm-up and target. It "
                "comes from another one; pass another file, or remove it."
            )
        leaves, tree = jax.tree.flatten((state.chains, state.adaptation))
        chains, adaptation = jax.tree.unflatten(tree, [jnp.asarray(arrays[f"state{k}"]) for k in range(len(leaves))])
        key, count = jr.wrap_key_data(jnp.asarray(arrays["key"])), facts["records"]
        parts = [np.split(arrays[name], count) if count else [] for name in Record._fields]
        records = tuple(Record(*part) for part in zip(*parts, strict=True))
        return Drawn(ChainState(chains, adaptation, key), records, facts["warmed"])

    def write(self, drawn: Drawn, *, now: bool = False) -> None:
        """Save, unless that was done a moment ago or there is nothing yet. A file that cannot be written is told of."""
        state, records, warmed = drawn
        due = now or time.perf_counter() - self.last > SAVE_EVERY
        if self.file is None or not due or not (records or warmed):
            return
        leaves = jax.tree.leaves((state.chains, state.adaptation))
        arrays = {f"state{k}": np.asarray(leaf) for k, leaf in enumerate(leaves)}
        arrays |= {"key": np.asarray(jr.key_data(state.key))}
        if records:
            arrays |= dict(zip(Record._fields, map(np.concatenate, zip(*records, strict=True)), strict=True))
        try:
            write_arrays(self.file, arrays, {"what": self.what, "records": len(records), "warmed": warmed})
            self.told = False  # should it happen again, that is news
        except OSError as error:
            if not self.told:
                warnings.warn(
                    f"The chains could not be kept in {self.file}: {error.strerror or error}. Sampling goes on and will try "
                    "again; make room or mend the folder, or a stop now loses what was drawn since they last were.",
                    stacklevel=4,
                )
            self.told = True
        self.last = time.perf_counter()
