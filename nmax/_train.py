"""Training in layers: `init` and `step`, `advance` for many steps at once, `train` for the whole of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._check import check_count, check_positive, with_named_options
from nmax._objective import Elbo, draw_elbo
from nmax._optimiser import Optimiser, OptimiserState
from nmax._progress import Meter
from nmax.data import Series, Windows
from nmax.guides import Guide

CHUNK = 100  # steps between two looks at the ELBO, done in one call
MOST_SKIPPED = 50  # non-finite steps in a row before training gives up
NEVER = 2**30


class State(eqx.Module):
    """Everything training needs to go on: save this, and nothing is lost.

    Attributes:
        params: trainable leaves of the guide.
        average: their running average, which the result uses.
        opt_state: of the optimiser.
        key: the key of step n is folded from this one and n.
        first_shift: where in the series the windows of the first step lie.
        count: steps done.
        skipped: steps whose gradient was not finite, and which changed nothing.
        skipped_in_a_row: how many of them were the last ones.
        fall_start: the step from which the learning rates fall.
        fall_steps: over how many steps they fall.
    """

    params: Guide
    average: Guide
    opt_state: OptimiserState
    key: PRNGKeyArray
    first_shift: Int[Array, ""]
    count: Int[Array, ""]
    skipped: Int[Array, ""]
    skipped_in_a_row: Int[Array, ""]
    fall_start: Int[Array, ""]
    fall_steps: Int[Array, ""]

    def falling(self, start: int, steps: int) -> State:
        """The same state with the fall of the learning rates set."""
        return dataclasses.replace(self, fall_start=jnp.int32(start), fall_steps=jnp.int32(steps))


class Training(eqx.Module):
    """What does not change from step to step.

    Attributes:
        frozen: the guide without its trainable leaves.
        optimiser: the update rule.
        windows: the partition of the series.
        draws: windows a step.
    """

    frozen: Guide
    optimiser: Optimiser = eqx.field(static=True)
    windows: Windows = eqx.field(static=True)
    draws: int = eqx.field(static=True)

    def guide(self, params: Guide) -> Guide:
        """The guide with these trainable leaves."""
        return eqx.combine(params, self.frozen)


def init(guide: Guide, optimiser: Optimiser, windows: Windows, draws: int, *, key: PRNGKeyArray) -> tuple[State, Training]:
    """The state before the first step, and what stays the same."""
    params, frozen = eqx.partition(guide, eqx.is_inexact_array)
    params = jax.tree.map(lambda x: jnp.asarray(x, x.dtype), params)  # a weakly typed leaf would compile `step` twice
    zero = jnp.zeros((), jnp.int32)
    shift_key, key = jr.split(key)
    shift = jr.randint(shift_key, (), 0, windows.length)
    state = State(params, params, optimiser.init(params), key, shift, zero, zero, zero, jnp.int32(NEVER), jnp.int32(1))
    return state, Training(frozen, optimiser, windows, draws)


def step(state: State, series: Series, training: Training) -> tuple[State, Elbo]:
    """One gradient step. The same state always gives the same next state, and a non-finite gradient the same weights."""
    key = jr.fold_in(state.key, state.count)
    shift = training.windows.shift(state.first_shift, state.count, training.draws)

    def loss(params):
        guide = training.guide(params)
        elbo = draw_elbo(guide, series, training.windows, training.draws, shift=shift, key=key)
        return -elbo.total, elbo

    (value, elbo), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    optimiser = training.optimiser
    change, opt_state = optimiser.update(
        gradient, state.opt_state, state.params, count=state.count, falling=state.count >= state.fall_start
    )
    multiplier = optimiser.multiplier(state.count, state.fall_start, state.fall_steps)
    params = jax.tree.map(lambda p, u: p + multiplier * u, state.params, change)
    average = optimiser.averaged(state.average, params, state.count)

    finite = jnp.isfinite(value)
    for leaf in jax.tree.leaves(gradient):
        finite = finite & jnp.all(jnp.isfinite(leaf))

    def keep(new, old):
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)

    missed = jnp.where(finite, 0, 1).astype(jnp.int32)
    state = State(
        keep(params, state.params),
        keep(average, state.average),
        keep(opt_state, state.opt_state),
        state.key,
        state.first_shift,
        state.count + 1,
        state.skipped + missed,
        missed * (state.skipped_in_a_row + 1),
        state.fall_start,
        state.fall_steps,
    )
    return state, elbo


@eqx.filter_jit
def advance(state: State, series: Series, training: Training, steps: Int[Array, ""]) -> tuple[State, Elbo]:
    """At most `CHUNK` steps in one call, so that the cost of dispatch is spread; `steps` may vary without compiling anew."""
    blank = Elbo(*(jnp.full((CHUNK,), jnp.nan) for _ in History._fields))

    def body(k, carry):
        state, record = carry
        state, elbo = step(state, series, training)
        return state, jax.tree.map(lambda all_steps, one: all_steps.at[k].set(one), record, elbo)

    return jax.lax.fori_loop(0, steps, body, (state, blank))


class History(NamedTuple):
    """The parts of the ELBO at every step, in nats of the whole series."""

    theta: Float[np.ndarray, " step"]
    dynamics: Float[np.ndarray, " step"]
    data: Float[np.ndarray, " step"]
    entropy: Float[np.ndarray, " step"]
    balance: Float[np.ndarray, " step"]

    @property
    def total(self) -> Float[np.ndarray, " step"]:
        """The bound at every step."""
        return self.theta + self.dynamics + self.data + self.entropy + self.balance


@with_named_options
@dataclasses.dataclass(frozen=True, kw_only=True)
class Converged:
    """Train until the ELBO hardly rises any more, then let the learning rates fall.

    At full learning rates the weights jitter, and the ELBO's estimate at a step with them. Every so many steps the last
    quarter of all steps is held against the quarter before it. When the ELBO's rise between them is small against its
    spread from step to step, only smaller steps can gain more: the rates fall over `cooldown` times the steps done so far,
    and training ends.

    Attributes:
        least: steps before the first such look.
        most: steps in all, at which training ends whether or not the ELBO still rises.
        rise: the rise that counts as none, in standard deviations of one step's estimate.
        cooldown: length of the fall in units of the steps before it.
    """

    least: int = 1_700
    most: int = 20_000
    rise: float = 0.25
    cooldown: float = 2.0

    def __post_init__(self):
        check_count("least", self.least)
        check_count("most", self.most)
        check_positive("rise", self.rise)
        check_positive("cooldown", self.cooldown)

    def still(self, elbo: Float[np.ndarray, " step"]) -> bool:
        """Whether the ELBO hardly rises any more."""
        quarter = len(elbo) // 4
        before, after = elbo[-2 * quarter : -quarter], elbo[-quarter:]
        before, after = before[np.isfinite(before)], after[np.isfinite(after)]
        if len(elbo) < self.least or min(len(before), len(after)) < 2:
            return False
        return bool(after.mean() - before.mean() < self.rise * after.std(ddof=1))


class Outcome(NamedTuple):
    """What training came to."""

    guide: Guide
    history: History
    reason: str
    converged: bool
    steps: int
    skipped: int


class DivergedError(RuntimeError):
    """Training met nothing but non-finite gradients. `outcome` holds what there was before."""

    def __init__(self, message: str, outcome: Outcome):
        super().__init__(message)
        self.outcome = outcome


def train(
    state: State,
    series: Series,
    training: Training,
    until: int | Converged,
    meter: Meter,
    watch: Callable[[int, Guide], object] | None = None,
) -> Outcome:
    """Train for a number of steps, or until converged; `watch` is shown the guide so far every `CHUNK` steps."""
    records: list[History] = []
    end = until if isinstance(until, int) else until.most
    reason, converged = _reason_at_end(until), False
    cooling = False
    if isinstance(until, int) and training.optimiser.level < 1:
        level = int(training.optimiser.level * until)
        state = state.falling(level, until - level)
    try:
        while (done := int(state.count)) < end:
            steps = min(CHUNK, end - done)
            state, record = advance(state, series, training, jnp.int32(steps))
            records.append(History(*(np.asarray(getattr(record, name))[:steps] for name in History._fields)))
            elbo = np.concatenate([r.total for r in records])
            meter.update(steps, _mean_of_finite(elbo[-CHUNK:]), "settle" if done >= int(state.fall_start) else "fit")
            if watch is not None:
                watch(int(state.count), training.guide(state.average))
            if int(state.skipped_in_a_row) >= MOST_SKIPPED:
                raise DivergedError(_diverged(state), _outcome(state, training, records, "diverged", False))
            if not cooling and isinstance(until, Converged):
                done += steps
                converged = until.still(elbo)
                if converged or done * (1 + until.cooldown) >= until.most:
                    cooling = True
                    end = min(until.most, done + math.ceil(until.cooldown * done))
                    state = state.falling(done, end - done)
                    reason = _reason_converged(until, done) if converged else reason
    except KeyboardInterrupt:
        reason, converged = f"interrupted after {int(state.count)} steps", False
    finally:
        meter.close()
    return _outcome(state, training, records, reason, converged)


def _outcome(state: State, training: Training, records: list[History], reason: str, converged: bool) -> Outcome:
    empty = np.zeros(0, np.float32)
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(r, name) for r in records]) if records else empty for name in History._fields
    }
    guide = training.guide(state.average)
    return Outcome(guide, History(**parts), reason, converged, int(state.count), int(state.skipped))


def _mean_of_finite(elbo: Float[np.ndarray, " step"]) -> float:
    finite = elbo[np.isfinite(elbo)]
    return float(finite.mean()) if len(finite) else math.nan


def _reason_at_end(until: int | Converged) -> str:
    if isinstance(until, int):
        return f"did the {until} steps asked for"
    return f"stopped at the most steps allowed, {until.most}, while the ELBO was still rising"


def _reason_converged(until: Converged, done: int) -> str:
    return (
        f"converged: after {done} steps the ELBO rose, over a quarter of them, by less than {until.rise:g} standard "
        "deviations of one step's estimate; then the learning rates fell"
    )


def _diverged(state: State) -> str:
    return (
        f"The gradient must be finite; it was not for {int(state.skipped_in_a_row)} steps in a row "
        f"({int(state.skipped)} of {int(state.count)} in all). Try a smaller learning rate "
        "(`optimiser=nmax.Optimiser(rate=1e-3, theta_rate=5e-3)`), a `support` for states that must stay positive, "
        "a smaller `dt`, or priors with less weight on values for which the model is not defined."
    )
