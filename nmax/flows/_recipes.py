"""Ready-made stacks of layers."""

from __future__ import annotations

import jax.random as jr
from jaxtyping import PRNGKeyArray

from nmax.flows._base import AbstractFlow
from nmax.flows._moving_average import MovingAverage
from nmax.flows._order import Backwards


def nma_layers(
    layers: int,
    length: int,
    *,
    state: int,
    side: int,
    theta: int,
    width: int = 32,
    depth: int = 2,
    reverse: bool = False,
    key: PRNGKeyArray,
) -> tuple[AbstractFlow, ...]:
    """The paper's stack: `layers` affine layers of receptive field `length`.

    With more than one component each layer keeps about half of them, in turn; with `reverse` every second layer runs
    against time.
    """
    made = []
    for number, layer_key in enumerate(jr.split(key, layers)):
        layer = MovingAverage(
            length,
            state=state,
            side=side,
            theta=theta,
            kept=kept_components(number, state),
            width=width,
            depth=depth,
            key=layer_key,
        )
        made.append(Backwards(layer) if reverse and number % 2 else layer)
    return tuple(made)


def kept_components(number: int, state: int) -> tuple[int, ...]:
    """Which components layer `number` keeps: d // 2 of them, moving on by as many from layer to layer."""
    half = state // 2
    return tuple(sorted((number * half + k) % state for k in range(half)))
