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
