"""Priors over θ: names, the unconstrained scale, and the way between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.distributions.transforms import biject_to

Theta = dict[str, Any]  # parameter name -> value


class Prior:
    """Independent priors by name, seen also as one vector of unconstrained coordinates.

    Parameter $k$ with support $S_k$ is $\\theta_k = g_k(\\vartheta_k)$, $g_k$ being NumPyro's `biject_to` of $S_k$; the
    flat vector holds all $\\vartheta_k$ in the order of the names.

    Attributes:
        distributions: the user's distributions by name.
        size: the number of unconstrained coordinates.
    """

    def __init__(self, distributions: Any):
        self.distributions: dict[str, dist.Distribution] = _named(distributions)
        self._transforms = {name: biject_to(d.support) for name, d in self.distributions.items()}
        self._shapes = {
            name: self._transforms[name].inverse_shape(d.batch_shape + d.event_shape)
            for name, d in self.distributions.items()
        }
        self.size = sum(math.prod(shape) for shape in self._shapes.values())

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each unconstrained coordinate; those of a vector have labels such as `beta[2]`."""
        return tuple(
            f"{name}[{','.join(map(str, index))}]" if index else name
            for name, shape in self._shapes.items()
            for index in np.ndindex(*shape)
        )

    def constrain(self, flat: Float[Array, " param"]) -> Theta:
        """The parameters by name, on the user's own scale."""
        return {name: self._transforms[name](part) for name, part in self._split(flat).items()}

    def unconstrain(self, theta: Mapping[str, Any]) -> Float[Array, " param"]:
        """The unconstrained coordinates of parameters given by name."""
        self.check_names(theta)
        return jnp.concatenate(
            [jnp.ravel(self._transforms[name].inv(jnp.asarray(theta[name], jnp.float32))) for name in self._shapes]
        )

    def log_prob(self, flat: Float[Array, " param"]) -> Float[Array, ""]:
        """Log density of the unconstrained coordinates, $\\log p(g(\\vartheta)) + \\log |g'(\\vartheta)|$."""
        total = self.log_jacobian(flat)
        for name, value in self.constrain(flat).items():
            total = total + jnp.sum(self.distributions[name].log_prob(value))
        return total

    def log_jacobian(self, flat: Float[Array, " param"]) -> Float[Array, ""]:
        """$\\log |g'(\\vartheta)|$: what turns a density of θ into one of the unconstrained coordinates."""
        total = jnp.zeros(())
        for name, part in self._split(flat).items():
            transform = self._transforms[name]
            total = total + jnp.sum(transform.log_abs_det_jacobian(part, transform(part)))
        return total

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "draw param"]:
        """Draws from the prior, in unconstrained coordinates."""
        keys = jr.split(key, len(self._shapes))
        parts = []
        for name_key, (name, d) in zip(keys, self.distributions.items(), strict=True):
            draw = jax.vmap(lambda k, d=d, t=self._transforms[name]: jnp.ravel(t.inv(d.sample(k))))
            parts.append(draw(jr.split(name_key, count)))
        return jnp.concatenate(parts, axis=1)

    def check_names(self, theta: Mapping[str, Any]) -> None:
        """Refuse parameters with a name too many or too few."""
        given, wanted = set(theta), set(self._shapes)
        if given != wanted:
            raise ValueError(
                f"`theta` must name the parameters {sorted(wanted)}; "
                f"missing: {sorted(wanted - given)}, unknown: {sorted(given - wanted)}."
            )

    def _split(self, flat: Float[Array, " param"]) -> Theta:
        parts, start = {}, 0
        for name, shape in self._shapes.items():
            size = math.prod(shape)
            parts[name] = flat[start : start + size].reshape(shape)
            start += size
        return parts


def _named(distributions: Any) -> dict[str, dist.Distribution]:
    try:
        pairs = list(distributions.items() if isinstance(distributions, Mapping) else distributions)
        named = {name: value for name, value in pairs}
    except (TypeError, ValueError):
        raise TypeError(
            "`prior` must be a dict, parameter name -> NumPyro distribution (or a list of such pairs); "
            f"got {type(distributions).__name__}."
        ) from None
    if not named:
        raise ValueError("`prior` must name at least one parameter; got none.")
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        raise ValueError(f"Each parameter must be named once in `prior`; named more than once: {', '.join(twice)}.")
    for name, value in named.items():
        _check_distribution(name, value)
    return named


def _check_distribution(name: Any, value: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"The names in `prior` must be strings; got {name!r}.")
    if not isinstance(value, dist.Distribution):
        raise TypeError(
            f"`prior[{name!r}]` must be a NumPyro distribution; got {type(value).__name__}. "
            "For a known value, write it into the model's functions instead."
        )
    if value.support is None or value.support.is_discrete:
        raise ValueError(
            f"`prior[{name!r}]` must be continuous; got {type(value).__name__}. "
            "Sum a discrete parameter out, or fit one model for each of its values."
        )
