"""`sample`: the exact joint posterior of a short series, by NUTS through the guide's map."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._chain_file import ChainFile, Drawn
from nmax._chains import CHUNK, TEAM, ChainState, Record, begun, go_on_together, gradient, teams
from nmax._check import check_count, check_key, names_its_options
from nmax._draws import Draws
from nmax._find import bare
from nmax._fit import fit as fit_guide
from nmax._locate import nearest_rival, rivals
from nmax._noise_density import NoiseDensity, noise_density
from nmax._posterior import Posterior
from nmax._progress import make_meter
from nmax._validate import check_model
from nmax.data import LongSeries, Series, Table, make_series, one_table, same_data
from nmax.guides import LookaheadGuide, prior_centre
from nmax.models import AbstractModel

LONG = 10_000  # steps beyond which the time is estimated before anything starts
CHAINS = 8  # two teams, one for each of two cores
LONGEST = 1_000_000  # rows beyond which the draws of a path would not fit into memory
USUAL_GRADIENTS = 7  # a draw
QUICK = LookaheadGuide(weighted=1, layers=0, rivals=6.0, rounds=1)  # what more would mend, the chains mend as well


@names_its_options
def sample(
    model: AbstractModel,
    y: Any,
    *,
    key: PRNGKeyArray,
    inputs: Any = None,
    fit: Posterior | None = None,
    draws: int = 250,
    chains: int = CHAINS,
    warmup: int = 100,
    target: float = 0.8,
    checkpoint: str | Path | None = None,
    progress: bool = True,
) -> Draws:
    """Draw from the exact joint posterior of the parameters and the path. Meant for series up to some 10,000 steps.

    NUTS runs in the noise of a guide, where the posterior is nearly standard normal; the guide's errors cost time, not
    exactness, as long as the chains mix: look at `rhat` and at `divergences`. Chains that all start in one mode of several
    stay in it; the modes that were seen on the way are in the summary.

    Args:
        model: an `nmax.StateSpaceModel` or `nmax.SDE`.
        y: observations, as for `nmax.fit`.
        key: random key.
        inputs: exogenous inputs, as for `nmax.fit`.
        fit: a posterior fitted to the same model and series before; by default a quick one is fitted.
        draws: of each chain, after the warm-up; rounded up to a multiple of 25.
        chains: run side by side, in fours on a core each where their number is a multiple of four.
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
    target, given = _rate(target), fit is not None
    _check_kinds(checkpoint, fit)
    guide_key, chain_key = jr.split(key)
    table = one_table(y, inputs, step=getattr(model, "dt", None))
    _check_length(len(table.y))
    series = make_series(table.y, table.inputs)
    if fit is None:
        check_model(model, series)
        _say_how_long(lambda: _beforehand(model, series, key=guide_key), series, chains, warmup + draws)
        fit = _quick_fit(model, table, series, chains, progress, key=guide_key)
    elif fit.model is not model:
        raise ValueError("`fit` must be one of the same model: pass the model object that it was fitted with.")
    elif not same_data(series, fit.series):
        raise ValueError("`fit` must be one of the same data: `y` or `inputs` are not those that it was fitted to.")
    seen = fit.series.view(0, fit.series.rows) if isinstance(fit.series, LongSeries) else fit.series
    density = noise_density(fit.guide, seen)
    if given:
        _say_how_long(lambda: density, series, chains, warmup + draws)
    state = begun(density, chains, chain_key)
    file = ChainFile(None if checkpoint is None else Path(checkpoint), density, (chains, warmup, draws, target), key)
    record, drawing = _run(density, state, file, -(-warmup // CHUNK), -(-draws // CHUNK), target, progress)
    seconds = time.perf_counter() - start
    notes = (*table.notes, *rivals(fit.modes, model))
    return Draws(density, table, record, seconds, notes, drawing, nearest_rival(fit.modes))


def _check_kinds(checkpoint: Any, fit: Any) -> None:
    if checkpoint is not None and Path(checkpoint).is_dir():
        file = Path(checkpoint) / "chains.npz"
        raise ValueError(f"`checkpoint` must be a file; {checkpoint} is a folder. Pass {file}, say.")
    if fit is not None and not isinstance(fit, Posterior):
        raise TypeError(f"`fit` must be what nmax.fit returns for one series; got {type(fit).__name__}. It may be left out.")


def _rate(target: Any) -> float:
    """The acceptance rate as a number."""
    try:
        rate = float(target)
    except (TypeError, ValueError):
        rate = float("nan")
    if isinstance(target, str) or not 0 < rate < 1:
        raise ValueError(f"`target` must lie between 0 and 1; got {target!r}.")
    return rate


def _quick_fit(
    model: AbstractModel, table: Table, series: Series, chains: int, progress: bool, *, key: PRNGKeyArray
) -> Posterior:
    """A fit good enough to sample through; meanwhile another thread compiles what the chains will need."""

    def compile_ahead():
        density = _beforehand(model, series, key=key)
        go_on_together(density, begun(density, chains, key), jnp.array(True), jnp.float32(0.8), jnp.int32(0))

    thread = threading.Thread(target=_quietly, args=(compile_ahead,))
    thread.start()
    try:
        found: Any = fit_guide(model, table, key=key, guide=QUICK, progress=progress)
        return found
    finally:
        thread.join()


def _beforehand(model: AbstractModel, series: Series, *, key: PRNGKeyArray) -> NoiseDensity:
    """A density of the same form and cost as that of the fit to come, at the centre of the prior."""
    centre = prior_centre(model.parameters, key=key)
    return noise_density(bare(QUICK, model, series, centre, width=None, key=key), series)


def _quietly(work: Any) -> None:
    """What is done ahead of time may fail: if it matters, it will fail again where it is needed."""
    try:
        work()
    except Exception:  # noqa: BLE001
        return


def _run(
    density: NoiseDensity, state: ChainState, file: ChainFile, warm_calls: int, calls: int, target: float, progress: bool
) -> tuple[Record, float]:
    """Warm the chains up, then draw, and how long the latter took; what a checkpoint holds is not done again."""
    drawing, target_rate = 0.0, jnp.float32(target)
    drawn = file.read(state)
    meter = make_meter(progress, (warm_calls + calls) * CHUNK)
    if not warm_calls and not drawn.records:  # a start's first trajectory never counts
        drawn = Drawn(go_on_together(density, drawn.state, jnp.array(False), target_rate, jnp.int32(1))[0])
    try:
        for number in range(drawn.warmed + len(drawn.records), warm_calls + calls):
            warm, once = number < warm_calls, time.perf_counter()
            called = go_on_together(density, drawn.state, jnp.array(warm), target_rate, jnp.int32(CHUNK))
            state, record = jax.block_until_ready(called)
            if warm:
                drawn = drawn._replace(state=state, warmed=number + 1)
            else:  # by one assignment, so that a state is never ahead of its draws when an interrupt comes
                drawn = drawn._replace(state=state, records=(*drawn.records, jax.tree.map(np.asarray, record)))
                drawing += time.perf_counter() - once
            meter.update(CHUNK, float(state.chains.logdensity.mean()), "warm up" if warm else "sample")
            file.write(drawn)
    finally:
        meter.close()
        file.write(drawn, now=True)
    return Record(*map(np.concatenate, zip(*drawn.records, strict=True))), drawing


def _check_length(rows: int) -> None:
    if rows > LONGEST:
        raise ValueError(
            f"`y` must have at most {LONGEST:,} rows to be sampled from exactly, since each draw is a whole path; "
            f"got {rows:,}. `nmax.fit` is made for such a length."
        )


def _say_how_long(density_of: Callable[[], NoiseDensity], series: Series, chains: int, draws: int) -> None:
    """Warn of a series that is long for this, with an estimate from a gradient of the chains that one thread moves."""
    if series.length <= LONG:
        return
    team = TEAM if teams(chains) > 1 else chains
    density = density_of()
    position = begun(density, team, jr.key(0)).chains.position
    jax.block_until_ready(gradient(density, position))  # compiles
    once = time.perf_counter()
    jax.block_until_ready(gradient(density, position))
    rounds = -(-teams(chains) // (os.cpu_count() or 1))
    minutes = (time.perf_counter() - once) * USUAL_GRADIENTS * draws * rounds / 60
    long = "less than a minute" if minutes < 1 else f"about {minutes:,.0f} minutes"
    warnings.warn(
        f"`sample` is meant for series up to some {LONG:,} steps; this one has {series.length:,}, and the draws will take "
        f"{long}. `nmax.fit` takes a time that does not grow with the length.",
        stacklevel=3,
    )
