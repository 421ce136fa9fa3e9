"""`Posterior`: draws of θ and of stretches of the path, the ELBO, a summary."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from nmax._check import check_count, check_key
from nmax._draw import PIECE, draw_keys, piece_of_path
from nmax._fitted import Estimate as Estimate
from nmax._fitted import Fitted
from nmax._joint import JointDraws
from nmax._strip import DRAWS, THETAS, PathSummary, Strip, path_summary, strip
from nmax.checks import Residuals, residuals
from nmax.data import Series, Table
from nmax.guides import one_stretch


class Posterior(Fitted, JointDraws):
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

    table: Table
    series: Series

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
