"""Where distributions live: a density asked for outside its support is a number without meaning, not an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from nmax.data import Series
from nmax.models._base import AbstractModel

UNCONSTRAINED = np.linspace(-8.0, 8.0, 33, dtype=np.float32)  # at which states of a support are tried


def check_transition_support(model: AbstractModel, transition: dist.Distribution) -> None:
    """Refuse a transition that is discrete, or that lives on less than the model's `support`."""
    base, name = _base(transition.support), type(_plain(transition)).__name__
    words = _in_words(base)
    if transition.support is not None and transition.support.is_discrete:
        raise ValueError(
            f"`transition(x, theta)` must be a continuous distribution; got {name}. Discrete latent states are not for this "
            "library: sum them out, or approximate counts by a continuous state."
        )
    if words is None:
        return
    for k, transform in enumerate(model.state_transforms):
        reached = transform(jnp.asarray(UNCONSTRAINED))
        if k not in model.exactly_observed and not bool(jnp.all(base(reached))):
            raise ValueError(
                f"`support` must lie within that of the transition: {name} has a density on {words} alone, and component "
                f"{k} of the state may be {float(reached[0]):.3g}. Pass `support=dist.constraints.positive`, or another."
            )


def check_data_in_support(
    model: AbstractModel, observation: dist.Distribution, series: Series, rows: Sequence[str] = ()
) -> None:
    """Refuse data that an observation distribution with a fixed support cannot produce.

    Where the series is some rows of a longer one, or of several, `rows` is what the refusal calls them.
    """
    base = _base(observation.support)
    words = _in_words(base)
    if words is None:
        return
    exact = tuple(model.exactly_observed.values())
    columns = [k for k in range(series.columns) if k not in exact]
    values, observed = np.asarray(series.values)[:, columns], np.asarray(series.observed)[:, columns]
    bad = observed & ~np.asarray(base(values))
    if bad.any():
        row, column = (int(axis[0]) for axis in bad.nonzero())
        where = rows[row] if rows else f"row {row}"
        raise ValueError(
            f"`y` must lie in the support of `observation`: {type(_plain(observation)).__name__} is for {words}, and column "
            f"{columns[column]} holds {values[row, column]:g} at {where} ({_how_many(bad, rows)}). "
            "Take another distribution, transform the data, or set them to NaN."
        )


def _how_many(bad: np.ndarray, rows: Sequence[str]) -> str:
    """How many entries are such; where only some rows were looked at, how many of those."""
    if not rows:
        return f"{int(bad.sum())} such in all"
    found = {rows[int(k)] for k in np.flatnonzero(bad.any(axis=1))}
    return f"{len(found)} of {len(set(rows))} rows looked at have such"


def _in_words(support: Any) -> str | None:
    """What a support holds, if that does not depend on the state; None for others, and for all numbers."""
    if isinstance(support, type(constraints.boolean)):
        return "0 and 1"
    bounds = {name: getattr(support, f"{name}_bound") for name in ("lower", "upper") if hasattr(support, f"{name}_bound")}
    if not bounds or not all(isinstance(bound, (int, float)) for bound in bounds.values()):
        return None
    kind = "whole numbers" if support.is_discrete else "numbers"
    words = {"lower": "from", "upper": "up to"}
    return " ".join([kind, *(f"{words[name]} {bound:g}" for name, bound in bounds.items())])


def _base(support: Any) -> Any:
    return support.base_constraint if isinstance(support, constraints.independent) else support


def _plain(distribution: Any) -> Any:
    return distribution.base_dist if isinstance(distribution, dist.Independent) else distribution
