"""Joint draws of a fit or of chains, laid out by chain and draw."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._check import check_count
from nmax._draw import draw_keys, theta_noise
from nmax._forecast import own_keys
from nmax._predictive import SEEN, seen_along
from nmax.guides import Guide

DRAWS = 1_000  # of θ, from a fit
RESERVED = ("chain", "draw", "time", "state", "column", "input", "step")


@dataclasses.dataclass(frozen=True)
class Source:
    """Draws of θ, and of paths that belong to some of them.

    Attributes:
        posterior: where they come from.
        theta: parameter name -> draws.
        draw: numbers of the draws of θ.
        path_draw: numbers of those that have a path.
        path: a function of a stretch, `start` and `stop`, that makes its states.
        keys: for simulated observations, one a path, those of a chain one after the other.
        stats: name -> figure of each draw.
    """

    posterior: Any
    theta: dict[str, Float[np.ndarray, "chain draw ..."]]
    draw: Int[np.ndarray, " draw"]
    path_draw: Int[np.ndarray, " path"]
    path: Callable[[int, int], Float[np.ndarray, "chain path time state"]]
    keys: PRNGKeyArray
    stats: dict[str, np.ndarray]

    @property
    def chains(self) -> int:
        """How many chains there are."""
        return len(next(iter(self.theta.values())))

    def seen(self, x: Float[np.ndarray, "chain path time state"], start: int) -> Float[np.ndarray, "chain path time obs"]:
        """Observations simulated given states from row `start` on."""
        places = np.searchsorted(self.draw, self.path_draw)
        theta = {name: flat(values[:, places]) for name, values in self.theta.items()}
        y = seen_along(self.posterior, theta, flat(x), start, self.keys)
        return y.reshape(*x.shape[:2], *y.shape[1:])


def flat(array: np.ndarray) -> np.ndarray:
    """Chains one after the other."""
    return array.reshape(-1, *array.shape[2:])


def source_of(posterior: Any, draws: int | None, paths: int, *, key: PRNGKeyArray) -> Source:
    """Joint draws of an `nmax.Posterior` as one chain, or of an `nmax.Draws` with the chains it has."""
    check_names(posterior.model)
    paths = check_count("paths", paths)
    if hasattr(posterior, "record"):
        return _of_chains(posterior, draws, paths, key=key)
    draws = check_count("draws", DRAWS if draws is None else draws)
    paths = min(paths, draws)
    theta = {name: values[None] for name, values in posterior.theta(draws, key=key).items()}

    def path(start: int, stop: int) -> np.ndarray:
        return posterior.path(paths, start=start, stop=stop, key=key)[None]

    stats = {"log_q": np.asarray(_log_q(posterior.guide, draw_keys(key, draws)))[None]}
    return Source(posterior, theta, np.arange(draws), np.arange(paths), path, own_keys(key, paths, SEEN), stats)


def _of_chains(posterior: Any, draws: int | None, paths: int, *, key: PRNGKeyArray) -> Source:
    record = posterior.record
    count, chains = record.theta.shape[:2]
    most = count if draws is None else -(-check_count("draws", draws) // chains)
    kept = spread_over(count, most)
    shown = kept[spread_over(len(kept), -(-paths // chains))]

    def by_chain(array: Any, picked: np.ndarray) -> np.ndarray:
        array = np.asarray(array)
        return np.moveaxis(array.reshape(count, chains, *array.shape[1:])[picked], 1, 0)

    theta = {name: by_chain(values, kept) for name, values in posterior.theta().items()}
    figures = {
        "acceptance_rate": record.acceptance,
        "diverging": record.divergent,
        "energy": record.energy,
        "n_steps": record.gradients,
    }
    stats = {name: np.asarray(values)[kept].T for name, values in figures.items()}
    stats["diverging"], stats["n_steps"] = stats["diverging"].astype(bool), np.round(stats["n_steps"]).astype(np.int64)

    def path(start: int, stop: int) -> np.ndarray:
        return by_chain(posterior.path(start=start, stop=stop), shown)

    return Source(posterior, theta, kept, shown, path, own_keys(key, chains * len(shown), SEEN), stats)


def spread_over(count: int, most: int) -> Int[np.ndarray, " picked"]:
    """At most so many of the numbers 0, ..., count - 1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def check_names(model: Any) -> None:
    """Refuse names that a file could not hold, or that stand for an axis."""
    for name in model.parameters.distributions:
        if name in RESERVED or "/" in name or not name.strip():
            raise ValueError(
                f"A parameter that is exported must not be called {name!r}: the names {', '.join(RESERVED)} are those of "
                "axes, and a name may hold no slash. Name it otherwise in `prior`."
            )


@eqx.filter_jit
def _log_q(guide: Guide, keys: PRNGKeyArray) -> Float[Array, " draw"]:
    """Log density of q at each draw of θ, on the user's own scale."""

    def one(key):
        flat, log_q = guide.theta(theta_noise(guide, key))
        return log_q - guide.model.parameters.log_jacobian(flat)

    return jax.vmap(one)(keys)
