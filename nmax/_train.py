"""Training from the first step to the last: when it ends, why, and what came of it; `_step` has the steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from nmax._checkpoint import Keeper
from nmax._convergence import Converged, Convergence, Look, judged, last_third, moments
from nmax._iterates import Change, change_of
from nmax._objective import Elbo
from nmax._progress import Meter
from nmax._step import CHUNK, NEVER, History, State, Training, advance, rows_of_steps
from nmax._step import init as init
from nmax._step import step as step
from nmax._trees import named_leaves, with_leaves
from nmax.data import LongSeries, ManySeries, Series
from nmax.guides import Guide

MOST_SKIPPED = 50  # non-finite steps in a row before training gives up
PAIRS = (8, 64)  # estimates by which averaged weights are compared, at the least and at the most; else 1 % of the steps


class Outcome(NamedTuple):
    """What training came to."""

    guide: Guide
    history: History
    reason: str
    convergence: Convergence
    steps: int
    skipped: int

    @property
    def converged(self) -> bool:
        """Whether it came to rest."""
        return self.convergence.converged


class ProcessLostError(RuntimeError):
    """One of several processes that were fitting together is gone."""


class DivergedError(RuntimeError):
    """Training met nothing but non-finite gradients. `outcome` holds what there was before."""

    def __init__(self, message: str, outcome: Outcome):
        super().__init__(message)
        self.outcome = outcome


def train(
    state: State,
    series: Series | LongSeries | ManySeries,
    training: Training,
    until: int | Converged,
    meter: Meter,
    watch: Callable[[int, Guide], object] | None = None,
    keeper: Keeper | None = None,
) -> Outcome:
    """Train for a number of steps, or until converged; `watch` is shown the guide so far every `CHUNK` steps.

    Interrupted, it comes to what there is; or, where a keeper has a place for the state, it keeps it and lets the interrupt
    through. From a kept state it goes on as if nothing had been.
    """
    keeper = keeper or Keeper()
    if training.together is not None:
        together = training.together
        state, training = together.replicated(state), together.replicated(training)
        series = together.replicated(series) if isinstance(series, Series) else series
    log = _Log(state, series, training, Converged() if isinstance(until, int) else until)
    end = until if isinstance(until, int) else until.most
    ending = f"did the {until} steps asked for" if isinstance(until, int) else None
    if isinstance(until, int) and training.optimiser.level < 1:
        level = int(training.optimiser.level * until)
        state = state.falling(level, until - level)
    if (kept := keeper.read()) is not None:
        state = log.restored(state, *kept)
        if training.together is not None:
            state, log.averages = training.together.replicated((state, log.averages))
        meter.update(int(state.count), _mean_of_finite(log.elbo[-CHUNK:]), "fit")
        if isinstance(until, Converged) and int(state.fall_start) != NEVER:
            end = int(state.fall_start) + int(state.fall_steps)
    try:
        while (done := int(state.count)) < end:
            steps = min(CHUNK, end - done)
            state, record = advance(state, log.rows(state), training, jnp.int32(steps))
            log.add(state, record, steps)
            meter.update(steps, _mean_of_finite(log.elbo[-CHUNK:]), "settle" if done >= int(state.fall_start) else "fit")
            if watch is not None:
                watch(int(state.count), training.guide(state.average))
            if int(state.skipped_in_a_row) >= MOST_SKIPPED:
                raise DivergedError(_diverged(state), log.outcome(state, "diverged"))
            if isinstance(until, Converged) and int(state.fall_start) == NEVER:
                done += steps
                if log.at_rest() or done * (1 + until.cooldown) >= until.most:
                    end = min(until.most, done + math.ceil(until.cooldown * done))
                    state = state.falling(done, end - done)
            if keeper.due(now=done >= end):
                keeper.write(int(state.count), *log.kept(state))
    except jax.errors.JaxRuntimeError as error:
        if training.together is None:
            raise
        if log.complete(state):
            keeper.write(int(state.count), *log.kept(state))
        raise ProcessLostError(
            f"Another process was lost after {int(state.count)} steps; what was done so far is kept, if `out` was given. "
            f"Start all processes again, as many as you like, to go on. JAX says: {str(error).splitlines()[0]}"
        ) from error
    except KeyboardInterrupt:
        if keeper.keeps:
            if log.complete(state):
                keeper.write(int(state.count), *log.kept(state))
            raise
        ending = f"interrupted after {int(state.count)} steps"
    finally:
        meter.close()
        log.reader.shutdown(wait=True, cancel_futures=True)
    return log.outcome(state, ending)


class _Log:
    """What is noted along the way: the ELBO at every step, q(θ) every so many, averaged weights of the last third."""

    def __init__(self, state: State, series: Series | LongSeries | ManySeries, training: Training, rule: Converged):
        self.series, self.training, self.rule = series, training, rule
        self.records: list[History] = []
        self.looks: list[Look] = []
        self.averages: dict[int, Guide] = {}
        self.ahead: dict[int, Future[Series]] = {}
        self.reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nmax-reads")
        self._look(state)

    @property
    def elbo(self) -> Float[np.ndarray, " step"]:
        return self.history.total

    @property
    def history(self) -> History:
        if not self.records:
            return History(*(np.zeros(0, np.float32) for _ in History._fields))
        return History(*(np.concatenate(part) for part in zip(*self.records, strict=True)))

    def add(self, state: State, record: Elbo, steps: int) -> None:
        self.records.append(History(*(np.asarray(getattr(record, name))[:steps] for name in History._fields)))
        self._look(state)

    def _look(self, state: State) -> None:
        frozen, steps = self.training.frozen.theta_flow, int(state.count)
        flows = [eqx.combine(weights.theta_flow, frozen) for weights in (state.params, state.average)]
        self.looks.append(Look(steps, *(np.asarray(moments(flow), np.float64) for flow in flows)))
        wanted = {look.steps for look in last_third(self.looks)}
        self.averages = {k: weights for k, weights in (self.averages | {steps: state.average}).items() if k in wanted}

    def rows(self, state: State) -> Series:
        """What the next steps see; of a series on disk, the steps after them are read meanwhile."""
        first = int(state.count)
        rows = self.ahead.pop(first, None)
        if not isinstance(self.series, Series):
            self.ahead = {first + CHUNK: self.reader.submit(rows_of_steps, state, self.series, self.training, first + CHUNK)}
        return rows_of_steps(state, self.series, self.training, first) if rows is None else rows.result()

    def complete(self, state: State) -> bool:
        """Whether the state and what was noted are of the same step: an interrupt may come between the two."""
        return len(self.elbo) == int(state.count) == self.looks[-1].steps

    def kept(self, state: State) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state and all that was noted, as arrays by name."""
        arrays = named_leaves(state, "state") | {f"history.{name}": part for name, part in self.history._asdict().items()}
        for name in Look._fields:
            arrays[f"looks.{name}"] = np.stack([getattr(look, name) for look in self.looks])
        for steps, weights in self.averages.items():
            arrays |= named_leaves(weights, f"average{steps}")
        return arrays, {"averages": list(self.averages)}

    def restored(self, state: State, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> State:
        """Take over what was kept, and return the state."""
        state = with_leaves(state, arrays, "state")
        self.records = [History(*(arrays[f"history.{name}"] for name in History._fields))]
        rows = zip(*(arrays[f"looks.{name}"] for name in Look._fields), strict=True)
        self.looks = [Look(int(steps), *moments) for steps, *moments in rows]
        self.averages = {steps: with_leaves(state.average, arrays, f"average{steps}") for steps in facts["averages"]}
        return state

    def at_rest(self) -> bool:
        return self.rule.still(self.elbo) and self.rule.stationary(np.stack([look.iterate for look in self.looks[1:]]))

    def outcome(self, state: State, ending: str | None) -> Outcome:
        """What it all came to; `ending` says why, unless it is for the rule to say."""
        history, full = self.history, min(int(state.fall_start), int(state.count))
        ended = ending is None or ending.startswith("did")
        gain = self._gain(state)
        labels = self.training.frozen.model.parameters.labels
        record = judged(self.looks, history.total, gain, full, self.rule, labels, ended=ended)
        reason = self.rule.reason(record, history.total[:full], int(state.count)) if ending is None else ending
        guide = self.training.guide(state.average)
        guide = guide if self.training.together is None else self.training.together.local(guide)
        return Outcome(guide, history, reason, record, int(state.count), int(state.skipped))

    def _gain(self, state: State) -> Change:
        """What the ELBO of the averaged weights gained over the last third, by the same windows and noise for both."""
        steps, since = int(state.count), last_third(self.looks)[0].steps
        gains = []
        for k in range(int(np.clip(steps // CHUNK, *PAIRS)) if since < steps else 0):
            ends = [
                dataclasses.replace(state, params=weights, count=state.count + k)
                for weights in (self.averages[since], state.average)
            ]
            rows = rows_of_steps(state, self.series, self.training, steps + k)
            before, after = (advance(end, rows, self.training, jnp.int32(1))[1].total[0] for end in ends)
            gains.append(float(after - before))
        return change_of(np.array(gains))


def _mean_of_finite(elbo: Float[np.ndarray, " step"]) -> float:
    finite = elbo[np.isfinite(elbo)]
    return float(finite.mean()) if len(finite) else math.nan


def _diverged(state: State) -> str:
    return (
        f"The gradient must be finite; it was not for {int(state.skipped_in_a_row)} steps in a row "
        f"({int(state.skipped)} of {int(state.count)} in all). Try a smaller learning rate "
        "(`optimiser=nmax.Optimiser(rate=1e-3, theta_rate=5e-3)`), a `support` for states that must stay positive, "
        "a smaller `dt`, or priors with less weight on values for which the model is not defined."
    )
