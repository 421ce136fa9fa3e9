"""The settings of a fit as one object that can be written down and read again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax import features as own_features
from nmax._check import check_count
from nmax._convergence import Converged
from nmax._optimiser import Optimiser
from nmax.features import AbstractFeature
from nmax.guides import LookaheadGuide, MovingAverageGuide

LOOKAHEAD_STEPS = 600  # of its neural layers
KINDS: dict[str, type] = {kind.__name__: kind for kind in (LookaheadGuide, MovingAverageGuide, Optimiser, Converged)}
FEATURES: dict[str, type] = {
    name: kind
    for name, kind in vars(own_features).items()
    if isinstance(kind, type) and issubclass(kind, AbstractFeature) and kind is not AbstractFeature
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What `nmax.fit` was asked for, beside the model and the data; see there for the fields."""

    key: PRNGKeyArray
    guide: LookaheadGuide | MovingAverageGuide
    goal: int | Converged
    window: int | None = None
    draws: int | None = None
    optimiser: Optimiser | None = None
    pretrain: int = 200
    pretrain_at: Mapping[str, Any] | None = None

    def described(self) -> dict[str, Any]:
        """In terms of JSON."""
        at = None if self.pretrain_at is None else {k: np.asarray(v).tolist() for k, v in self.pretrain_at.items()}
        return {
            "key": {"impl": str(jr.key_impl(self.key)), "data": np.asarray(jr.key_data(self.key)).tolist()},
            "guide": _described(self.guide),
            "goal": _described(self.goal),
            "window": self.window,
            "draws": self.draws,
            "optimiser": _described(self.optimiser),
            "pretrain": self.pretrain,
            "pretrain_at": at,
        }


def settings_from(described: Mapping[str, Any]) -> FitSettings:
    """What `described` has written down."""
    try:
        key = described["key"]
        return FitSettings(
            key=jr.wrap_key_data(jnp.asarray(key["data"], jnp.uint32), impl=key["impl"]),
            guide=_made(described["guide"]),
            goal=_made(described["goal"]),
            window=described["window"],
            draws=described["draws"],
            optimiser=_made(described["optimiser"]),
            pretrain=described["pretrain"],
            pretrain_at=described["pretrain_at"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"The settings must be those that nmax.fit has written down; they are not: {error!r}.") from error


def _described(value: Any) -> Any:
    if isinstance(value, AbstractFeature):
        if FEATURES.get(type(value).__name__) is not type(value):
            raise ValueError(
                f"Features that are kept in a run folder must be those of nmax.features; got {type(value).__name__}. Fit "
                "without `out`, or with features of nmax."
            )
        return {"kind": type(value).__name__, **{f.name: getattr(value, f.name) for f in dataclasses.fields(value)}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _described(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, (tuple, list)):
        return [_described(entry) for entry in value]
    return value


def _made(described: Any) -> Any:
    if isinstance(described, list):
        return tuple(_made(entry) for entry in described)
    if not isinstance(described, dict):
        return described
    fields = {name: _made(value) for name, value in described.items() if name != "kind"}
    return (KINDS | FEATURES)[described["kind"]](**fields)


def guide_settings(guide: Any) -> LookaheadGuide | MovingAverageGuide:
    """The guide that was asked for, or the default one."""
    if guide is None:
        return LookaheadGuide()
    if not isinstance(guide, (LookaheadGuide, MovingAverageGuide)):
        raise TypeError(f"`guide` must be an nmax.LookaheadGuide or an nmax.MovingAverageGuide; got {type(guide).__name__}.")
    return guide


def goal_of(steps: int | None, until: Converged | None, settings: Any) -> int | Converged:
    """A number of steps, or the rule of when training has converged."""
    if steps is not None and until is not None:
        raise ValueError("Pass `steps`, a fixed number, or `until`, the settings for a stop when converged; got both.")
    if steps is None and until is None and isinstance(settings, LookaheadGuide):
        return LOOKAHEAD_STEPS
    return check_count("steps", steps) if steps is not None else instance_of("until", until, Converged)


def instance_of(name: str, value: Any, kind: type) -> Any:
    """Settings of a kind, the default ones if none came."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be an nmax.{kind.__name__}; got {type(value).__name__}.")
    return value
