"""`compare`: rival models of the same data, and rival modes of one, by evidence or by ELBO."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._check import check_key, names_its_options
from nmax._fitted import Fitted
from nmax._locate import by_name
from nmax._summary import table
from nmax.data import same_data

SURE = 3.0  # standard errors


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Rivals with the best first.

    Attributes:
        by: `evidence` or `elbo`.
        rows: name -> {"nats", "error", "below", "its error", "weight"}: the log evidence or the ELBO with its standard
            error, how far below the best it is, and its posterior probability if all are equally probable before.
        notes: what to bear in mind.
    """

    by: str
    rows: dict[str, dict[str, float]]
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        """The name of the first."""
        return next(iter(self.rows))

    def __str__(self) -> str:
        return "\n".join([f"by {self.by}, in nats", *table(self.rows, "model"), *self.notes])

    __repr__ = __str__


@names_its_options
def compare(
    fits: Mapping[str, Fitted] | Sequence[Fitted],
    *,
    by: str = "evidence",
    error: float = 0.05,
    key: PRNGKeyArray,
) -> Comparison:
    """Compare models fitted to the same data; with one fit, its rival modes.

    Args:
        fits: name -> fit, or a list of fits. Their series must be the same; models and priors differ.
        by: `evidence`, the log evidence by weighted draws, at a cost of O(T) a draw; or `elbo`, a lower bound of it, for
            series too long for that. Bounds of different models may fall short by different amounts.
        error: standard error of the evidence to aim for, in nats.
        key: random key.
    """
    key = check_key(key)
    named = dict(fits) if isinstance(fits, Mapping) else {f"model {k}": fit for k, fit in enumerate(fits)}
    if by not in ("evidence", "elbo"):
        raise ValueError(f"`by` must be 'evidence' or 'elbo'; got {by!r}.")
    if not named:
        raise ValueError("`fits` must hold at least one fit; got none.")
    for name, fit in named.items():
        if not isinstance(fit, Fitted):
            raise TypeError(f"`fits` must hold what nmax.fit returns; {name} is {type(fit).__name__}.")
    _check_same_data(named)
    if len(named) == 1:
        (fit,) = named.values()
        return _modes(fit)
    estimates, notes, doubtful = {}, [], set()
    for k, (name, fit) in enumerate(named.items()):
        own = jr.fold_in(key, k)
        estimate: Any = fit.evidence(error=error, key=own) if by == "evidence" else fit.elbo(key=own)
        estimates[name] = (estimate.mean, estimate.standard_error)
        if by == "evidence" and not estimate.reliable:
            notes.append(f"{name}: k̂ {estimate.khat:.2f}, so its evidence is not to be relied on")
            doubtful.add(name)
    if by == "elbo":
        notes.append("bounds, not evidence: a model whose posterior the guide describes worse looks worse than it is")
    return Comparison(by, _rows(estimates), (*notes, *_how_sure(estimates, doubtful)))


def _check_same_data(named: dict[str, Fitted]) -> None:
    (first_name, first), *others = named.items()
    for name, fit in others:
        if not same_data(fit.series, first.series):
            raise ValueError(
                f"All fits must be to the same data, or their evidence says nothing about each other; {name} and "
                f"{first_name} are not."
            )


def _modes(fit: Fitted) -> Comparison:
    """The modes that a fit has seen, by their ELBO where they have one, else by Laplace's approximation."""
    if not fit.modes:
        raise ValueError(
            "One fit alone can be compared only with its rival modes, and this one has looked for none. Pass two fits, or "
            "fit with nmax.LookaheadGuide()."
        )
    every = np.isfinite([mode.elbo for mode in fit.modes]).all()
    estimates = {
        by_name(fit.model, mode.theta): (mode.elbo, mode.elbo_standard_error) if every else (mode.log_evidence, np.nan)
        for mode in fit.modes
    }
    notes = () if every else ("by Laplace's approximation: modes without an ELBO of their own are among them",)
    return Comparison("elbo" if every else "Laplace's approximation", _rows(estimates), notes)


def _rows(estimates: dict[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
    order = sorted(estimates, key=lambda name: -np.nan_to_num(estimates[name][0], nan=-np.inf))
    top, top_error = estimates[order[0]]
    below = {name: top - estimates[name][0] for name in order}
    total = sum(np.exp(-np.nan_to_num(value, nan=np.inf)) for value in below.values())
    return {
        name: {
            "nats": estimates[name][0],
            "error": estimates[name][1],
            "below": below[name],
            "its error": 0.0 if name == order[0] else float(np.hypot(top_error, estimates[name][1])),
            "weight": float(np.exp(-np.nan_to_num(below[name], nan=np.inf)) / total),
        }
        for name in order
    }


def _how_sure(estimates: dict[str, tuple[float, float]], doubtful: set[str]) -> tuple[str, ...]:
    """Whether the first two can be told apart."""
    first, second = list(_rows(estimates).items())[:2]
    vague = [name for name, _ in (first, second) if name in doubtful or not np.isfinite(estimates[name][0])]
    if vague:
        return (f"nothing is said of who leads: {', '.join(vague)} has no evidence that could be relied on",)
    lead, error = second[1]["below"], second[1]["its error"]
    if lead > SURE * error:
        return (f"{first[0]} leads {second[0]} by {lead:.2f} ± {error:.2f} nats",)
    return (f"{first[0]} and {second[0]} cannot be told apart: {lead:.2f} ± {error:.2f} nats between them",)
