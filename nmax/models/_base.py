"""What a model is: a prior, a start, and two conditional distributions for one step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float
from numpyro.distributions import constraints
from numpyro.distributions.transforms import SoftplusTransform, biject_to

from nmax._check import with_named_options
from nmax._small import LARGEST
from nmax.models._observe import masked_log_prob
from nmax.models._priors import Prior, Theta

LOG_2PI = math.log(2 * math.pi)


class AbstractModel:
    r"""A state space model, $p(\theta) \prod_i p(x_i \mid x_{i-1}, \theta) \prod_i p(y_i \mid x_i, \theta)$.

    The functions see one step and no batch axes. With exogenous inputs they take a third argument, the row of the inputs
    at the step they produce.
    """

    prior: Any
    initial: Callable[[Theta], Array]
    transition: Callable[..., dist.Distribution]  # a field of one child, a method of the other
    observation: Callable[..., dist.Distribution] | None
    support: Any
    exactly_observed: Mapping[int, int]
    states: tuple[str, ...] | None

    @cached_property
    def parameters(self) -> Prior:
        """The prior, with its unconstrained coordinates."""
        return Prior(self.prior)

    @cached_property
    def state_size(self) -> int:
        """The number d of state components."""
        theta = self.parameters.constrain(self.parameters.sample(jr.key(0), 1)[0])
        return jnp.shape(self.initial(theta))[0]

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """What the state components are called: as the user says, or x; x0, x1, ... where there are several."""
        size = self.state_size
        if self.states is None:
            return ("x",) if size == 1 else tuple(f"x{k}" for k in range(size))
        names = (self.states,) if isinstance(self.states, str) else tuple(map(str, self.states))
        if len(names) != size or len(set(names)) != size:
            raise ValueError(f"`states` must give each of the {size} state components a name of its own; got {names}.")
        return names

    @cached_property
    def state_transforms(self) -> tuple[Any, ...]:
        """For each state component the bijection from the real line into its support."""
        given = self.support if isinstance(self.support, (tuple, list)) else (self.support,) * self.state_size
        return tuple(_elementwise_transform(constraint) for constraint in given)

    def transition_log_prob(self, before: Array, x: Array, theta: Theta, inputs: Array) -> Float[Array, ""]:
        """$\\log p(x_i \\mid x_{i-1}, \\theta)$ of one step."""
        distribution = self.transition(before, theta, *_row(inputs))
        if isinstance(distribution, dist.MultivariateNormal):
            return _normal_log_prob(distribution, x)
        return jnp.asarray(distribution.log_prob(x))

    def observation_log_prob(
        self, x: Array, y: Float[Array, " obs"], observed: Bool[Array, " obs"], theta: Theta, inputs: Array
    ) -> Float[Array, ""]:
        """$\\log p(y_i \\mid x_i, \\theta)$ of one step, what is missing or exactly observed left out.

        An observation distribution of all columns is accepted too; its exactly observed ones then do not count.
        """
        if self.observation is None:
            return jnp.zeros(())
        distribution = self.observation(x, theta, *_row(inputs))
        exact = tuple(self.exactly_observed.values())
        others = tuple(k for k in range(len(y)) if k not in exact)
        if distribution.event_shape == (len(others),):
            y, observed = y[jnp.array(others)], observed[jnp.array(others)]
        elif exact:
            observed = observed & ~jnp.isin(jnp.arange(len(y)), jnp.array(exact))
        return masked_log_prob(distribution, y, observed)


@with_named_options
@dataclasses.dataclass(frozen=True, eq=False)
class StateSpaceModel(AbstractModel):
    """A model given by its transition and its observation distribution.

    With exogenous inputs `transition` and `observation` take a third argument, the row of the inputs that belongs to the
    state that is produced or seen. Scales are those of NumPyro: `dist.Normal` takes a standard deviation.

    Attributes:
        prior: parameter name -> NumPyro distribution. `theta` is a dict with the same names.
        initial: `initial(theta)`, the state at index 0, shape (d,). An unknown start is a parameter with a prior.
        transition: `transition(x, theta)`, the distribution of the next state, with an event of shape (d,).
        observation: `observation(x, theta)`, the distribution of a row of `y`, its exactly observed columns left out;
            `None` where no others are left.
        support: where the state lives: one NumPyro constraint for all components, or a tuple with one for each.
        exactly_observed: state component -> column of `y` that shows it without error. Where such a value is missing, the
            component is inferred like any other.
        states: names of the state components, which appear in tables, figures and exports.
    """

    prior: Any
    initial: Callable[[Theta], Array]
    transition: Callable[..., dist.Distribution]
    observation: Callable[..., dist.Distribution] | None = None
    support: Any = dataclasses.field(default_factory=lambda: constraints.real)
    exactly_observed: Mapping[int, int] = dataclasses.field(default_factory=dict)
    states: tuple[str, ...] | None = None


def _normal_log_prob(distribution: Any, x: Array) -> Float[Array, ""]:
    """The multivariate normal's, with a small triangular system solved entry by entry (`nmax._small`)."""
    root, rest, whitened = distribution.scale_tril, x - distribution.loc, []
    if len(x) > LARGEST:
        return distribution.log_prob(x)
    for i in range(len(x)):
        whitened.append((rest[i] - sum(root[i, k] * whitened[k] for k in range(i))) / root[i, i])
    return -0.5 * jnp.sum(jnp.stack(whitened) ** 2) - jnp.sum(jnp.log(jnp.diagonal(root))) - 0.5 * len(x) * LOG_2PI


def _row(inputs: Array) -> tuple[Array, ...]:
    return (inputs,) if inputs.shape[0] else ()


def _elementwise_transform(constraint: Any) -> Any:
    """The real line to the constraint. Positive numbers by softplus, as in the paper, which leaves large ones alone."""
    if not isinstance(constraint, constraints.Constraint):
        raise TypeError(
            f"`support` must be a NumPyro constraint, or a tuple with one for each state component; got {constraint!r}."
        )
    base = constraint.base_constraint if isinstance(constraint, constraints.independent) else constraint
    if base in (constraints.positive, constraints.nonnegative):
        return SoftplusTransform()
    transform = biject_to(base)
    if transform.domain.event_dim or transform.codomain.event_dim:
        raise ValueError(
            f"`support` must constrain each state component on its own; got {constraint!r}. "
            "Write the model in coordinates that can vary freely, or pass a tuple with one constraint a component."
        )
    return transform


def log_prob_of_rows(function: Callable[..., Array], *rows: Array, theta: Theta) -> Float[Array, " time"]:
    """A log density of one step, evaluated on rows of its arguments with θ held fixed."""
    return jax.vmap(lambda *row: function(*row[:-1], theta, row[-1]))(*rows)
