"""What an experiment is: data, fits side by side, and claims that a run can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import AbstractModel


class Data(NamedTuple):
    """A model and a series, with what is known of the truth and of the posterior.

    Attributes:
        model: the model.
        y: observations, NaN where there is none.
        truth: parameters the series was simulated with, by name.
        x: the path it was simulated with.
        exact: draws of θ from a near-exact sampler, unconstrained, one row a draw; maybe of the first parameters only.
    """

    model: AbstractModel
    y: Float[np.ndarray, "rows obs"]
    truth: Mapping[str, Any] | None = None
    x: Float[np.ndarray, "rows state"] | None = None
    exact: Float[np.ndarray, "draw param"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One fit of an experiment.

    Attributes:
        name: of the case, unique in the experiment.
        data: makes the data; the argument says whether they are those of the shortened form.
        guide: settings of the guide.
        options: further arguments of `nmax.fit`.
        quick: arguments that replace those in the shortened form; `None` leaves the case out of it.
        stretch: indices of the path that are kept, `(start, stop)`.
        every: training steps between two looks at q(θ).
        seed: of the fit.
    """

    name: str
    data: Callable[[bool], Data]
    guide: LookaheadGuide | MovingAverageGuide
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    quick: Mapping[str, Any] | None = None
    stretch: tuple[int, int] = (0, 501)
    every: int = 500
    seed: int = 0


class Result(NamedTuple):
    """What a fit came to.

    Attributes:
        data: what was fitted.
        draws: of θ, unconstrained.
        paths: draws of the kept stretch.
        start: its first index.
        trace_steps: training steps at which q(θ) was looked at.
        trace_seconds: wall clock there, without the looking.
        trace_draws: draws of θ there.
        facts: seconds, steps, ELBO and its standard error, notes, as they are written to JSON.
    """

    data: Data
    draws: Float[np.ndarray, "draw param"]
    paths: Float[np.ndarray, "path time state"]
    start: int
    trace_steps: np.ndarray
    trace_seconds: np.ndarray
    trace_draws: np.ndarray
    facts: dict[str, Any]


Results = Mapping[str, Result]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """Something that must hold of the results.

    Attributes:
        text: the claim in words.
        measure: what is held against the limits.
        below: the most it may be.
        above: the least.
        source: who claims it: the paper, or this library.
        quick: whether it must hold of the shortened form as well.
        full: whether it must hold of the full form.
    """

    text: str
    measure: Callable[[Results], float]
    below: float = float("inf")
    above: float = float("-inf")
    source: str = "paper"
    quick: bool = False
    full: bool = True

    def __post_init__(self):
        if not (np.isfinite(self.below) or np.isfinite(self.above)):
            raise ValueError(f"A claim needs a limit that it can fail: pass `below` or `above` for {self.text!r}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """A declaration that one runner runs.

    Attributes:
        name: by which it is called.
        title: what it shows, and where in the paper.
        cases: the fits.
        claims: what they must show.
        figures: file name -> what draws it from the results.
        paper_minutes: what the paper reports on its GPU for one fit.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    claims: tuple[Claim, ...]
    figures: Mapping[str, Callable[[Results], Any]]
    paper_minutes: float | None = None

    def __post_init__(self):
        names = [case.name for case in self.cases]
        if len(set(names)) < len(names):
            raise ValueError(f"The cases of an experiment must have different names; got {names}.")


class NothingToCompare(LookupError):
    """The data have no exact posterior, no truth, or no true path: a claim about it is left open."""


class Verdict(NamedTuple):
    """A claim, the figure measured for it, and whether it holds; `None` where there is nothing to compare with."""

    claim: Claim
    value: float
    holds: bool | None
