"""Marginal densities of the parameters, posterior and prior, and how much narrower the one is than the other."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Float
from numpyro.distributions import constraints
from numpyro.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IdentityTransform,
    SigmoidTransform,
    biject_to,
)

from nmax._summary import entries
from nmax.models import Prior

GRID = 160
NEIGHBOURHOOD = 0.35  # of the posterior's width, shown beyond its draws on either side
TAIL = 0.002  # share of the draws beyond either end of what is shown
PRIOR_DRAWS = 4_000
FEWEST = 10  # finite draws below which there is no density
INNER = (0.05, 0.95)


@dataclasses.dataclass(frozen=True)
class Marginal:
    """One number among the parameters.

    Attributes:
        label: what it is called: the parameter's name, with the place in it of an entry of a vector.
        name: of the parameter.
        draws: from the posterior.
        grid: where the densities are evaluated.
        density: of the posterior.
        prior: density of the prior there; None where it cannot be evaluated.
        narrower: how many times the middle 90 % of the prior are as wide as those of the posterior; NaN without draws.
        scale: on which scale that was measured, if not on the parameter's own: "log", "logit" or "unconstrained".
    """

    label: str
    name: str
    draws: Float[np.ndarray, " draw"]
    grid: Float[np.ndarray, " grid"]
    density: Float[np.ndarray, " grid"]
    prior: Float[np.ndarray, " grid"] | None
    narrower: float
    scale: str


def marginals(prior: Prior, theta: dict[str, np.ndarray]) -> list[Marginal]:
    """Of every single number, in the order of the parameters."""
    names = list(prior.distributions)
    drawn = jax.jit(lambda key: jax.vmap(prior.constrain)(prior.sample(key, PRIOR_DRAWS)))(jr.key(0))
    before = {name: np.asarray(drawn[name]) for name in names}
    out = []
    for name in names:
        transform = elementwise(prior.distributions[name])
        own, others = entries({name: theta[name]}), entries({name: before[name]})
        for number, label in enumerate(own):
            one = _marginal(label, own[label], others[label], prior.distributions[name], transform, number)
            out.append(dataclasses.replace(one, name=name))
    return out


def elementwise(distribution: dist.Distribution) -> Any | None:
    """The bijection from the real line to the support of each entry; None where entries depend on each other."""
    constraint: Any = distribution.support
    while isinstance(constraint, constraints.independent):
        constraint = constraint.base_constraint
    transform: Any = biject_to(constraint)
    return None if transform.domain.event_dim or transform.codomain.event_dim else transform


def _marginal(
    label: str, draws: np.ndarray, before: np.ndarray, distribution: dist.Distribution, transform: Any, number: int
) -> Marginal:
    fine = np.isfinite(draws)
    if fine.sum() < FEWEST:
        nothing = np.zeros(0)
        return Marginal(label, label, draws, nothing, nothing, None, math.nan, "")
    if transform is None:
        grid, density = smooth(draws)
        return Marginal(label, label, draws, grid, density, None, _ratio(before, draws), "")
    flat, flat_before = (_unconstrained(transform, part) for part in (draws, before))
    grid, density = _transformed(transform, flat)
    prior = _prior_density(distribution, grid, number)
    return Marginal(label, label, draws, grid, density, prior, _ratio(flat_before, flat), _scale(transform))


def smooth(draws: Float[np.ndarray, " draw"]) -> tuple[np.ndarray, np.ndarray]:
    r"""A kernel density estimate with a normal kernel, width $1.06 \min(s, \mathrm{IQR}/1.34)\, n^{-1/5}$.

    The draws are first put on a fine grid, so that the cost does not grow with their number.
    """
    draws = draws[np.isfinite(draws)]
    low, high = (float(q) for q in np.quantile(draws, [TAIL, 1 - TAIL]))
    spread = min(float(draws.std()), float(np.subtract(*np.quantile(draws, [0.75, 0.25]))) / 1.34) or float(draws.std())
    if not spread > 0 or high <= low:  # all draws are the same
        width = 0.1 * abs(low) or 1.0
        grid = np.linspace(low - width, low + width, GRID)
        return grid, np.where(np.abs(grid - low) < width / GRID * 2, 1.0, 0.0)
    kernel = 1.06 * spread * len(draws) ** -0.2
    room = NEIGHBOURHOOD * (high - low)
    grid = np.linspace(low - room, high + room, GRID)
    fine = np.linspace(low - room - 4 * kernel, high + room + 4 * kernel, 2_048)
    held, _ = np.histogram(draws, bins=np.append(fine, 2 * fine[-1] - fine[-2]) - 0.5 * (fine[1] - fine[0]))
    weight = np.exp(-0.5 * ((grid[:, None] - fine[None]) / kernel) ** 2) / (kernel * math.sqrt(2 * math.pi))
    return grid, weight @ held / len(draws)


def _transformed(transform: Any, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The density estimated on the unconstrained scale, and carried over to the user's."""
    grid, density = smooth(flat)
    at = jnp.asarray(grid, jnp.float32)
    there = np.asarray(transform(at), np.float64)
    slope = np.asarray(transform.log_abs_det_jacobian(at, transform(at)), np.float64)
    density = density * np.exp(-slope)
    keep = np.isfinite(there) & np.isfinite(density)
    there, density = there[keep], density[keep]
    if isinstance(transform, IdentityTransform) or len(there) < 2:
        return there, density
    low, high = (float(np.asarray(transform(jnp.float32(q)))) for q in np.quantile(flat, [TAIL, 1 - TAIL]))
    room = NEIGHBOURHOOD * (high - low)  # a long tail of a transformed grid would squeeze the rest
    near = (there >= low - room) & (there <= high + room)
    return there[near], density[near]


def _unconstrained(transform: Any, draws: np.ndarray) -> np.ndarray:
    flat = np.asarray(transform.inv(jnp.asarray(draws, jnp.float32)), np.float64)
    return flat[np.isfinite(flat)]


def _prior_density(distribution: dist.Distribution, grid: np.ndarray, number: int) -> np.ndarray | None:
    """Density of one entry of a distribution whose entries are independent, or of a multivariate normal's."""
    at = jnp.asarray(grid, jnp.float32)
    if isinstance(distribution, dist.MultivariateNormal) and not distribution.batch_shape:
        loc: Any = distribution.loc
        covariance: Any = distribution.covariance_matrix
        found = dist.Normal(loc[number], jnp.sqrt(covariance[number, number])).log_prob(at)
        return np.exp(np.asarray(found, np.float64))
    base: Any = distribution
    while isinstance(base, (dist.Independent, dist.ExpandedDistribution)) and base.event_shape:
        base = base.base_dist
    if base.event_shape:
        return None
    shape = tuple(distribution.batch_shape) + tuple(distribution.event_shape)
    try:
        points = at.reshape((-1,) + (1,) * len(shape)) * jnp.ones((1, *shape))
        found = base.log_prob(points) if base.batch_shape == shape else distribution.log_prob(at)
    except (NotImplementedError, ValueError, TypeError):
        return None
    density = np.exp(np.asarray(found, np.float64)).reshape(len(grid), -1)
    return density[:, min(number, density.shape[1] - 1)]


def _ratio(before: np.ndarray, after: np.ndarray) -> float:
    parts = (part[np.isfinite(part)] for part in (before, after))
    wide, narrow = (float(np.subtract(*np.quantile(part, INNER[::-1]))) for part in parts)
    return wide / narrow if narrow > 0 else math.inf


def _scale(transform: Any) -> str:
    if isinstance(transform, IdentityTransform):
        return ""
    parts = transform.parts if isinstance(transform, ComposeTransform) else [transform]
    if all(isinstance(part, (ExpTransform, AffineTransform)) for part in parts):
        return "log"
    if all(isinstance(part, (SigmoidTransform, AffineTransform)) for part in parts):
        return "logit"
    return "unconstrained"
