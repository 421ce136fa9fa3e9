"""`Posterior`: draws of θ and of stretches of the path, the ELBO, a summary."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from nmax._check import check_count, check_key, check_positive
from nmax._draw import PASS, PIECE, draw_keys, drawn_theta, mean_elbo, piece_of_path, streamed_elbo
from nmax._evidence import Evidence, evidence
from nmax._joint import JointDraws
from nmax._run_folder import save
from nmax._settings import FitSettings
from nmax._start import Mode
from nmax._strip import DRAWS, THETAS, PathSummary, Strip, path_summary, strip
from nmax._summary import Summary, summarise
from nmax._train import Outcome
from nmax.checks import Check, Residuals, examine, residuals
from nmax.data import LongSeries, Series, Table, Windows
from nmax.guides import one_stretch
from nmax.models import AbstractModel


class Estimate(NamedTuple):
    """A Monte Carlo estimate in nats of the whole series."""

    mean: float
    standard_error: float


class Posterior(JointDraws):
    """The joint posterior of θ and x, as far as the guide describes it.

    Attributes:
        model: the model.
        table: the data with the names and times they came with.
        series: the same as the guide sees them.
        guide: q(θ, x) after training, with averaged weights.
        windows: the partition it was trained on.
        history: the parts of the ELBO at every step of training.
        reason: why training ended.
        converged: whether it came to rest.
        convergence: by what that was judged, and what going on could still change.
        steps: steps done.
        skipped: steps left out because their gradient was not finite.
        settings: what the fit was asked for.
        seconds: wall clock of the fit, compilation included.
        notes: what the guide found and chose, in sentences.
        modes: the modes of θ that several starts led to, the one that was taken first.
        checked: what `check` found, once it has been called.
    """

    def __init__(
        self,
        model: AbstractModel,
        table: Table,
        series: Series,
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

    def path(
        self, draws: int, *, start: int = 0, stop: int | None = None, key: PRNGKeyArray
    ) -> Float[np.ndarray, "draw time state"]:
        """Draws of the states with indices `start, ..., stop - 1` out of 0..T, at a cost of O(stop − start).

        The same key gives the same path however it is cut up.
        """
        start, stop = self._stretch(start, stop)
        keys = draw_keys(key, draws)
        out = np.empty((len(keys), stop - start, self.model.state_size), np.float32)
        for piece in range(start // PIECE, (stop - 1) // PIECE + 1):
            low, high = max(start, piece * PIECE), min(stop, (piece + 1) * PIECE)
            rows = one_stretch(self.guide, self.series, piece * PIECE, PIECE)
            x = np.asarray(piece_of_path(self.guide, rows, jnp.int32(piece * PIECE), keys))
            out[:, low - start : high - start] = x[:, low - piece * PIECE : high - piece * PIECE]
        return out

    def path_in_chunks(
        self, draws: int, *, chunk: int = 16 * PIECE, key: PRNGKeyArray
    ) -> Iterator[tuple[int, Float[np.ndarray, "draw time state"]]]:
        """The whole path as (first index, stretch) pairs: the same path as `path`, a chunk in memory at a time."""
        check_count("chunk", chunk)
        for start in range(0, self.series.length + 1, chunk):
            yield start, self.path(draws, start=start, stop=min(start + chunk, self.series.length + 1), key=key)

    def elbo(self, *, passes: int = 8, key: PRNGKeyArray) -> Estimate:
        """The evidence lower bound of the whole series in nats, with its standard error. Higher is better.

        Args:
            passes: independent estimates to average. Each sees all windows of the series or, if there are more than
                20,000, so many spread over it.
            key: random key.
        """
        keys = jr.split(check_key(key), check_count("passes", passes, least=2))
        count = min(PASS, self.windows.count)
        estimate: Any = streamed_elbo if isinstance(self.series, LongSeries) else mean_elbo
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

    def strip(
        self, *, start: int = 1, stop: int | None = None, width: int = 64, most: int = 1_000, key: PRNGKeyArray
    ) -> Strip:
        """Where q(x | θ) is bad: k̂ and effective share of the paths of windows along the series, each in O(width).

        Args:
            start: first step that is looked at.
            stop: one past the last.
            width: steps of a window.
            most: windows; where the stretch has more, so many spread over it.
            key: random key.
        """
        start, stop = self._stretch(max(start, 1), stop)
        width = min(check_count("width", width), stop - start)
        starts = np.arange(start, stop, width)
        if len(starts) > check_count("most", most):
            starts = starts[np.linspace(0, len(starts) - 1, most).astype(np.int64)]
        return strip(self.guide, self.series, starts, width, thetas=THETAS, draws=DRAWS, key=check_key(key))

    def path_summary(
        self, *, start: int = 0, stop: int | None = None, width: int = 64, thetas: int = 8, key: PRNGKeyArray
    ) -> PathSummary:
        """Mean, sd and quantiles of states `start, ..., stop - 1`, corrected by weights where k̂ allows.

        At each of `thetas` draws of θ, 64 paths of a window are weighted against each other. Rows whose weights are too
        uneven stay as the guide draws them, and are marked.
        """
        start, stop = self._stretch(start, stop)
        width = min(check_count("width", width), self.series.length)
        thetas = check_count("thetas", thetas)
        options = {"width": width, "thetas": thetas, "draws": DRAWS}
        return path_summary(self.guide, self.series, start, stop, **options, key=check_key(key))

    def residuals(self, *, key: PRNGKeyArray) -> Residuals:
        """Where observations lie among forecasts one observation ahead, at the centre of q(θ)."""
        return residuals(self.guide, self.series, columns=self.table.columns, key=check_key(key))

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
            length=self.series.length,
            steps=self.steps,
            seconds=self.seconds,
            reason=self.reason,
            verdict="" if self.checked is None else str(self.checked),
            could_change=self.convergence.could_change,
            skipped=self.skipped,
            notes=self.notes,
        )

    def _stretch(self, start: int, stop: int | None) -> tuple[int, int]:
        stop = self.series.length + 1 if stop is None else stop
        if not 0 <= start < stop <= self.series.length + 1:
            raise ValueError(
                f"`start` and `stop` must satisfy 0 <= start < stop <= {self.series.length + 1}, the number of rows of y; "
                f"got start={start}, stop={stop}."
            )
        return start, stop

    def __repr__(self) -> str:
        names = ", ".join(self.model.parameters.distributions)
        return f"Posterior(parameters: {names}; T = {self.series.length}; {self.steps} steps; {self.reason})"
