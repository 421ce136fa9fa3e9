"""What a call of `fit` asks for, checked before any work starts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from nmax._check import check_count
from nmax._convergence import Converged
from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import AbstractModel

LOOKAHEAD_STEPS = 600


def checked_settings(guide: Any) -> LookaheadGuide | MovingAverageGuide:
    """The guide asked for, or the default."""
    if guide is None:
        return LookaheadGuide()
    if not isinstance(guide, (LookaheadGuide, MovingAverageGuide)):
        raise TypeError(f"`guide` must be an nmax.LookaheadGuide or an nmax.MovingAverageGuide; got {type(guide).__name__}.")
    return guide


def check_start(start: Mapping[str, Any] | None, model: AbstractModel, settings: Any) -> None:
    """Refuse a start of q(θ) that names other parameters than the model has, or lies outside their support."""
    if start is None:
        return
    if isinstance(settings, LookaheadGuide):
        raise ValueError("`pretrain_at` is for nmax.MovingAverageGuide; the look-ahead finds rival modes by itself.")
    names = set(model.parameters.distributions)
    if set(start) != names:
        raise ValueError(f"`pretrain_at` must name the parameters {sorted(names)}; got {sorted(start)}.")
    if not np.isfinite(model.parameters.unconstrain(start)).all():
        raise ValueError(f"`pretrain_at` must lie inside the support of the prior; got {dict(start)}.")


def checked_goal(steps: int | None, until: Converged | None, settings: Any) -> int | Converged:
    """When training is to end."""
    if steps is not None and until is not None:
        raise ValueError("Pass `steps`, a fixed number, or `until`, the settings for a stop when converged; got both.")
    if steps is None and until is None and isinstance(settings, LookaheadGuide):
        return LOOKAHEAD_STEPS
    return check_count("steps", steps) if steps is not None else checked_instance("until", until, Converged)


def checked_instance(name: str, value: Any, kind: type) -> Any:
    """Settings of a kind, by default those without arguments."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be an nmax.{kind.__name__}; got {type(value).__name__}.")
    return value


def checked_window(window: int, length: int) -> int:
    """A width that fits into the series."""
    if window > length:
        warnings.warn(
            f"`window` can be at most {length}, the number of steps of the series; got {window}. Using {length}.",
            stacklevel=3,
        )
    return min(window, length)
