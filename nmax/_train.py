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
    if isinstance(until, int) and training.optimiser.level < 1:
        level = int(training.optimiser.level * until)
        state = state.falling(level, until - level)
    log = _Log(state, series, training, until)
    if (kept := keeper.read()) is not None:
        log.restore(*kept)
        meter.update(log.steps, _mean_of_finite(log.elbo[-CHUNK:]), "fit")
    try:
        _go_on(log, meter, watch, keeper)
        return log.outcome(f"did all {until} steps" if isinstance(until, int) else None)
    except jax.errors.JaxRuntimeError as error:
        if training.together is None:
            raise
        keeper.write(log.steps, *log.kept())
        raise ProcessLostError(
            f"Another process was lost after {log.steps} steps; what was done so far is kept, if `out` was given. "
            f"Start all processes again, as many as you like, to go on. JAX says: {str(error).splitlines()[0]}"
        ) from error
    except KeyboardInterrupt:
        if keeper.keeps:
            keeper.write(log.steps, *log.kept())
            raise
        return log.outcome(f"interrupted after {log.steps} steps")
    finally:
        meter.close()
        log.reader.shutdown(wait=True, cancel_futures=True)


def _go_on(log: _Log, meter: Meter, watch: Callable[[int, Guide], object] | None, keeper: Keeper) -> None:
    """Take all steps that are left."""
    steps = log.decided()
    while steps:
        phase = "settle" if log.steps >= int(log.state.fall_start) else "fit"
        log.add(*advance(log.state, log.rows(), log.training, jnp.int32(steps)), steps)
        meter.update(steps, _mean_of_finite(log.elbo[-CHUNK:]), phase)
        if watch is not None:
            watch(log.steps, log.training.guide(log.state.average))
        steps = log.decided()
        if keeper.due(now=not steps):
            keeper.write(log.steps, *log.kept())


class _Noted(NamedTuple):
    """A state of training, and what was noted on the way there; both are of the same step."""

    state: State
    records: tuple[History, ...]
    looks: tuple[Look, ...]
    averages: dict[int, Guide]


class _Log:
    """How far training is, and what was noted: the ELBO at each step, q(θ) now and then, averaged weights of the last third.

    All of it is replaced by one assignment: an interrupt, or a step that failed, leaves what there was before.
    """

    def __init__(self, state: State, series: Series | LongSeries | ManySeries, training: Training, until: int | Converged):
        self.series, self.training, self.until = series, training, until
        self.rule = Converged() if isinstance(until, int) else until
        self.ahead: dict[int, Future[Series]] = {}
        self.reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nmax-reads")
        self.noted = self._looked(_Noted(state, (), (), {}))

    @property
    def state(self) -> State:
        return self.noted.state

    @property
    def steps(self) -> int:
        return int(self.state.count)

    @property
    def elbo(self) -> Float[np.ndarray, " step"]:
        return self.history.total

    @property
    def history(self) -> History:
        if not self.noted.records:
            return History(*(np.zeros(0, np.float32) for _ in History._fields))
        return History(*(np.concatenate(part) for part in zip(*self.noted.records, strict=True)))

    def add(self, state: State, record: Elbo, steps: int) -> None:
        """Note so many steps, which lead to this state; `advance` returns before they are done, here they are waited for."""
        done = History(*(np.asarray(getattr(record, name))[:steps] for name in History._fields))
        self.noted = self._looked(self.noted._replace(state=state, records=(*self.noted.records, done)))

    def _looked(self, noted: _Noted) -> _Noted:
        """The same with a look at q(θ)."""
        frozen, state, steps = self.training.frozen.theta_flow, noted.state, int(noted.state.count)
        flows = [eqx.combine(weights.theta_flow, frozen) for weights in (state.params, state.average)]
        looks = (*noted.looks, Look(steps, *(np.asarray(moments(flow), np.float64) for flow in flows)))
        wanted = {look.steps for look in last_third(looks)}
        averages = {k: weights for k, weights in (noted.averages | {steps: state.average}).items() if k in wanted}
        return noted._replace(looks=looks, averages=averages)

    def decided(self) -> int:
        """How many steps to take next, none at the end; the learning rates fall from here on if it has come to rest.

        This rests on nothing but what is kept: taken up again before it was decided, training goes the same way.
        """
        state, until, done = self.state, self.until, self.steps
        if int(state.skipped_in_a_row) >= MOST_SKIPPED:
            raise DivergedError(_diverged(state), self.outcome("diverged"))
        if isinstance(until, int):
            return min(CHUNK, until - done)
        if int(state.fall_start) == NEVER and (self._at_rest() or done * (1 + until.cooldown) >= until.most):
            state = state.falling(done, min(until.most - done, math.ceil(until.cooldown * done)))
            self.noted = self.noted._replace(state=state)
        falling = int(state.fall_start) != NEVER
        return min(CHUNK, (int(state.fall_start) + int(state.fall_steps) if falling else until.most) - done)

    def _at_rest(self) -> bool:
        iterates = [look.iterate for look in self.noted.looks[1:]]
        return self.rule.still(self.elbo) and self.rule.stationary(np.stack(iterates))

    def rows(self) -> Series:
        """What the next steps see; of a series on disk, the steps after them are read meanwhile."""
        state, first = self.state, self.steps
        rows = self.ahead.pop(first, None)
        if not isinstance(self.series, Series):
            self.ahead = {first + CHUNK: self.reader.submit(rows_of_steps, state, self.series, self.training, first + CHUNK)}
        return rows_of_steps(state, self.series, self.training, first) if rows is None else rows.result()

    def kept(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The state and all that was noted, as arrays by name."""
        state, _, looks, averages = self.noted
        arrays = named_leaves(state, "state") | {f"history.{name}": part for name, part in self.history._asdict().items()}
        for name in Look._fields:
            arrays[f"looks.{name}"] = np.stack([getattr(look, name) for look in looks])
        for steps, weights in averages.items():
            arrays |= named_leaves(weights, f"average{steps}")
        return arrays, {"averages": list(averages)}

    def restore(self, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> None:
        """Take over what was kept."""
        state = with_leaves(self.state, arrays, "state")
        averages = {steps: with_leaves(state.average, arrays, f"average{steps}") for steps in facts["averages"]}
        if self.training.together is not None:
            state, averages = self.training.together.replicated((state, averages))
        rows = zip(*(arrays[f"looks.{name}"] for name in Look._fields), strict=True)
        looks = tuple(Look(int(steps), *moments) for steps, *moments in rows)
        self.noted = _Noted(state, (History(*(arrays[f"history.{name}"] for name in History._fields)),), looks, averages)

    def outcome(self, ending: str | None) -> Outcome:
        """What it all came to; `ending` says why, unless it is for the rule to say."""
        state, history = self.state, self.history
        full = min(int(state.fall_start), self.steps)
        ended = ending is None or ending.startswith("did")
        gain = self._gain()
        labels = self.training.frozen.model.parameters.labels
        record = judged(self.noted.looks, history.total, gain, full, self.rule, labels, ended=ended)
        reason = self.rule.reason(record, history.total[:full], self.steps) if ending is None else ending
        guide = self.training.guide(state.average)
        guide = guide if self.training.together is None else self.training.together.local(guide)
        return Outcome(guide, history, reason, record, self.steps, int(state.skipped))

    def _gain(self) -> Change:
        """What the ELBO of the averaged weights gained over the last third, by the same windows and noise for both."""
        state, steps, since = self.state, self.steps, last_third(self.noted.looks)[0].steps
        gains = []
        for k in range(int(np.clip(steps // CHUNK, *PAIRS)) if since < steps else 0):
            ends = [
                dataclasses.replace(state, params=weights, count=state.count + k)
                for weights in (self.noted.averages[since], state.average)
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
