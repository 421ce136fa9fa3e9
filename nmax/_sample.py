"""`sample`: the exact joint posterior of a short series, by NUTS through the guide's map."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._chains import CHUNK, ChainState, Record, begun, go_on, gradient
from nmax._check import check_count, check_key, names_its_options
from nmax._draws import Draws
from nmax._fit import fit as fit_guide
from nmax._noise_density import NoiseDensity, noise_density
from nmax._posterior import Posterior
from nmax._progress import make_meter
from nmax.guides import LookaheadGuide
from nmax.models import AbstractModel

LONG = 10_000  # steps beyond which the time is estimated before anything starts
USUAL_GRADIENTS = 15  # a draw
SAVE_EVERY = 30.0  # seconds between two checkpoints at the least


@names_its_options
def sample(
    model: AbstractModel,
    y: Any,
    *,
    key: PRNGKeyArray,
    inputs: Any = None,
    fit: Posterior | None = None,
    draws: int = 500,
    chains: int = 4,
    warmup: int = 100,
    target: float = 0.8,
    checkpoint: str | Path | None = None,
    progress: bool = True,
) -> Draws:
    """Draw from the exact joint posterior of the parameters and the path. Meant for series up to some 10,000 steps.

    NUTS runs in the noise of the guide, where the posterior is nearly standard normal; the guide's errors cost time, not
    exactness, as long as the chains mix: look at `rhat` and at `divergences`. Chains that all start in one mode of several
    stay in it.

    Args:
        model: an `nmax.StateSpaceModel` or `nmax.SDE`.
        y: observations, as for `nmax.fit`.
        key: random key.
        inputs: exogenous inputs, as for `nmax.fit`.
        fit: a posterior fitted to the same model and series before; by default a quick one is fitted.
        draws: of each chain, after the warm-up; rounded up to a multiple of 25.
        chains: run side by side.
        warmup: draws in which the step size is found, and which are thrown away; rounded up to a multiple of 25.
        target: acceptance rate aimed for.
        checkpoint: a file (`.npz`) that the chains are saved to every half minute; if it is there, from the same call,
            they go on from it.
        progress: whether to show a progress bar.

    Returns:
        Draws with the interface of `nmax.Posterior`, R-hat, effective sample sizes and divergences.
    """
    start = time.perf_counter()
    key = check_key(key)
    draws, chains = check_count("draws", draws, least=4), check_count("chains", chains)
    warmup = check_count("warmup", warmup, least=0)
    if not 0 < target < 1:
        raise ValueError(f"`target` must lie between 0 and 1; got {target!r}.")
    fit_key, chain_key = jr.split(key)
    if fit is None:  # no weighted draws: what they mend, the chains mend as well
        fit = fit_guide(model, y, key=fit_key, inputs=inputs, guide=LookaheadGuide(weighted=1, layers=0), progress=progress)
    elif fit.model is not model:
        raise ValueError("`fit` must be one of the same model: pass the model object that it was fitted with.")
    density = noise_density(fit.guide, fit.series)
    state = begun(density, chains, chain_key)
    _say_how_long(density, state, warmup + draws)
    saved = _Checkpoint(None if checkpoint is None else Path(checkpoint), density, (chains, warmup, draws, target), key)
    state, records, warmed = saved.read(state)
    warm_calls, calls = -(-warmup // CHUNK), -(-draws // CHUNK)
    meter = make_meter(progress, (warm_calls + calls) * CHUNK)
    try:
        for number in range(warmed + len(records), warm_calls + calls):
            warm = number < warm_calls
            state, record = go_on(density, state, jnp.array(warm), jnp.float32(target))
            if not warm:
                records.append(jax.tree.map(np.asarray, record))
            warmed = min(number + 1, warm_calls)
            meter.update(CHUNK, float(state.chains.logdensity.mean()), "warm up" if warm else "sample")
            saved.write(state, records, warmed)
    finally:
        meter.close()
        saved.write(state, records, warmed, now=True)
    seconds = time.perf_counter() - start
    return Draws(fit.model, fit.series, Record(*map(np.concatenate, zip(*records, strict=True))), seconds)


def _say_how_long(density: NoiseDensity, state: ChainState, draws: int) -> None:
    if density.series.length <= LONG:
        return
    jax.block_until_ready(gradient(density, state.chains.position))  # compiles
    once = time.perf_counter()
    jax.block_until_ready(gradient(density, state.chains.position))
    minutes = (time.perf_counter() - once) * USUAL_GRADIENTS * draws / 60
    warnings.warn(
        f"`sample` is meant for series up to some {LONG:,} steps; this one has {density.series.length:,} and will take "
        f"about {minutes:.0f} minutes. `nmax.fit` takes a time that does not grow with the length.",
        stacklevel=3,
    )


class _Checkpoint:
    """A file that holds the state of the chains and all draws so far, written as a whole or not at all."""

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
            leaves, tree = jax.tree.flatten(_without_key(state))
            restored = jax.tree.unflatten(tree, [jnp.asarray(kept[f"state{k}"]) for k in range(len(leaves))])
            chains, adaptation = restored
            key = jr.wrap_key_data(jnp.asarray(kept["key"]))
            count = int(kept["records"])
            arrays = [np.split(kept[name], count) if count else [] for name in Record._fields]
            records = [Record(*parts) for parts in zip(*arrays, strict=True)]
            return ChainState(chains, adaptation, key), records, int(kept["warmed"])

    def write(self, state: ChainState, records: list[Record], warmed: int, *, now: bool = False) -> None:
        """Save, unless that was done a moment ago."""
        if self.file is None or not (now or time.perf_counter() - self.last > SAVE_EVERY):
            return
        leaves = jax.tree.leaves(_without_key(state))
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


def _without_key(state: ChainState) -> tuple[Any, Any]:
    return state.chains, state.adaptation
