"""A guide as arrays and a recipe, and a guide built from them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from nmax._trees import named_leaves, with_leaves
from nmax.data import Series
from nmax.guides import Guide, LookaheadGuide, LookaheadSampler, MovingAverageGuide
from nmax.lookahead import around
from nmax.models import AbstractModel


def guide_recipe(guide: Guide) -> dict[str, Any]:
    """What a guide's settings do not say: what was chosen from the data."""
    recipe: dict[str, Any] = {"drawn": list(guide.drawn), "autoregressive": guide.theta_flow.autoregressive is not None}
    if isinstance(guide, LookaheadSampler):
        layers = max(len(guide.layers.flows) - 1, 0)  # the first one skews
        chosen = {"block": guide.block, "buffer": guide.buffer, "own": guide.own, "frozen": guide.frozen}
        recipe |= {"layers": layers, "known": guide.known is not None, **chosen}
    return recipe


def guide_arrays(guide: Guide, prefix: str = "") -> dict[str, np.ndarray]:
    """All its numbers by name."""
    return named_leaves(guide, prefix)


def guide_from(
    settings: LookaheadGuide | MovingAverageGuide,
    model: AbstractModel,
    series: Series,
    recipe: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    prefix: str = "",
) -> Any:
    """The guide that a recipe and arrays describe, for the same model and data."""
    guide: Any = settings.build(model, series, key=jr.key(0))
    if isinstance(settings, LookaheadGuide):
        guide = settings.with_layers(guide, int(recipe["layers"]), series, key=jr.key(0))
        known = around(jnp.zeros((series.length + 1, len(guide.drawn))), guide.spread) if recipe["known"] else None
        fields = {name: recipe[name] for name in ("block", "buffer", "own", "frozen")}
        guide = dataclasses.replace(guide, known=known, **fields)
    if not recipe["autoregressive"]:
        guide = eqx.tree_at(lambda g: g.theta_flow.autoregressive, guide, None, is_leaf=lambda leaf: leaf is None)
    if list(guide.drawn) != list(recipe["drawn"]):
        raise ValueError(
            f"The drawn state components must be {list(recipe['drawn'])}, as they were; with this model and series they are "
            f"{list(guide.drawn)}."
        )
    return with_leaves(guide, arrays, prefix)
