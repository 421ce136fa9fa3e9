"""Training step by step: `init`, `step`, and `advance` for many steps at once."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._objective import Elbo, draw_elbo
from nmax._optimiser import Optimiser, OptimiserState
from nmax._processes import AXIS, Processes, processes
from nmax.data import LongSeries, ManySeries, Series, Windows
from nmax.guides import Guide, stretches

CHUNK = 100  # steps between two looks at the ELBO, done in one call
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
        draws: windows a step, of all processes together.
        together: the processes that divide the windows of a step, if there are several.
    """

    frozen: Guide
    optimiser: Optimiser = eqx.field(static=True)
    windows: Windows = eqx.field(static=True)
    draws: int = eqx.field(static=True)
    together: Processes | None = eqx.field(static=True, default=None)

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
    together = processes()
    if together is not None and draws % together.count:
        raise ValueError(
            f"`draws`, the windows a step, must be a multiple of the {together.count} processes; got {draws}. Pass "
            f"`draws={-(-draws // together.count) * together.count}`, say."
        )
    return state, Training(frozen, optimiser, windows, draws, together)


def step(state: State, series: Series, training: Training) -> tuple[State, Elbo]:
    """One gradient step. The same state always gives the same next state, and a non-finite gradient the same weights."""
    key = jr.fold_in(state.key, state.count)
    shift = training.windows.shift(state.first_shift, state.count, training.draws)

    together = training.together
    part = None if together is None else (jax.lax.axis_index(AXIS), together.count)

    def loss(params):
        guide = training.guide(params)
        elbo = draw_elbo(guide, series, training.windows, training.draws, shift=shift, key=key, part=part)
        return -elbo.total, elbo

    (value, elbo), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
    if together is not None:
        flat, unflat = ravel_pytree((value, elbo, gradient))  # one all-reduce: each costs the same, however short
        value, elbo, gradient = unflat(jax.lax.pmean(flat, AXIS))
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
    """At most `CHUNK` steps in one call, so that the cost of dispatch is spread; `steps` may vary without compiling anew.

    The series is whole, or what `rows_of_steps` has read of it. Several processes do it together.
    """
    if training.together is None:
        return _advance(state, series, training, steps)
    arrays, rest = eqx.partition((state, series, training, steps), eqx.is_array)
    spread = PartitionSpec(None, AXIS) if series.values.ndim == 4 else PartitionSpec()
    specs = PartitionSpec(), spread, PartitionSpec(), PartitionSpec()
    whole = PartitionSpec()
    mapped = jax.shard_map(
        lambda own: _advance(*eqx.combine(own, rest)),
        mesh=training.together.mesh,
        in_specs=(specs,),
        out_specs=(whole, whole),
        check_vma=False,
    )
    return mapped(arrays)


def _advance(state: State, series: Series, training: Training, steps: Int[Array, ""]) -> tuple[State, Elbo]:
    blank = Elbo(*(jnp.full((CHUNK,), jnp.nan) for _ in History._fields))
    by_step = series.values.ndim == 4

    def body(k, carry):
        state, record = carry
        own = jax.tree.map(lambda rows: rows[k], series) if by_step else series
        state, elbo = step(state, own, training)
        return state, jax.tree.map(lambda all_steps, one: all_steps.at[k].set(one), record, elbo)

    return jax.lax.fori_loop(0, steps, body, (state, blank))


def rows_of_steps(state: State, series: Series | LongSeries | ManySeries, training: Training, first: int) -> Series:
    """What the `CHUNK` steps from step `first` on will see of a series: all of it, or the rows of their windows, by step."""
    if isinstance(series, Series):
        return series
    guide, windows, draws = training.guide(state.params), training.windows, training.draws
    count = jnp.arange(first, first + CHUNK, dtype=jnp.int32)
    shift = jax.vmap(lambda turn: windows.shift(state.first_shift, turn, draws))(count)
    chosen = jax.tree.map(np.asarray, jax.vmap(lambda s: windows.spread(s, draws))(shift))
    together = training.together
    if together is not None:  # each process reads its own windows, and no others
        own = draws // together.count
        chosen = jax.tree.map(lambda a: a[:, together.rank * own : (together.rank + 1) * own], chosen)
    flat = jax.tree.map(lambda a: a.reshape(-1), chosen)
    rows = stretches(guide, series, flat.start - 1, windows.width + 1, flat.which)
    rows = jax.tree.map(lambda a: a.reshape(*chosen.start.shape, *a.shape[1:]), rows)
    return rows if together is None else together.joined(rows, axis=1)


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
