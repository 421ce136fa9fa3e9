"""`fit`: a model and a series in, the joint posterior out."""

from __future__ import annotations

import time
import warnings
from typing import Any

import jax.random as jr
from jaxtyping import PRNGKeyArray

from nmax._check import check_count, check_key, names_its_options
from nmax._optimiser import Optimiser
from nmax._posterior import Posterior
from nmax._pretrain import pretrain as pretrain_guide
from nmax._progress import make_meter
from nmax._train import Converged, init, train
from nmax._validate import check_model
from nmax.data import Windows, make_series
from nmax.guides import MovingAverageGuide
from nmax.models import AbstractModel

WINDOW = 50
DRAWS = 12


@names_its_options
def fit(
    model: AbstractModel,
    y: Any,
    *,
    key: PRNGKeyArray,
    inputs: Any = None,
    guide: MovingAverageGuide | None = None,
    window: int | None = None,
    draws: int = DRAWS,
    steps: int | None = None,
    until: Converged | None = None,
    optimiser: Optimiser | None = None,
    pretrain: int = 200,
    progress: bool = True,
) -> Posterior:
    """Fit the joint posterior of the parameters and the latent path by variational inference.

    The same arguments and key give the same result, on the same machine and versions.

    Args:
        model: an `nmax.StateSpaceModel` or `nmax.SDE`.
        y: observations of shape (T + 1, d_y) or (T + 1,), row i belonging to state i; NaN where nothing was observed.
        key: random key, `jax.random.key(0)` say.
        inputs: exogenous inputs of shape (T + 1, k); the model's functions then take a third argument.
        guide: settings of the variational family.
        window: steps in a window, by default 50. The cost of a training step grows with it, not with T.
        draws: windows a step, each with its own draw of θ and x, taken four times with mirrored noise.
        steps: train for just so many steps.
        until: or train until converged, the default, under these settings.
        optimiser: settings of the update rule.
        pretrain: steps of pre-training that take x near the observations; 0 for none.
        progress: whether to show a progress bar.

    Returns:
        The posterior: draws, paths, the ELBO, a summary, and why training ended.

    Raises:
        ValueError, TypeError: for input that cannot be right, before any work starts.
        DivergedError: if training meets nothing but non-finite gradients.
    """
    begun = time.perf_counter()
    key = check_key(key)
    draws, pretrain = check_count("draws", draws), check_count("pretrain", pretrain, least=0)
    goal = _goal(steps, until)
    settings: MovingAverageGuide = _instance("guide", guide, MovingAverageGuide)
    rule: Optimiser = _instance("optimiser", optimiser, Optimiser)
    window = None if window is None else check_count("window", window)
    series = make_series(y, inputs)
    check_model(model, series)
    windows = Windows(series.length, _window(window, series.length))

    guide_key, pretrain_key, train_key = jr.split(key, 3)
    q = settings.build(model, series, key=guide_key)
    q = pretrain_guide(q, series, windows, draws, pretrain, key=pretrain_key)
    state, training = init(q, rule, windows, draws, key=train_key)
    meter = make_meter(progress, goal if isinstance(goal, int) else None)
    outcome = train(state, series, training, goal, meter)
    return Posterior(model, series, windows, outcome, time.perf_counter() - begun)


def _goal(steps: int | None, until: Converged | None) -> int | Converged:
    if steps is not None and until is not None:
        raise ValueError("Pass `steps`, a fixed number, or `until`, the settings for a stop when converged; got both.")
    return check_count("steps", steps) if steps is not None else _instance("until", until, Converged)


def _instance(name: str, value: Any, kind: type) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be an nmax.{kind.__name__}; got {type(value).__name__}.")
    return value


def _window(window: int | None, length: int) -> int:
    if window is not None and window > length:
        warnings.warn(
            f"`window` can be at most {length}, the number of steps of the series; got {window}. Using {length}.",
            stacklevel=3,
        )
    return min(WINDOW if window is None else window, length)
