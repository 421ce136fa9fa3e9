"""`calibrate`: is a method right on average over data from the model itself? Simulation-based calibration."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray
from numpyro.distributions.transforms import IdentityTransform

from nmax._calibration import Calibration
from nmax._check import check_count, check_key, names_its_options
from nmax._fit import fit
from nmax._replications import Replication, Store
from nmax._summary import entries
from nmax.models import AbstractModel, Prior, simulate

SPREAD = 5  # indices of the path that are looked at by default
TRIES = 100  # paths that may leave the support before a replication fails
AT_ONCE = 2**24  # numbers of a stretch of path that is drawn as a whole, so that one call serves all indices


@names_its_options
def calibrate(
    model: AbstractModel,
    length: int,
    *,
    key: PRNGKeyArray,
    prior: Mapping[str, Any] | None = None,
    replications: int = 200,
    method: Callable[..., Any] | None = None,
    observe_every: int = 1,
    inputs: Any = None,
    draws: int = 999,
    at: Sequence[int] | None = None,
    error_rate: float = 0.01,
    workers: int | None = None,
    out: str | Path | None = None,
    progress: bool = True,
) -> Calibration:
    r"""Simulation-based calibration: fit series whose truth was drawn from the prior, and rank the truth among the draws.

    If $\theta \sim p(\theta)$ and $x, y \sim p(x, y \mid \theta)$, then truth and draws of the exact posterior are
    exchangeable, and $u = (b + v\,(e + 1)) / (N + 1)$ is uniform for each parameter and each state, with b of N draws below
    the truth, e equal to it, and $v \sim U(0, 1)$. Three exact tests of that for each, and one verdict on all.

    Args:
        model: an `nmax.StateSpaceModel` or `nmax.SDE`.
        length: T, the steps of each simulated series.
        key: random key; replication k uses this key folded with k.
        prior: parameter name -> distribution, in place of the model's own for both simulation and fit. A wide prior yields
            series that no one would fit, or that are not finite. Paths that leave the model's `support` are drawn again,
            parameters and all.
        replications: how many series.
        method: `method(model, y, key=..., inputs=...)`, whose result has `theta(draws, key=...)` and
            `path(draws, start=..., stop=..., key=...)`; by default `nmax.fit` as it is. It is called from several threads.
        observe_every: as for `nmax.simulate`.
        inputs: exogenous inputs of shape (length + 1, k), the same for all series.
        draws: N, draws of each posterior.
        at: indices of the states to look at, out of 1..T; by default five spread over them, the last among them. Components
            that are exactly observed are left out.
        error_rate: probability, at the most, that a method without fault fails any test at all.
        workers: replications at a time, in threads; by default one a processor.
        out: a folder that keeps each replication as soon as it is finished. Another call with the same arguments goes on
            from there, more `replications` may be asked for, and several processes may share it.
        progress: whether to show a progress bar.

    Returns:
        The ranks, the tests, a verdict in words, a figure. Failed replications are counted; above 5 % nothing is judged.
    """
    key, length = check_key(key), check_count("length", length)
    task = _Task(
        model=_with_prior(model, prior),
        length=length,
        observe_every=check_count("observe_every", observe_every),
        inputs=inputs,
        method=_method(method),
        draws=check_count("draws", draws),
        at=_indices(at, length),
        key=key,
    )
    replications, error_rate = check_count("replications", replications), _share(error_rate)
    workers = check_count("workers", (os.cpu_count() or 1) if workers is None else workers)
    store = Store(None if out is None else Path(out), {} if out is None else _settings(task))
    _run(task, store, replications, workers, progress)
    done = [store.read(k) for k in range(replications)]
    fine = [one for one in done if one.failure is None]
    return Calibration(
        pit={label: np.array([one.pit[label] for one in fine]) for label in (fine[0].pit if fine else ())},
        failures={k: one.failure for k, one in enumerate(done) if one.failure is not None},
        error_rate=error_rate,
        seconds=np.array([one.seconds for one in done]),
    )


class _Task(NamedTuple):
    """All that a replication is made of, beside its number."""

    model: AbstractModel
    length: int
    observe_every: int
    inputs: Any
    method: Callable[..., Any]
    draws: int
    at: tuple[int, ...]
    key: PRNGKeyArray


def _with_prior(model: Any, prior: Mapping[str, Any] | None) -> AbstractModel:
    """The model under the prior that truths are drawn from: calibration holds only if the fit has the same one."""
    if not isinstance(model, AbstractModel):
        raise TypeError(f"`model` must be an nmax.StateSpaceModel or an nmax.SDE; got {type(model).__name__}.")
    if prior is not None:
        wanted, given = model.parameters.distributions, Prior(prior).distributions
        if set(given) != set(wanted):
            raise ValueError(
                f"`prior` must name the parameters {sorted(wanted)} of the model; "
                f"missing: {sorted(set(wanted) - set(given))}, unknown: {sorted(set(given) - set(wanted))}."
            )
        for name, own in wanted.items():
            shapes = [d.batch_shape + d.event_shape for d in (given[name], own)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    f"`prior[{name!r}]` must have the shape {shapes[1]} of the model's own; got {shapes[0]}. "
                    "Use `.expand(...)`, or arrays of that shape."
                )
        model = dataclasses.replace(cast(Any, model), prior={name: given[name] for name in wanted})
    _ = model.parameters, model.state_transforms  # made here once, not by several threads at a time
    return model


def _method(method: Any) -> Callable[..., Any]:
    if method is None:
        return functools.partial(fit, progress=False)
    if not callable(method):
        raise TypeError(
            "`method` must be a function, called as `method(model, y, key=..., inputs=...)`; "
            f"got {type(method).__name__}. Pass `lambda *a, **k: nmax.fit(*a, **k, progress=False)`, say."
        )
    return method


def _indices(at: Any, length: int) -> tuple[int, ...]:
    if at is None:
        at = np.linspace(1, length, SPREAD).round().astype(int)
    indices = np.unique(np.asarray(at).ravel()) if np.size(at) else np.zeros(0, int)
    if indices.dtype.kind not in "iu" or (len(indices) and not 1 <= indices[0] <= indices[-1] <= length):
        raise ValueError(
            f"`at` must hold whole numbers between 1 and {length}, the indices of states after the start; got {at!r}."
        )
    return tuple(int(i) for i in indices)


def _share(error_rate: Any) -> float:
    if isinstance(error_rate, bool) or not isinstance(error_rate, (int, float)) or not 0 < error_rate < 1:
        raise ValueError(f"`error_rate` must be a number between 0 and 1; got {error_rate!r}. The usual one is 0.01.")
    return float(error_rate)


def _run(task: _Task, store: Store, total: int, workers: int, progress: bool) -> None:
    """Threads, since models are closures that no other process could be handed; they share compiled programs."""
    from tqdm import tqdm

    def one(k: int) -> None:
        if not store.has(k):  # another process may have been quicker
            store.write(k, _replication(task, k))

    missing = [k for k in range(total) if not store.has(k)]
    if store.folder is not None:  # in an order of its own, so that processes that share a folder seldom do the same one
        missing = [int(k) for k in np.random.default_rng().permutation(missing)]
    pool = ThreadPoolExecutor(workers)
    with tqdm(
        total=total, initial=total - len(missing), unit="fit", desc="calibrate", file=sys.stderr, disable=not progress
    ) as bar:
        try:
            for finished in as_completed([pool.submit(one, k) for k in missing]):
                finished.result()
                bar.update()
        finally:  # after an interruption those under way are finished and kept, the others not begun
            pool.shutdown(cancel_futures=True)


def _replication(task: _Task, k: int) -> Replication:
    """Draw a truth, simulate, fit, rank. Whatever goes wrong is part of the result."""
    begun = time.perf_counter()
    theta_key, data_key, fit_key, draw_key, rank_key = jr.split(jr.fold_in(task.key, k), 5)
    try:
        theta, x, y = _truth(task, theta_key, data_key)
        found = task.method(task.model, y, key=fit_key, inputs=task.inputs)
        truth = entries({name: np.asarray(value)[None] for name, value in theta.items()})
        truth |= _labelled(x[None, list(task.at)], task)
        pit = _ranks(truth, _drawn(found, task, draw_key), task.draws, np.random.default_rng(_numbers(rank_key)))
        return Replication(pit, None, time.perf_counter() - begun)
    except Exception as error:
        return Replication({}, f"{type(error).__name__}: {error}", time.perf_counter() - begun)


def _truth(task: _Task, theta_key: PRNGKeyArray, data_key: PRNGKeyArray) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Parameters, path and observations of one replication.

    A posterior under a `support` is that of the model given that the path stays in it. So a path that leaves it is drawn
    again with parameters of its own: the truth, too, is then one of the model given that.
    """
    prior, transforms = task.model.parameters, task.model.state_transforms
    held = [k for k, transform in enumerate(transforms) if not isinstance(transform, IdentityTransform)]
    options = {"inputs": task.inputs, "observe_every": task.observe_every}
    for n in range(TRIES if held else 1):
        theta = prior.constrain(prior.sample(jr.fold_in(theta_key, n), 1)[0])
        try:
            x, y = simulate(task.model, theta, task.length, key=jr.fold_in(data_key, n), **options)
        except ValueError:
            if not held:
                raise
            continue
        if all(bool(np.all(transforms[k].codomain(jnp.asarray(x[:, k])))) for k in held):
            if not np.isfinite(y[:: task.observe_every]).all():
                raise ValueError("The simulated observations must be finite; some are not. Pass a narrower `prior`.")
            return theta, x, y
    raise ValueError(f"A simulated path must stay in `support`; {TRIES} did not. Pass a narrower `prior` or a smaller `dt`.")


def _drawn(found: Any, task: _Task, key: PRNGKeyArray) -> dict[str, np.ndarray]:
    """Draws of every quantity by label."""
    theta = {name: np.asarray(draws) for name, draws in found.theta(task.draws, key=key).items()}
    if not task.at:
        return entries(theta)
    low, high = task.at[0], task.at[-1] + 1
    if task.draws * (high - low) * task.model.state_size <= AT_ONCE:
        x = np.asarray(found.path(task.draws, start=low, stop=high, key=key))[:, np.array(task.at) - low]
    else:
        x = np.concatenate([found.path(task.draws, start=i, stop=i + 1, key=key) for i in task.at], axis=1)
    return entries(theta) | _labelled(x, task)


def _labelled(x: np.ndarray, task: _Task) -> dict[str, np.ndarray]:
    """States at the chosen indices by label, draws first; those that are exactly observed have no posterior."""
    size = task.model.state_size
    free = [c for c in range(size) if c not in task.model.exactly_observed]
    names = {c: "x" if size == 1 else f"x[{c}]" for c in free}
    return {f"{names[c]} at {i}": np.asarray(x[:, n, c], np.float64) for n, i in enumerate(task.at) for c in free}


def _ranks(
    truth: dict[str, np.ndarray], drawn: dict[str, np.ndarray], draws: int, rng: np.random.Generator
) -> dict[str, float]:
    out = {}
    for label, value in truth.items():
        among = drawn.get(label)
        if among is None or among.shape != (draws,) or not np.isfinite(among).all():
            came = "nothing" if among is None else f"{np.isfinite(among).sum()} finite ones out of {among.shape}"
            raise ValueError(f"What `method` returns must yield {draws} finite draws of {label}; got {came}.")
        below, ties = np.sum(among < value), np.sum(among == value)
        out[label] = float((below + rng.uniform() * (ties + 1)) / (draws + 1))
    return out


def _settings(task: _Task) -> dict[str, Any]:
    """What the replications of a folder have in common.

    Priors and models have no names, so each stands for itself by a few numbers that it yields.
    """
    prior = task.model.parameters
    draws = prior.sample(jr.key(0), 3)
    rows = None if task.inputs is None else np.asarray(task.inputs, np.float32)
    try:
        first = simulate(task.model, prior.constrain(draws[0]), 1, key=jr.key(0), inputs=None if rows is None else rows[:2])
        model = [f"{value:.3g}" for value in np.concatenate([first.x.ravel(), first.y.ravel()])]
    except ValueError:
        model = ["not finite"]
    return {
        "length": task.length,
        "observe_every": task.observe_every,
        "draws": task.draws,
        "at": list(task.at),
        "key": _numbers(task.key),
        "parameters": list(prior.distributions),
        "prior": [f"{value:.3g}" for value in np.asarray(draws).ravel()],
        "model": model,
        "inputs": None if rows is None else hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest(),
        "method": re.sub(r" at 0x\w+", "", repr(task.method)),
        "version": version("nmax"),
    }


def _numbers(key: PRNGKeyArray) -> list[int]:
    return [int(n) for n in np.asarray(jr.key_data(key)).ravel()]
