"""The stages of a fit as arrays and facts: what was found of the posterior, and where q(θ) settled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nmax._convergence import Convergence
from nmax._find import Found
from nmax._guide_file import guide_arrays, guide_from, guide_recipe
from nmax._locate import Located
from nmax._scores import Scores
from nmax._start import Mode
from nmax._step import History
from nmax.data import Series, windows_over
from nmax.guides import LookaheadGuide
from nmax.models import AbstractModel

Arrays = dict[str, np.ndarray]
Facts = dict[str, Any]


def modes_written(modes: Sequence[Mode]) -> Arrays:
    """Every mode's fields by name."""
    return {f"mode{k}.{name}": np.asarray(value) for k, mode in enumerate(modes) for name, value in mode._asdict().items()}


def modes_read(arrays: Mapping[str, np.ndarray], count: int) -> tuple[Mode, ...]:
    """The modes of `modes_written`."""
    return tuple(Mode(**{name: _scalar(arrays[f"mode{k}.{name}"]) for name in Mode._fields}) for k in range(count))


def history_written(history: History) -> Arrays:
    """The parts of the ELBO by name."""
    return {f"history.{name}": np.asarray(part) for name, part in history._asdict().items()}


def history_read(arrays: Mapping[str, np.ndarray]) -> History:
    """The history of `history_written`."""
    return History(*(arrays[f"history.{name}"] for name in History._fields))


def convergence_read(facts: Mapping[str, Any]) -> Convergence:
    """A `Convergence` from its fields, null being NaN."""
    numbers = ("rhat", "mean", "width", "elbo", "elbo_standard_error")
    known: dict[str, Any] = dict(facts)
    known |= {name: float("nan") for name in numbers if facts[name] is None}
    return Convergence(**known)


class Stages:
    """Between what `locate` makes and what a keeper keeps, for one model, series and guide."""

    def __init__(self, settings: LookaheadGuide, model: AbstractModel, series: Series):
        self.settings, self.model, self.series = settings, model, series

    def found_written(self, found: Found) -> tuple[Arrays, Facts]:
        """What is known before q(θ) settles."""
        guide = found.scores.guide
        facts = {"recipe": guide_recipe(guide), "width": found.scores.windows.width, "needed": found.needed}
        return guide_arrays(guide, "guide") | modes_written(found.modes), facts | {"modes": len(found.modes)}

    def found_read(self, arrays: Arrays, facts: Facts) -> Found:
        """The same again."""
        guide = self._guide(arrays, facts)
        scores = Scores(guide, self.series, windows_over(self.series, facts["width"]))
        return Found(scores, modes_read(arrays, facts["modes"]), facts["needed"])

    def located_written(self, located: Located) -> tuple[Arrays, Facts]:
        """Where q(θ) settled."""
        facts = {
            "recipe": guide_recipe(located.guide),
            "width": located.windows.width,
            "modes": len(located.modes),
            "convergence": dataclasses.asdict(located.convergence),
            **{name: getattr(located, name) for name in ("shortfall", "needed", "weighted", "refused")},
        }
        kept = modes_written(located.modes) | history_written(located.history)
        return guide_arrays(located.guide, "guide") | kept, facts

    def located_read(self, arrays: Arrays, facts: Facts) -> Located:
        """The same again."""
        return Located(
            guide=self._guide(arrays, facts),
            windows=windows_over(self.series, facts["width"]),
            modes=modes_read(arrays, facts["modes"]),
            history=history_read(arrays),
            convergence=convergence_read(facts["convergence"]),
            shortfall=float("nan") if facts["shortfall"] is None else facts["shortfall"],
            **{name: facts[name] for name in ("needed", "weighted", "refused")},
        )

    def _guide(self, arrays: Arrays, facts: Facts) -> Any:
        own = {name: array for name, array in arrays.items() if name.startswith("guide")}
        return guide_from(self.settings, self.model, self.series, facts["recipe"], own, "guide")


def _scalar(array: np.ndarray) -> Any:
    """Numbers and truth values as themselves."""
    return array if array.ndim else array.item()
