"""`Draws`: the exact posterior as chains have sampled it, with the interface of a fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from nmax._chains import Record, paths
from nmax._check import check_count, check_key
from nmax._diagnostics import Mixing, mixing
from nmax._joint import JointDraws
from nmax._noise_density import NoiseDensity
from nmax._summary import entries, figures
from nmax._summary import table as table_of
from nmax.checks import NOTABLE
from nmax.data import Table

LEAST = 400  # effective draws that there should be


@dataclasses.dataclass(frozen=True)
class ChainSummary:
    """Posterior mean, standard deviation and quantiles by parameter, and how well the chains have mixed.

    Attributes:
        parameters: label -> {"mean", "sd", "5%", "50%", "95%", "R-hat", "ESS bulk", "ESS tail"}.
        notes: how the sampling went, and what speaks against relying on it.
    """

    parameters: dict[str, dict[str, float]]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*table_of(self.parameters), "", *self.notes])

    __repr__ = __str__


class Draws(JointDraws):
    """Draws of θ and of the path from the exact joint posterior.

    Attributes:
        model: the model.
        table: the data with the names and times they came with.
        series: the same as the guide sees them.
        density: what was sampled from, with the map from noise to path.
        record: every draw: θ unconstrained, noise, acceptance rates, gradients, divergences, energies.
        seconds: wall clock, with that of the quick fit if none was given.
        drawing: seconds of it that went into the draws that are kept.
        notes: rival modes that the chains do not visit, in sentences.
        rival: nats by which the nearest of them lies below the chains' own mode; infinite if there is none.
        mixing: label of a parameter -> R-hat, bulk and tail effective sample size.
        energy: the same of the log density of θ and the whole path, which chains in different places of the path differ in.
    """

    def __init__(
        self,
        density: NoiseDensity,
        table: Table,
        record: Record,
        seconds: float,
        notes: tuple[str, ...] = (),
        drawing: float = float("nan"),
        rival: float = float("inf"),
    ):
        self.density, self.table, self.record = density, table, record
        self.model, self.series = density.guide.model, density.series
        self.seconds, self.drawing, self.notes, self.rival = seconds, drawing, notes, rival
        chains = record.theta.shape[1]
        self.mixing: dict[str, Mixing] = {
            label: mixing(draws.reshape(-1, chains).T) for label, draws in entries(self.theta()).items()
        }
        self.energy = mixing(np.asarray(record.energy, np.float64).T)

    @property
    def count(self) -> int:
        """Draws of all chains together."""
        return self.record.theta.shape[0] * self.record.theta.shape[1]

    @cached_property
    def x(self) -> Float[np.ndarray, "draw time state"]:
        """The path of every draw, made from its noise when first asked for."""
        e, z = (jnp.asarray(a).reshape(self.count, *a.shape[2:]) for a in (self.record.e, self.record.z))
        return np.asarray(paths(self.density, e, z))

    @property
    def divergences(self) -> int:
        """Trajectories that left the road; more than a few make the draws suspect."""
        return int(np.sum(self.record.divergent))

    def theta(self, draws: int | None = None, *, key: PRNGKeyArray | None = None) -> dict[str, np.ndarray]:
        """Draws of the parameters on the user's own scale: all of them in their order, or some picked at random."""
        flat = np.asarray(self.record.theta).reshape(self.count, -1)[self._picked(draws, key)]
        theta = jax.vmap(self.model.parameters.constrain)(jnp.asarray(flat))
        return {name: np.asarray(theta[name]) for name in self.model.parameters.distributions}

    def path(
        self, draws: int | None = None, *, start: int = 0, stop: int | None = None, key: PRNGKeyArray | None = None
    ) -> Float[np.ndarray, "draw time state"]:
        """Draws of states `start, ..., stop - 1`, joint with those of `theta` with the same key."""
        stop = self.series.length + 1 if stop is None else stop
        if not 0 <= start < stop <= self.series.length + 1:
            raise ValueError(
                f"`start` and `stop` must satisfy 0 <= start < stop <= {self.series.length + 1}, the number of rows of y; "
                f"got start={start}, stop={stop}."
            )
        return self.x[self._picked(draws, key), start:stop]

    def path_in_chunks(
        self, draws: int | None = None, *, chunk: int = 8_192, key: PRNGKeyArray | None = None
    ) -> Iterator[tuple[int, Float[np.ndarray, "draw time state"]]]:
        """The whole path as (first index, stretch) pairs."""
        for start in range(0, self.series.length + 1, check_count("chunk", chunk)):
            yield start, self.path(draws, start=start, stop=min(start + chunk, self.series.length + 1), key=key)

    def summary(self) -> ChainSummary:
        """A table of the parameters' posterior with R-hat and effective sample sizes, which prints itself."""
        rows = {
            label: {**figures(draws), "R-hat": one.rhat, "ESS bulk": one.bulk, "ESS tail": one.tail}
            for (label, draws), one in zip(entries(self.theta()).items(), self.mixing.values(), strict=True)
        }
        line = (
            f"{self.count:,} draws from {self.record.theta.shape[1]} chains in {self.seconds:.1f} s, T = "
            f"{self.series.length:,}; {np.mean(self.record.gradients):.0f} gradients a draw, acceptance "
            f"{np.mean(self.record.acceptance):.2f}, {self.divergences} divergences"
        )
        return ChainSummary(rows, (line, *self.warnings(), *self.notes))

    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on these draws, in sentences; empty if nothing does."""
        lines = []
        every = self.mixing | {"the log density": self.energy}
        worst = max(every, key=lambda name: np.nan_to_num(every[name].rhat - every[name].limit, nan=np.inf))
        if not every[worst].rhat <= every[worst].limit:
            what = f"R-hat of {worst} is {every[worst].rhat:.3f}, above {every[worst].limit:.3f}"
            lines.append(f"{what}: draw more, or look for rivals")
        fewest = {name: min(one.bulk, one.tail) for name, one in self.mixing.items()}
        few = min(fewest, key=lambda name: np.nan_to_num(fewest[name], nan=0.0))
        if not fewest[few] >= LEAST:
            lines.append(f"{few} has {fewest[few]:.0f} effective draws, below {LEAST}: draw more")
        if self.divergences:
            share = self.divergences / self.count
            lines.append(f"{self.divergences} trajectories diverged ({share:.1%}): raise `target`, to 0.95 say")
        if self.rival < NOTABLE:
            what = f"has about {np.exp(-self.rival):.2g} of its mass" if self.rival > 0 else "may have more mass"
            lines.append(f"the chains stay in one mode, and a rival {what}: these are draws given that mode")
        return tuple(lines)

    def _picked(self, draws: int | None, key: PRNGKeyArray | None) -> np.ndarray:
        if draws is None:
            return np.arange(self.count)
        if key is None:
            raise TypeError(
                "A number of draws needs a key to pick them with: pass `key=jax.random.key(0)`, say, or neither."
            )
        check_count("draws", draws)
        return np.asarray(jr.choice(check_key(key), self.count, (draws,), replace=draws > self.count))

    def __repr__(self) -> str:
        return f"Draws({self.count} draws; T = {self.series.length}; {self.seconds:.0f} s)"
