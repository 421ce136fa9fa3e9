"""NUTS in a guide's noise: several chains at once, one step size, many draws in a call."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from nmax._noise_density import NoiseDensity, Position

CHUNK = 25  # draws of each chain in one call
FIRST_STEP = 1.7  # first step size, in units of the fourth root of 1 / dimension, which suits a standard normal density
DEEPEST = 8  # doublings of a trajectory at the most


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
        x: the path.
        acceptance: mean acceptance rate of the trajectory.
        gradients: its steps.
        divergent: whether it left the road.
        energy: at its end.
    """

    theta: Any
    x: Any
    acceptance: Any
    gradients: Any
    divergent: Any
    energy: Any


@eqx.filter_jit
def begun(density: NoiseDensity, chains: int, key: PRNGKeyArray) -> ChainState:
    """Chains started from independent draws of the guide itself."""
    blackjax, dual_averaging = _sampler()
    size, shape = density.shape
    e_key, z_key, key = jr.split(key, 3)
    position = Position(jr.normal(e_key, (chains, size)), jr.normal(z_key, (chains, *shape)))
    states = jax.vmap(lambda one: blackjax.nuts.init(one, density))(position)
    first = FIRST_STEP * (size + shape[0] * shape[1]) ** -0.25
    init, _, _ = dual_averaging(0.8)
    return ChainState(states, init(first), key)


@eqx.filter_jit
def go_on(
    density: NoiseDensity, state: ChainState, warm: Bool[Array, ""], target: Float[Array, ""]
) -> tuple[ChainState, Record]:
    """`CHUNK` more draws of every chain; while `warm`, the step size is adapted to the acceptance rate `target`.

    The metric is the identity, since the guide has made the target nearly standard normal.
    """
    blackjax, dual_averaging = _sampler()
    kernel = blackjax.nuts.build_kernel()
    size, shape = density.shape
    metric = jnp.ones(size + shape[0] * shape[1])
    _, update, final = dual_averaging(target)

    def one(carry, key):
        chains, adaptation = carry
        step = jnp.where(warm, jnp.exp(adaptation.log_step_size), final(adaptation))
        keys = jr.split(key, chains.logdensity.shape[0])
        chains, info = jax.vmap(lambda k, s: kernel(k, s, density, step, metric, DEEPEST))(keys, chains)
        adapted = update(adaptation, jnp.mean(info.acceptance_rate))
        adaptation = jax.tree.map(lambda new, old: jnp.where(warm, new, old), adapted, adaptation)
        theta, x = jax.vmap(density.states)(chains.position)
        gradients = info.num_integration_steps.astype(jnp.float32)
        return (chains, adaptation), Record(theta, x, info.acceptance_rate, gradients, info.is_divergent, info.energy)

    key, own = jr.split(state.key)
    (chains, adaptation), record = jax.lax.scan(one, (state.chains, state.adaptation), jr.split(own, CHUNK))
    return ChainState(chains, adaptation, key), record


@eqx.filter_jit
def gradient(density: NoiseDensity, position: Any) -> tuple[Array, Position]:
    """Density and gradient of every chain, what sampling spends its time on."""
    return jax.vmap(jax.value_and_grad(density))(position)


def _sampler() -> Any:
    """BlackJAX and its rule for the step size; imported only here, since importing it opens a device."""
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return blackjax, dual_averaging_adaptation
