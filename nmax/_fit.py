"""`fit`: a model and a series in, the joint posterior out."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._asked import check_start, checked_goal, checked_instance, checked_settings, checked_window
from nmax._check import check_count, check_key, check_positive, names_its_options
from nmax._checkpoint import Keeper, keeping
from nmax._claim import Claim
from nmax._convergence import Converged, with_theta_settled
from nmax._find import Found
from nmax._finite import NOT_FOUND, NoPosteriorError, check_finite
from nmax._give_back import give_back
from nmax._guide_file import guide_arrays, guide_from, guide_recipe
from nmax._load import load
from nmax._locate import Located, described, locate, relocate, training_windows
from nmax._many import posterior_of
from nmax._optimiser import Optimiser
from nmax._posterior import Posterior
from nmax._pretrain import pretrain as pretrain_guide
from nmax._processes import meeting
from nmax._progress import Meter, make_meter
from nmax._reweigh import corrected
from nmax._run_folder import EVERY, begin
from nmax._series_file import check_unchanged, looked_at, series_of
from nmax._settings import FitSettings
from nmax._stages import Stages
from nmax._start import Mode
from nmax._train import DivergedError, Outcome, init, train
from nmax._validate import check_model
from nmax.checks import before, warn
from nmax.data import Series, Table, Tables, Windows, tables_of, windows_over
from nmax.guides import Guide, LookaheadGuide, MovingAverageGuide, prior_centre
from nmax.models import AbstractModel

WINDOW = 50
DRAWS = 12
PRETRAINED = 100_000  # rows of a series on disk that pre-training sees
LOOKAHEAD_DRAWS = 6
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
    out: str | os.PathLike[str] | None = None,
    checkpoint_every: float = EVERY,
) -> Posterior:
    """Fit the joint posterior of the parameters and the latent path; the same arguments and key give the same result.

    Args:
        model: an `nmax.StateSpaceModel` or `nmax.SDE`.
        y: observations of shape (T + 1, d_y) or (T + 1,), row i belonging to state i; NaN where nothing was observed. Or a
            frame, a file, or a table, whose times are put on a grid: see `nmax.read`. Times that are numbers are put on the
            grid of an SDE, whose step is `dt`. Or a list of these: independent series that share θ (docs/long.md).
        key: random key, `jax.random.key(0)` say.
        inputs: exogenous inputs of shape (T + 1, k), or in any other form that `y` may have, or a list of the names of
            columns of `y`; the model's functions (all but `initial`) then take a third argument: for the step that produces
            $x_i$, and for $y_i$, row i. With a list of series a list of as many, or of names.
        guide: settings of the variational family: `nmax.LookaheadGuide()`, the default, or `nmax.MovingAverageGuide()`, the
            paper's.
        window: steps in a window, with which (not with T) the cost of a step grows; by default 50 for the paper's guide.
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
        out: a folder for settings, checkpoints and results, which `nmax.load` reads. The same call with the same folder
            goes on where an earlier one was stopped, or reads what it came to; another model, data or settings are
            refused. An interrupt then ends the call, after a last checkpoint, instead of returning what there is.
        checkpoint_every: seconds between two checkpoints, at the least.

    Returns:
        The posterior: draws, paths, the ELBO, a summary, and why training ended. Of a list of series an
        `nmax.ManyPosterior`, whatever the annotation says: θ given all of them, and by `one(k)` the posterior of each.

    Raises:
        ValueError, TypeError: for input that cannot be right, before any work starts.
        DivergedError, RunInUseError: if training meets no finite gradients; if another process is fitting into `out`.
    """
    asked = FitSettings(
        key=check_key(key),
        guide=(settings := checked_settings(guide)),
        goal=checked_goal(steps, until, settings),
        window=None if window is None else check_count("window", window),
        draws=None if draws is None else check_count("draws", draws),
        optimiser=None if optimiser is None else checked_instance("optimiser", optimiser, Optimiser),
        pretrain=check_count("pretrain", pretrain, least=0),
        pretrain_at=pretrain_at,
    )
    every = check_positive("checkpoint_every", checkpoint_every)
    table = tables_of(y, inputs, step=getattr(model, "dt", None))
    with meeting(), Claim(None if out is None else Path(out)) as claim:
        return _fitted(model, table, asked, claim, every, progress, watch)


def _fitted(
    model: AbstractModel,
    table: Table | Tables,
    asked: FitSettings,
    claim: Claim,
    every: float,
    progress: bool,
    watch: Callable[[int, Guide], object] | None,
) -> Any:
    """Check what was asked for, then find the posterior; in a run folder, if there is one."""
    begun, out = time.perf_counter(), claim.folder
    series: Any = series_of(table, out, progress)
    few, head, rows = looked_at(series, table)
    check_model(model, few, rows)
    check_start(asked.pretrain_at, model, asked.guide)
    width = None if asked.window is None else checked_window(asked.window, series.length)
    keeper, finished = Keeper(), False
    if out is not None:
        keeper, finished = begin(claim, model, table, series, asked, every)
    if finished and out is not None:
        return load(out, model, table)
    warn(before(model, head, few, getattr(series, "firsts", None)), stacklevel=4)
    meter = make_meter(progress, asked.goal if isinstance(asked.goal, int) else None)
    method = _fit_lookahead if isinstance(asked.guide, LookaheadGuide) else _fit_moving_average
    found: Any
    try:
        windows, outcome, *found = method(asked, model, series, width, meter, watch, keeper)
    except np.linalg.LinAlgError as error:
        raise NoPosteriorError(f"{NOT_FOUND} (linear algebra: {error})") from error
    give_back()
    posterior = posterior_of(model, table, series, windows, outcome, asked, time.perf_counter() - begun, *found)
    posterior.notes = (*table.notes, *posterior.notes)
    check_finite(posterior)
    check_unchanged(series)  # or the result would be of two series
    if out is not None:
        _saved(posterior, out)
    return posterior


def _fit_moving_average(
    asked: FitSettings,
    model: AbstractModel,
    series: Any,
    width: int | None,
    meter: Meter,
    watch: Callable[[int, Guide], object] | None,
    keeper: Keeper,
) -> tuple[Windows, Outcome]:
    """Pre-train the paper's guide, then train it."""
    settings: Any = asked.guide
    windows, draws = windows_over(series, width or min(WINDOW, series.length)), asked.draws or DRAWS
    guide_key, pretrain_key, train_key = jr.split(asked.key, 3)

    def pretrained() -> Guide:
        q, at = settings.build(model, series, key=guide_key), asked.pretrain_at
        seen = series if isinstance(series, Series) else series.beginning(PRETRAINED)
        own = Windows(seen.length, min(windows.width, seen.length))
        return pretrain_guide(q, seen, own, draws, asked.pretrain, at=at, key=pretrain_key)

    q = keeper.stage(
        "pretrained",
        pretrained,
        lambda guide: (guide_arrays(guide), guide_recipe(guide)),
        lambda arrays, recipe: guide_from(settings, model, series, recipe, arrays),
    )
    state, training = init(q, asked.optimiser or Optimiser(), windows, draws, key=train_key)
    return windows, train(state, series, training, asked.goal, meter, watch, keeper)


def _fit_lookahead(
    asked: FitSettings,
    model: AbstractModel,
    series: Any,
    width: int | None,
    meter: Meter,
    watch: Callable[[int, Guide], object] | None,
    keeper: Keeper,
) -> tuple[Windows, Outcome, tuple[str, ...], tuple[Mode, ...]]:
    """Find the posterior by the look-ahead alone, then train the neural layers if there are any."""
    settings: Any = asked.guide
    locate_key, train_key, centre_key = jr.split(asked.key, 3)
    stages = Stages(settings, model, series)

    def located_now() -> Located:
        centre = prior_centre(model.parameters, key=centre_key)
        options = {"width": width, "meter": meter, "key": locate_key}
        return locate(settings, model, series, centre, **options, kept=found_before)

    def found_before(make: Callable[[], Found]) -> Found:
        return keeper.stage("found", make, stages.found_written, stages.found_read)

    with keeping(keeper):
        located = keeper.stage("located", located_now, stages.located_written, stages.located_read)
    keeper.forget("pass-*")
    guide, notes = located.guide, described(located, series)
    if guide.encoder is None:
        meter.close()
        count = len(located.history.total)
        reason = f"q(θ) settled from {count} batches of gradients{_doubt(located)}"
        outcome = Outcome(guide, located.history, reason, located.convergence, count, 0)
        return located.windows, *corrected(outcome, notes, located, settings, series, key=locate_key), located.modes
    windows, rule = training_windows(guide, series, located.windows), asked.optimiser
    held = LOOKAHEAD_RULE if rule is None else dataclasses.replace(rule, theta=False)
    state, training = init(guide, held, windows, asked.draws or LOOKAHEAD_DRAWS, key=train_key)
    try:
        outcome = train(state, series, training, asked.goal, meter, watch, keeper)
        trained: Any = outcome.guide
        settled, rest = relocate(trained, series, located.windows, located.modes[0], key=locate_key)
        outcome = outcome._replace(guide=settled, convergence=with_theta_settled(outcome.convergence, rest))
    except DivergedError as error:  # what the look-ahead has found is not lost
        plain = settings.with_layers(guide, 0, series, key=train_key)
        reason = "the neural layers diverged, and were left out"
        outcome = error.outcome._replace(guide=plain, reason=reason, convergence=located.convergence)
    return located.windows, *corrected(outcome, notes, located, settings, series, key=locate_key), located.modes


def _saved(posterior: Posterior, folder: Path) -> None:
    """Write the result; where that fails, the posterior is still there, and so are the checkpoints."""
    try:
        posterior.save(folder)
    except OSError as error:
        warnings.warn(
            f"The result could not be written to {folder}: {error.strerror or error}. It is not lost: make room and call "
            "`save` on what `fit` returned, or go on from the last checkpoint with `nmax.resume`.",
            stacklevel=3,
        )


def _doubt(located: Located) -> str:
    """Why q(θ) is not held to be at rest, if it is not."""
    if located.convergence.converged:
        return ""
    if not located.modes[0].arrived:
        return "; Newton's steps towards the mode had not come to rest"
    return "; the last round was refused" if located.refused else "; the last round still moved it"
