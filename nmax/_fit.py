"""`fit`: a model and a series in, the joint posterior out."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._check import check_count, check_key, names_its_options
from nmax._convergence import Converged, with_theta_settled
from nmax._locate import Located, described, locate, relocate, training_windows
from nmax._optimiser import Optimiser
from nmax._posterior import Posterior
from nmax._pretrain import pretrain as pretrain_guide
from nmax._progress import Meter, make_meter
from nmax._train import DivergedError, Outcome, init, train
from nmax._validate import check_model
from nmax.data import Series, Table, Windows, as_table, make_series
from nmax.guides import Guide, LookaheadGuide, MovingAverageGuide, prior_centre
from nmax.models import AbstractModel

WINDOW = 50
DRAWS = 12
LOOKAHEAD_DRAWS = 6
LOOKAHEAD_STEPS = 600
LOOKAHEAD_RULE = Optimiser(rate=5e-3, hold=0, warmup=30, level=1 / 3, theta=False)


@names_its_options
def fit(
    model: AbstractModel,
    y: Any,
    *,
    key: PRNGKeyArray,
    inputs: Any = None,
    guide: LookaheadGuide | MovingAverageGuide | None = None,
    window: int | None = None,
    draws: int | None = None,
    steps: int | None = None,
    until: Converged | None = None,
    optimiser: Optimiser | None = None,
    pretrain: int = 200,
    pretrain_at: Mapping[str, Any] | None = None,
    progress: bool = True,
    watch: Callable[[int, Guide], object] | None = None,
) -> Posterior:
    """Fit the joint posterior of the parameters and the latent path; the same arguments and key give the same result.

    Args:
        model: an `nmax.StateSpaceModel` or `nmax.SDE`.
        y: observations of shape (T + 1, d_y) or (T + 1,), row i belonging to state i; NaN where nothing was observed.
        key: random key, `jax.random.key(0)` say.
        inputs: exogenous inputs of shape (T + 1, k); the model's functions then take a third argument.
        guide: settings of the variational family: `nmax.LookaheadGuide()`, the default, or `nmax.MovingAverageGuide()`, the
            paper's.
        window: steps in a window; by default chosen by the look-ahead, 50 for the paper's guide. The cost of a training
            step grows with it, not with T.
        draws: windows a step, each with its own draw of θ and x, taken four times with mirrored noise; by default 6, or 12
            for the paper's guide.
        steps: train for just so many steps; with the look-ahead, those of its neural layers if it has any, 600 by default.
        until: or train until converged, the default of the paper's guide, under these settings.
        optimiser: settings of the update rule.
        pretrain: steps of pre-training that take x near the observations, for the paper's guide; 0 for none.
        pretrain_at: parameters by name, for the paper's guide: q(θ) starts there, and pre-training takes x near its
            posterior there. A choice among rival modes (supplement G).
        progress: whether to show a progress bar.
        watch: called every 100 steps of training with the number of steps done and the guide so far.

    Returns:
        The posterior: draws, paths, the ELBO, a summary, and why training ended.

    Raises:
        ValueError, TypeError: for input that cannot be right, before any work starts.
        DivergedError: if training meets nothing but non-finite gradients.
    """
    begun = time.perf_counter()
    key = check_key(key)
    pretrain = check_count("pretrain", pretrain, least=0)
    draws = None if draws is None else check_count("draws", draws)
    settings = _settings(guide)
    goal = _goal(steps, until, settings)
    rule: Optimiser | None = None if optimiser is None else _instance("optimiser", optimiser, Optimiser)
    window = None if window is None else check_count("window", window)
    table = as_table(y, inputs)
    series = make_series(table.y, table.inputs)
    check_model(model, series)
    _check_start(pretrain_at, model, settings)
    width = None if window is None else _window(window, series.length)
    meter = make_meter(progress, goal if isinstance(goal, int) else None)
    if isinstance(settings, LookaheadGuide):
        count = draws or LOOKAHEAD_DRAWS
        return _fit_lookahead(settings, model, table, series, width, count, goal, rule, meter, watch, key, begun)
    windows = Windows(series.length, width or min(WINDOW, series.length))
    guide_key, pretrain_key, train_key = jr.split(key, 3)
    q = settings.build(model, series, key=guide_key)
    q = pretrain_guide(q, series, windows, draws or DRAWS, pretrain, at=pretrain_at, key=pretrain_key)
    state, training = init(q, rule or Optimiser(), windows, draws or DRAWS, key=train_key)
    outcome = train(state, series, training, goal, meter, watch)
    return Posterior(model, table, series, windows, outcome, time.perf_counter() - begun)


def _fit_lookahead(
    settings: LookaheadGuide,
    model: AbstractModel,
    table: Table,
    series: Series,
    width: int | None,
    draws: int,
    goal: int | Converged,
    rule: Optimiser | None,
    meter: Meter,
    watch: Callable[[int, Guide], object] | None,
    key: PRNGKeyArray,
    begun: float,
) -> Posterior:
    """Find the posterior by the look-ahead alone, then train the neural layers if there are any."""
    locate_key, train_key, centre_key = jr.split(key, 3)
    centre = prior_centre(model.parameters, key=centre_key)
    located = locate(settings, model, series, centre, width=width, meter=meter, key=locate_key)
    guide, notes = located.guide, described(located, series)
    if guide.encoder is None:
        meter.close()
        count = len(located.history.total)
        reason = f"q(θ) settled from {count} batches of gradients{_doubt(located)}"
        outcome = Outcome(guide, located.history, reason, located.convergence, count, 0)
    else:
        windows = training_windows(guide, series, located.windows)
        held = LOOKAHEAD_RULE if rule is None else dataclasses.replace(rule, theta=False)
        state, training = init(guide, held, windows, draws, key=train_key)
        try:
            outcome = train(state, series, training, goal, meter, watch)
            trained: Any = outcome.guide
            settled, rest = relocate(trained, series, located.windows, located.modes[0], key=locate_key)
            outcome = outcome._replace(guide=settled, convergence=with_theta_settled(outcome.convergence, rest))
        except DivergedError as error:  # what the look-ahead has found is not lost
            plain = settings.with_layers(guide, 0, series, key=train_key)
            reason = "the neural layers diverged, and were left out"
            outcome = error.outcome._replace(guide=plain, reason=reason, convergence=located.convergence)
    return Posterior(model, table, series, located.windows, outcome, time.perf_counter() - begun, notes, located.modes)


def _doubt(located: Located) -> str:
    """Why q(θ) is not held to be at rest, if it is not."""
    if located.convergence.converged:
        return ""
    if not located.modes[0].arrived:
        return "; Newton's steps towards the mode had not come to rest"
    return "; the last round was refused" if located.refused else "; the last round still moved it"


def _settings(guide: Any) -> LookaheadGuide | MovingAverageGuide:
    if guide is None:
        return LookaheadGuide()
    if not isinstance(guide, (LookaheadGuide, MovingAverageGuide)):
        raise TypeError(f"`guide` must be an nmax.LookaheadGuide or an nmax.MovingAverageGuide; got {type(guide).__name__}.")
    return guide


def _check_start(start: Mapping[str, Any] | None, model: AbstractModel, settings: Any) -> None:
    if start is None:
        return
    if isinstance(settings, LookaheadGuide):
        raise ValueError("`pretrain_at` is for nmax.MovingAverageGuide; the look-ahead finds rival modes by itself.")
    names = set(model.parameters.distributions)
    if set(start) != names:
        raise ValueError(f"`pretrain_at` must name the parameters {sorted(names)}; got {sorted(start)}.")
    if not np.isfinite(model.parameters.unconstrain(start)).all():
        raise ValueError(f"`pretrain_at` must lie inside the support of the prior; got {dict(start)}.")


def _goal(steps: int | None, until: Converged | None, settings: Any) -> int | Converged:
    if steps is not None and until is not None:
        raise ValueError("Pass `steps`, a fixed number, or `until`, the settings for a stop when converged; got both.")
    if steps is None and until is None and isinstance(settings, LookaheadGuide):
        return LOOKAHEAD_STEPS
    return check_count("steps", steps) if steps is not None else _instance("until", until, Converged)


def _instance(name: str, value: Any, kind: type) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be an nmax.{kind.__name__}; got {type(value).__name__}.")
    return value


def _window(window: int, length: int) -> int:
    if window > length:
        warnings.warn(
            f"`window` can be at most {length}, the number of steps of the series; got {window}. Using {length}.",
            stacklevel=3,
        )
    return min(window, length)
