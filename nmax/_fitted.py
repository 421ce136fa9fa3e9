"""`Fitted`: what a fit has found of θ, whether it was fitted to one series or to several."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import PRNGKeyArray

from nmax._check import check_count, check_key, check_positive
from nmax._draw import PASS, draw_keys, drawn_theta, mean_elbo, streamed_elbo
from nmax._evidence import Evidence, evidence
from nmax._run_folder import save
from nmax._settings import FitSettings
from nmax._start import Mode
from nmax._summary import Summary, summarise
from nmax._train import Outcome
from nmax.checks import Check, examine
from nmax.data import Series, Windows
from nmax.models import AbstractModel


class Estimate(NamedTuple):
    """A Monte Carlo estimate in nats of the whole series."""

    mean: float
    standard_error: float


class Fitted:
    """q(θ) and how it was found; see `nmax.Posterior` for the attributes."""

    table: Any
    series: Any

    def __init__(
        self,
        model: AbstractModel,
        table: Any,
        series: Any,
        windows: Windows,
        outcome: Outcome,
        settings: FitSettings,
        seconds: float,
        notes: tuple[str, ...] = (),
        modes: tuple[Mode, ...] = (),
    ):
        self.model, self.table, self.series, self.windows = model, table, series, windows
        self.guide, self.history = outcome.guide, outcome.history
        self.reason, self.converged, self.convergence = outcome.reason, outcome.converged, outcome.convergence
        self.steps, self.skipped = outcome.steps, outcome.skipped
        self.settings, self.seconds, self.notes, self.modes = settings, seconds, notes, modes
        self.checked: Check | None = None

    def theta(self, draws: int, *, key: PRNGKeyArray) -> dict[str, np.ndarray]:
        """Draws of the parameters on the user's own scale, name -> array with the draws along the first axis.

        With the same key, `theta` and `path` are joint draws.
        """
        keys = draw_keys(key, draws)
        theta = drawn_theta(self.guide, keys)
        return {name: np.asarray(theta[name]) for name in self.model.parameters.distributions}  # jit sorts the names

    def elbo(self, *, passes: int = 8, key: PRNGKeyArray) -> Estimate:
        """The evidence lower bound of the whole series in nats, with its standard error. Higher is better.

        Args:
            passes: independent estimates to average. Each sees all windows of the series or, if there are more than
                20,000, so many spread over it.
            key: random key.
        """
        keys = jr.split(check_key(key), check_count("passes", passes, least=2))
        count = min(PASS, self.windows.count)
        estimate: Any = mean_elbo if isinstance(self.series, Series) else streamed_elbo
        totals = np.array([float(estimate(self.guide, self.series, self.windows, count, k)) for k in keys], np.float64)
        return Estimate(float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(passes)))

    def evidence(self, *, error: float = 0.05, most: int = 2_048, key: PRNGKeyArray) -> Evidence:
        """The log evidence of the model, with its standard error, at a cost of O(T) a draw of θ.

        Draws of θ by q(θ) are weighted with the likelihood that a particle filter with the look-ahead as proposal gives
        them, which is unbiased: the guide's errors make it slower, not wrong. `khat` says whether to rely on it.

        Args:
            error: standard error in nats at which to stop.
            most: draws of θ at the most.
            key: random key.
        """
        error, most = check_positive("error", error), check_count("most", most)
        return evidence(self.guide, self.series, error=error, most=most, key=check_key(key))

    def check(self, *, known: Sequence[str] = (), key: PRNGKeyArray | None = None) -> Check:
        """Whether to trust this: `trust`, `trust the means, not the widths` or `do not trust`, with reasons and remedies.

        Takes about as long as the fit. `summary` shows the verdict from then on. Its key is fixed unless given.

        Args:
            known: names of parameters that are meant to rest on their prior.
            key: random key.
        """
        names = set(self.model.parameters.distributions)
        if unknown := sorted(set(known) - names):
            raise ValueError(f"`known` must name parameters, {sorted(names)}; got {unknown}.")
        self.checked = examine(self, known=tuple(known), key=jr.key(0) if key is None else check_key(key))
        return self.checked

    def log_prob(self, theta: Mapping[str, Any]) -> float:
        """Log density of q at parameters given by name, on the user's own scale."""
        prior = self.model.parameters
        flat = prior.unconstrain(theta)
        _, log_q = self.guide.theta(self.guide.theta_flow.noise(flat))
        return float(log_q - prior.log_jacobian(flat))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write all of this to a folder of plain files, from which `nmax.load` makes it again."""
        save(self, Path(folder))

    def summary(self, draws: int = 4_000, *, key: PRNGKeyArray | None = None) -> Summary:
        """A table of the parameters' posterior and the ELBO, which prints itself. Its key is fixed unless given."""
        theta_key, elbo_key = jr.split(jr.key(0) if key is None else check_key(key))
        elbo = self.elbo(key=elbo_key)
        return summarise(
            self.theta(draws, key=theta_key),
            elbo=elbo.mean,
            elbo_standard_error=elbo.standard_error,
            length=sum(self.series.lengths),
            steps=self.steps,
            seconds=self.seconds,
            reason=self.reason,
            verdict="" if self.checked is None else str(self.checked),
            could_change=self.convergence.could_change,
            skipped=self.skipped,
            notes=self.notes,
        )
