"""NUTS in a guide's noise: several chains at once, one step size, many draws in a call."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nmax._noise_density import NoiseDensity, Position, strong

CHUNK = 25  # draws of each chain in one call
FIRST_STEP, LONGEST_STEP = 0.5, 1.1  # angles of a step: the first, and the most
HALF, WHOLE = 1.03 * math.pi, 1.9 * math.pi  # between these a trajectory is seen to turn back
LOWER = 5e4  # nats by which the density at a start is taken for lower, so that the first trajectory leaves it
PATHS = 32  # made at a time
DEEPEST = 8  # doublings of a trajectory at the most
TEAM = 4  # chains that one program moves; several such teams have a thread each


class ChainState(eqx.Module):
    """Everything the chains need to go on.

    Attributes:
        chains: where each is.
        adaptation: of the step size all share.
        key: for what comes.
    """

    chains: Any
    adaptation: Any
    key: PRNGKeyArray


class Record(NamedTuple):
    """Draws of a call, with the draws along the first axis and the chains along the second.

    Attributes:
        theta: the parameters, unconstrained.
        e: their noise.
        z: the noise of the path.
        acceptance: mean acceptance rate of the trajectory.
        gradients: its steps.
        divergent: whether it left the road.
        energy: at its end.
    """

    theta: Any
    e: Any
    z: Any
    acceptance: Any
    gradients: Any
    divergent: Any
    energy: Any


@eqx.filter_jit
def begun(density: NoiseDensity, chains: int, key: PRNGKeyArray) -> ChainState:
    """Chains started from independent draws of the guide itself.

    They take the density for the guide's own, and much lower, until their first trajectory has left for good: that saves
    compiling the gradient once more. What comes of it must be thrown away.
    """
    from blackjax.mcmc.hmc import HMCState

    _, dual_averaging = _sampler()
    size, shape = density.shape
    e_key, z_key, key = jr.split(key, 3)
    position = Position(jr.normal(e_key, (chains, size)), jr.normal(z_key, (chains, *shape)))
    square: Any = jnp.sum(position.e**2, axis=1) + jnp.sum(position.z**2, axis=(1, 2))
    states = HMCState(position, -0.5 * square - LOWER, jax.tree.map(jnp.negative, position))
    init, _, _ = dual_averaging(0.8)
    adaptation = init(FIRST_STEP)
    adaptation = adaptation._replace(log_step_size_avg=jnp.log(FIRST_STEP))  # what is taken where nothing is warmed up
    return strong(ChainState(states, jax.tree.map(jnp.asarray, adaptation), key))


@eqx.filter_jit
def go_on(
    density: NoiseDensity, state: ChainState, warm: Bool[Array, ""], target: Float[Array, ""], count: Int[Array, ""]
) -> tuple[ChainState, Record]:
    """At most `CHUNK` more draws of every chain; while `warm`, the step is adapted to the acceptance rate `target`.

    The metric is the identity, since the guide has made the target nearly standard normal. `count` may vary without
    compiling anew; rows of the record beyond it are zero.
    """
    blackjax, dual_averaging = _sampler()
    kernel = blackjax.nuts.build_kernel(integrator=rotation)
    size, shape = density.shape
    metric = jnp.ones(size + shape[0] * shape[1])
    _, update, final = dual_averaging(target)
    key, own = jr.split(state.key)
    chains = state.chains.logdensity.shape[0]

    def one(k, carry):
        states, adaptation, record = carry
        step = whole_turns(jnp.where(warm, jnp.exp(adaptation.log_step_size), final(adaptation)))
        keys = jr.split(jr.fold_in(own, k), chains)
        states, info = jax.vmap(lambda key, at: kernel(key, at, density, step, metric, DEEPEST))(keys, states)
        adapted = _capped(update(adaptation, jnp.mean(info.acceptance_rate)))
        adaptation = jax.tree.map(lambda new, old: jnp.where(warm, new, old), adapted, adaptation)
        e, z = states.position
        theta, _ = jax.vmap(density.guide.theta)(e)
        gradients = info.num_integration_steps.astype(jnp.float32)
        row = Record(theta, e, z, info.acceptance_rate, gradients, info.is_divergent, info.energy)
        return states, adaptation, jax.tree.map(lambda rows, new: rows.at[k].set(new), record, row)

    number, noise = jnp.zeros((CHUNK, chains)), jnp.zeros((CHUNK, chains, size))
    path_noise = jnp.zeros((CHUNK, chains, *shape))
    blank = Record(noise, noise, path_noise, number, number, jnp.zeros((CHUNK, chains), bool), number)
    states, adaptation, record = jax.lax.fori_loop(0, count, one, (state.chains, state.adaptation, blank))
    return strong(ChainState(states, adaptation, key)), record


def teams(chains: int) -> int:
    """How many programs move so many chains, each in a thread."""
    return chains // TEAM if chains % TEAM == 0 else 1


def go_on_together(
    density: NoiseDensity, state: ChainState, warm: Bool[Array, ""], target: Float[Array, ""], count: Int[Array, ""]
) -> tuple[ChainState, Record]:
    """The same by teams of `TEAM` chains, where there are several whole ones, each on a core if there are as many.

    The steps of chains in one program wait for the longest trajectory among them. While `warm` each team adapts the step of
    all; where they end is averaged.
    """
    chains = state.chains.logdensity.shape[0]
    if teams(chains) == 1:
        return go_on(density, state, warm, target, count)

    def team(number: int) -> ChainState:
        own = jax.tree.map(lambda a: a[number * TEAM : (number + 1) * TEAM], state.chains)
        return ChainState(own, state.adaptation, jr.fold_in(state.key, number))

    parts = [team(number) for number in range(chains // TEAM)]
    go_on(density, parts[0], warm, target, jnp.int32(0))  # compiles, if that is not done, once and not in every thread
    with ThreadPoolExecutor(len(parts), thread_name_prefix="nmax-chains") as pool:
        done = list(pool.map(lambda own: jax.block_until_ready(go_on(density, own, warm, target, count)), parts))
    states, records = zip(*done, strict=True)
    moved = jax.tree.map(lambda *rows: jnp.concatenate(rows), *(own.chains for own in states))
    adaptation = jax.tree.map(
        lambda *sizes: jnp.stack(sizes).mean(axis=0).astype(sizes[0].dtype), *(s.adaptation for s in states)
    )
    record = jax.tree.map(lambda *rows: np.concatenate(rows, axis=1), *records)
    return ChainState(moved, adaptation, states[0].key), record


def _capped(adaptation: Any) -> Any:
    """Steps beyond the longest are not taken, so their size must not run away."""
    most = jnp.log(LONGEST_STEP)
    sizes = {name: jnp.minimum(getattr(adaptation, name), most) for name in ("log_step_size", "log_step_size_avg")}
    return adaptation._replace(**sizes)


def rotation(density: NoiseDensity, kinetic_energy: Any) -> Any:
    r"""An integrator for a density that is nearly standard normal: that part of the motion is done exactly.

    With $\ell$ the log density, the energy $-\ell(q) + \tfrac12 |p|^2$ is $\tfrac12 |q|^2 + \tfrac12 |p|^2$ plus a
    rest that is small where the guide is good. A step of angle ε: half a kick $p \mathrel{+}= \tfrac\epsilon2
    (\nabla\ell(q) + q)$, a turn of $(q, p)$ by ε, half a kick. Its error is that of the rest alone, whatever the
    dimension, where the leapfrog's step shrinks with the fourth root of it. Symplectic and reversible.
    """
    del kinetic_energy  # that of the identity metric
    value_and_gradient = jax.value_and_grad(density)

    def one_step(state, angle):
        q, p, _, slope = state
        cos, sin = jnp.cos(angle), jnp.sin(angle)

        def kick(p, q, slope):
            return jax.tree.map(lambda p, q, g: p + 0.5 * angle * (g + q), p, q, slope)

        p = kick(p, q, slope)
        q, p = jax.tree.map(lambda q, p: cos * q + sin * p, q, p), jax.tree.map(lambda q, p: cos * p - sin * q, q, p)
        value, slope = value_and_gradient(q)
        return type(state)(q, kick(p, q, slope), value, slope)

    return one_step


def whole_turns(angle: Float[Array, ""]) -> Float[Array, ""]:
    r"""A step no longer than `LONGEST_STEP` whose trajectories are seen to turn.

    NUTS looks after $2^k - 1$ steps whether the trajectory turns back, which it does between half a turn and a whole one: a
    step that leads from less than half a turn at one look past a whole one at the next would go round in circles.
    """
    angle = jnp.minimum(angle, LONGEST_STEP)
    looks = jnp.ceil(jnp.log2(HALF / angle + 1.0))
    return jnp.minimum(angle, WHOLE / (2.0**looks - 1.0))


@eqx.filter_jit
def paths(density: NoiseDensity, e: Float[Array, "draw param"], z: Float[Array, "draw time drawn"]) -> Array:
    """The paths of draws."""
    return jax.lax.map(lambda own: density.states(Position(*own))[1], (e, z), batch_size=PATHS)


@eqx.filter_jit
def gradient(density: NoiseDensity, position: Any) -> tuple[Array, Position]:
    """Density and gradient of every chain, what sampling spends its time on."""
    return jax.vmap(jax.value_and_grad(density))(position)


def _sampler() -> Any:
    """BlackJAX and its rule for the step size; imported only here, since importing it opens a device."""
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return blackjax, dual_averaging_adaptation
