"""One step of a model as the look-ahead sees it: Gaussian moments, and what the data say about the state."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from nmax._small import (
    added,
    pack,
    scaled,
    semidefinite_cholesky,
    solve_lower_transposed,
    times,
    transposed,
    unpack,
)
from nmax.data import Series
from nmax.lookahead._moments import conditioned, transition_moments
from nmax.models import AbstractModel, Theta

DIFFERENCES = 3e-5  # rounding error of a curvature that is a difference of gradients, against the largest one
REACH = 3.0**0.5  # of the quadrature points, in standard deviations: exact for polynomials up to the fifth degree an axis


class Rows(eqx.Module):
    """What is known of consecutive steps, one row a step.

    Attributes:
        index: the step; rows outside 0..T hold the nearest row's data and count for nothing.
        y: observations.
        observed: which of them are real.
        inputs: exogenous inputs.
        known: 1.0 for the state components that the data show exactly, 0.0 for the others.
        value: those components in unconstrained coordinates.
        length: T.
    """

    index: Int[Array, " time"]
    y: Float[Array, "time obs"]
    observed: Bool[Array, "time obs"]
    inputs: Float[Array, "time inputs"]
    known: Float[Array, "time state"]
    value: Float[Array, "time state"]
    length: Int[Array, " time"]

    @property
    def inside(self) -> Bool[Array, " time"]:
        """Whether the step is one of 1..T, which are drawn."""
        return (self.index >= 1) & (self.index <= self.length)


def rows_of(model: AbstractModel, series: Series, index: Int[Array, " time"]) -> Rows:
    """The rows of a series for the steps `index`."""
    at = series.at(index)
    y, observed = series.values[at], series.observed[at]
    known, value = [], []
    for k, transform in enumerate(model.state_transforms):
        if k in model.exactly_observed:
            column = model.exactly_observed[k]
            known.append(observed[:, column].astype(jnp.float32))
            value.append(jnp.where(observed[:, column], transform.inv(y[:, column]), 0.0))
        else:
            known.append(jnp.zeros(len(index)))
            value.append(jnp.zeros(len(index)))
    length = jnp.full(index.shape, series.end, index.dtype)
    return Rows(index, y, observed, series.inputs[at], jnp.stack(known, axis=1), jnp.stack(value, axis=1), length)


class Dynamics(eqx.Module):
    """A model at one θ, in unconstrained coordinates $u$ of the drawn state components.

    Attributes:
        theta: the parameters.
        model: the model.
        drawn: the state components that are drawn at some step; the data show the others at every one.
    """

    theta: Theta
    model: AbstractModel = eqx.field(static=True)
    drawn: tuple[int, ...] = eqx.field(static=True)

    @property
    def start(self) -> Float[Array, " drawn"]:
        """The drawn components at index 0."""
        x = jnp.asarray(self.model.initial(self.theta), jnp.float32)
        return jnp.stack([self.model.state_transforms[k].inv(x[k]) for k in self.drawn])

    def whole(self, u: Float[Array, " drawn"], row: Rows) -> Float[Array, " state"]:
        """All components at one step, unconstrained; what the data show is taken from them."""
        if not self.model.exactly_observed:
            return u
        parts = []
        for k in range(self.model.state_size):
            here = row.value[k]
            parts.append(jnp.where(row.known[k] > 0, here, u[self.drawn.index(k)]) if k in self.drawn else here)
        return jnp.stack(parts)

    def state(self, u: Float[Array, " drawn"], row: Rows) -> Float[Array, " state"]:
        """The state at one step on the model's own scale."""
        whole = self.whole(u, row)
        return jnp.stack([transform(whole[k]) for k, transform in enumerate(self.model.state_transforms)])

    def move(self, u: Float[Array, " drawn"], row: Rows, following: Rows) -> tuple[Array, Array, Array]:
        """Mean and root of the next step's drawn components, and log density of those that the data show exactly.

        Outside 1..T nothing is drawn: up to index 0 the state is the model's start, beyond T it stays where it is.
        """
        inputs = (following.inputs,) if following.inputs.shape[0] else ()
        mean, root = transition_moments(self.model, self.whole(u, row), self.theta, inputs)
        log_density = jnp.zeros(())
        if self.model.exactly_observed:
            mean, covariance, log_density = conditioned(mean, root, following.known, following.value)
            chosen = np.array(self.drawn)
            mean = mean[chosen]
            root = pack(semidefinite_cholesky(unpack(covariance[chosen][:, chosen])))
        still = jnp.where(following.index <= 0, self.start, u)
        return (
            jnp.where(following.inside, mean, still),
            jnp.where(following.inside, root, 0.0),
            jnp.where(following.inside, log_density, 0.0),
        )

    def log_potential(self, u: Float[Array, " drawn"], row: Rows, following: Rows) -> Float[Array, ""]:
        """What the data say about the state at one step: its observation, and components of the next one seen exactly."""
        seen = jnp.zeros(())
        if self.model.observation is not None:
            seen = self.model.observation_log_prob(self.state(u, row), row.y, row.observed, self.theta, row.inputs)
        seen = jnp.where(row.inside, seen, 0.0)
        if self.model.exactly_observed:
            seen = seen + jnp.where(row.inside, self.move(u, row, following)[2], 0.0)
        return seen


class Linear(eqx.Module):
    r"""A model made linear and Gaussian around a reference $N(\bar u_i, P_i)$, in deviations $\delta = u - \bar u$.

    $\delta_i = A_i \delta_{i-1} + d_i + C_i \epsilon$, and potentials
    $-\tfrac12 \delta_i^\top \Lambda_i \delta_i + g_i^\top \delta_i$.

    Attributes:
        slope: $A_i$; zero for the first step.
        defect: $d_i$: mean of the step minus the reference.
        root: $C_i$, lower triangular.
        precision: $\Lambda_i$.
        gradient: $g_i$.
    """

    slope: Float[Array, "time drawn drawn"]
    defect: Float[Array, "time drawn"]
    root: Float[Array, "time drawn drawn"]
    precision: Float[Array, "time drawn drawn"]
    gradient: Float[Array, "time drawn"]


class Reference(eqx.Module):
    """Where the model is made linear: a Gaussian for each step.

    Attributes:
        mean: $\\bar u_i$.
        root: of the covariance $P_i$, lower triangular.
    """

    mean: Float[Array, "time drawn"]
    root: Float[Array, "time drawn drawn"]


def linearised(dynamics: Dynamics, reference: Reference, rows: Rows, first: tuple[Array, Array]) -> Linear:
    r"""The linear Gaussian model nearest on average over the reference.

    $A = E[\partial f]$, $E[f]$, $g = E[\partial \ell]$ and $\Lambda = -E[\partial^2 \ell]$ under $N(\bar u_i, P_i)$, with
    $f$ the mean of the next step and $\ell$ the log potential: for given noise of the dynamics the choice that minimises
    the Kullback–Leibler divergence of a Gaussian from the posterior, once the reference is that Gaussian. The
    expectations are taken on the $2n + 1$ points $\bar u, \bar u \pm \sqrt 3 P^{1/2}_j$; of $\ell$ only the gradient is
    needed.

    Args:
        dynamics: the model at a θ.
        reference: one Gaussian a step.
        rows: the data of those steps and of one more.
        first: mean and root of the state at the first step before any data are seen.
    """
    here, following = jax.tree.map(lambda a: a[:-1], rows), jax.tree.map(lambda a: a[1:], rows)
    one = jax.vmap(lambda m, p, a, b: _linearised_step(dynamics, m, p, a, b))
    slope, mean, root, precision, gradient = one(reference.mean, reference.root, here, following)
    centre, spread = first
    return Linear(
        jnp.concatenate([jnp.zeros_like(slope[:1]), slope[:-1]]),
        jnp.concatenate([centre[None], mean[:-1]]) - reference.mean,
        jnp.concatenate([spread[None], root[:-1]]),
        precision,
        gradient,
    )


def _linearised_step(dynamics: Dynamics, mean: Array, root: Array, row: Rows, following: Rows) -> tuple[Array, ...]:
    n = len(mean)
    offsets = REACH * root.T  # row j: the j-th axis of the reference
    points = jnp.concatenate([mean[None], mean[None] + offsets, mean[None] - offsets])
    moved = jax.vmap(lambda u: dynamics.move(u, row, following)[0])(points)
    tilt = jax.vmap(jax.grad(lambda u: dynamics.log_potential(u, row, following)))(points)

    def average(values):
        middle, plus, minus = values[0], values[1 : n + 1], values[n + 1 :]
        return middle + jnp.sum(plus + minus - 2 * middle[None], axis=0) / 6.0

    def slope_along(values):  # rows: derivative along each axis of the reference
        return (values[1 : n + 1] - values[n + 1 :]) / (2.0 * REACH)

    axes = unpack(root)
    slope = transposed(solve_lower_transposed(axes, unpack(slope_along(moved))))
    curvature = times(unpack(slope_along(tilt)), axes)  # of the potential, along the axes of the reference
    factor = semidefinite_cholesky(scaled(added(curvature, transposed(curvature)), -0.5), DIFFERENCES, one_unit=True)
    half = solve_lower_transposed(axes, factor)
    precision = times(half, transposed(half))
    return pack(slope), average(moved), dynamics.move(mean, row, following)[1], pack(precision), average(tilt)
