"""`ManyPosterior`: one q(θ) of several independent series, each with a path of its own."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._fitted import Fitted
from nmax._posterior import Posterior
from nmax._train import Outcome
from nmax.checks import Check
from nmax.data import ManySeries, Windows


class ManyPosterior(Fitted):
    r"""The posterior of θ given several independent series, $p(\theta) \prod_k p(y^k \mid \theta)$, and of their paths.

    What concerns θ and all series together is asked here, what concerns the path of one of them of `one(k)`. The attributes
    are those of `nmax.Posterior`; `table` and `series` hold all series.
    """

    def __len__(self) -> int:
        """How many series there are."""
        return len(self.series.lengths)

    def one(self, k: int) -> Posterior:
        """The joint posterior of θ and the path of series k, counted from 0 as in the list that was fitted.

        θ is that of all series. Draws with one key are joint: `fit.theta` and the paths of all series are of the same θ.
        """
        count = len(self)
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 0 <= k < count:
            raise ValueError(f"`k` must be the number of a series, a whole number from 0 to {count - 1}; got {k!r}.")
        return OneOfMany(self, int(k))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Posterior, name):
            raise AttributeError(
                f"`{name}` is of one series, and this fit is of {len(self)}. Ask `fit.one(k).{name}`, k being the number of "
                "the series in the list, from 0."
            )
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def __repr__(self) -> str:
        names, lengths = ", ".join(self.model.parameters.distributions), self.series.lengths
        steps = f"{len(lengths)} series, {sum(lengths)} steps in all"
        return f"ManyPosterior(parameters: {names}; {steps}; {self.reason})"


class OneOfMany(Posterior):
    """The posterior of one of several series, under the q(θ) of all of them: all that an `nmax.Posterior` has.

    Its `elbo` and `evidence` are those of this series alone, for which q(θ) is too narrow: the bound is a loose one.
    """

    def __init__(self, whole: ManyPosterior, k: int):
        series = whole.series.members[k]
        windows = Windows(series.length, min(whole.windows.width, series.length))
        parts = whole.guide, whole.history, whole.reason, whole.convergence, whole.steps, whole.skipped
        notes = (f"series {k} of {len(whole)}, under the q(θ) of all of them", *whole.notes)
        rest = whole.settings, whole.seconds, notes, whole.modes
        super().__init__(whole.model, whole.table.each[k], series, windows, Outcome(*parts), *rest)
        self.number = k

    def check(self, *, known: Any = (), key: PRNGKeyArray | None = None) -> Check:
        """Refused: whether to trust a shared θ cannot be told from one of the series."""
        del known, key
        raise TypeError(
            "`check` must see all series, for θ is that of all of them; got one. Call `check` on what `nmax.fit` returned. "
            "What concerns this series alone is in `residuals`, `predictive_check` and `strip`."
        )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Refused: a folder holds all series."""
        raise TypeError(
            f"`save` must write all series, for θ is that of all of them; got one. Save what `nmax.fit` returned; "
            f"`nmax.load(folder, model).one({self.number})` is this one again."
        )


def posterior_of(model: Any, table: Any, series: Any, *rest: Any) -> Any:
    """An `nmax.Posterior` of one series, or an `nmax.ManyPosterior` of several."""
    return (ManyPosterior if isinstance(series, ManySeries) else Posterior)(model, table, series, *rest)
