"""The backward information filter, and two ways forward from it: marginals of the linear model, draws of the real one."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from nmax._small import (
    Matrix,
    Vector,
    added,
    applied,
    identity_plus,
    inverse_cholesky,
    log_diagonal,
    pack,
    scaled,
    semidefinite_cholesky,
    subtracted,
    symmetric,
    times,
    transposed,
    unpack,
    zeros,
)
from nmax.lookahead._dynamics import Dynamics, Linear, Reference, Rows


class Ahead(eqx.Module):
    r"""Gaussian summaries of what is still to come, in deviations δ from the reference.

    $\log p(y_{i:} \mid u_i) \approx -\tfrac12 \delta^\top \Lambda_i \delta + \eta_i^\top \delta$ with the potential of step
    $i$ itself, and the same with $(H_i, h_i)$ without it.

    Attributes:
        precision: $\Lambda_i$.
        gradient: $\eta_i$.
        later_precision: $H_i$.
        later_gradient: $h_i$.
    """

    precision: Float[Array, "time drawn drawn"]
    gradient: Float[Array, "time drawn"]
    later_precision: Float[Array, "time drawn drawn"]
    later_gradient: Float[Array, "time drawn"]


class Tilt:
    r"""A Gaussian with root $C$ times $\exp(-\tfrac12 \delta^\top \Lambda \delta + \eta^\top \delta)$, inverting neither.

    With $S = I + C^\top \Lambda C = LL^\top$, whose eigenvalues are all at least 1, the tilted covariance is
    $V = C S^{-1} C^\top$, and a mean $c$ becomes $c + V(\eta - \Lambda c)$. $C$ may be singular: a component that is not
    drawn at a step has a zero row.
    """

    def __init__(self, root: Matrix, precision: Matrix):
        """Factor what both directions need."""
        self.root, self.precision = root, precision
        self.half = times(transposed(root), precision)
        self.inverse = inverse_cholesky(identity_plus(times(self.half, root)))  # L^{-1}

    def draw(self, centre: Vector, gradient: Vector, z: Vector) -> Vector:
        """$c + V(\\eta - \\Lambda c) + C L^{-\\top} z$."""
        rest = subtracted(gradient, applied(self.precision, centre))
        pull = applied(self.inverse, applied(transposed(self.root), rest))
        return added(centre, applied(self.root, applied(transposed(self.inverse), added(pull, z))))

    def mean(self, centre: Vector, gradient: Vector) -> Vector:
        """The tilted mean: a draw with no noise."""
        return self.draw(centre, gradient, scaled(centre, 0.0))

    def spread(self) -> Matrix:
        """A root of $V$: $C L^{-\\top}$."""
        return times(self.root, transposed(self.inverse))

    def shrink(self) -> tuple[Matrix, Matrix]:
        """$R = I - V\\Lambda$, by which a mean is multiplied, and $G = S^{-1} C^\\top \\Lambda$."""
        gain = times(transposed(self.inverse), times(self.inverse, self.half))
        return identity_plus(scaled(times(self.root, gain), -1.0)), gain

    def before(self, slope: Matrix, defect: Vector, gradient: Vector) -> tuple[Matrix, Vector]:
        r"""The summary one step earlier, $A^\top W A$ and $A^\top R^\top (\eta - \Lambda d)$.

        $W = (Q + \Lambda^{-1})^{-1}$ is put together from squares, $R^\top \Lambda R + G^\top G$, so that rounding cannot
        make it indefinite.
        """
        shrink, gain = self.shrink()
        moved, gained = times(shrink, slope), times(gain, slope)
        precision = added(times(transposed(moved), times(self.precision, moved)), times(transposed(gained), gained))
        rest = subtracted(gradient, applied(self.precision, defect))
        return precision, applied(transposed(moved), rest)


def look_ahead(linear: Linear) -> Ahead:
    """Run the information filter from the last step to the first; nothing is known of what comes after the last."""

    def back(carry, step):
        later_gradient, later_precision = carry
        slope, defect, root, precision, gradient = step
        precision, gradient = added(later_precision, precision), added(later_gradient, gradient)
        earlier_precision, earlier_gradient = Tilt(root, precision).before(slope, defect, gradient)
        return (earlier_gradient, symmetric(earlier_precision)), (precision, gradient, later_precision, later_gradient)

    parts = (linear.slope, linear.defect, linear.root, linear.precision, linear.gradient)
    steps = tuple(unpack(part, lead=1) for part in parts)
    _, ahead = jax.lax.scan(back, zeros(linear.defect.shape[1]), steps, reverse=True)
    return Ahead(*(pack(part) for part in ahead))


def marginals(linear: Linear, ahead: Ahead) -> tuple[Float[Array, "time drawn"], Float[Array, "time drawn drawn"]]:
    """Mean and root of covariance of every step's δ given all data, in the linear Gaussian model."""

    def forward(carry, step):
        mean, covariance = carry
        slope, defect, root, precision, gradient = step
        tilt = Tilt(root, precision)
        mean = tilt.mean(added(applied(slope, mean), defect), gradient)
        move, spread = times(tilt.shrink()[0], slope), tilt.spread()
        covariance = added(times(move, times(covariance, transposed(move))), times(spread, transposed(spread)))
        return (mean, covariance), (mean, semidefinite_cholesky(covariance))

    parts = (linear.slope, linear.defect, linear.root, ahead.precision, ahead.gradient)
    steps = tuple(unpack(part, lead=1) for part in parts)
    _, (mean, root) = jax.lax.scan(forward, zeros(linear.defect.shape[1]), steps)
    return pack(mean), pack(root)


def draw_step(
    dynamics: Dynamics,
    u: Vector,
    row: Rows,
    following: Rows,
    precision: Matrix,
    gradient: Vector,
    centre: Vector,
    z: Vector,
) -> tuple[Vector, Array]:
    r"""From $u_{i-1}$ to $u_i$ by the model's own transition, tilted; and $\log|\partial u_i / \partial z_i|$."""
    mean, root, _ = dynamics.move(pack(u), row, following)
    tilt = Tilt(unpack(root), precision)
    u = added(centre, tilt.draw(subtracted(unpack(mean), centre), gradient, z))
    return u, log_diagonal(tilt.root) + log_diagonal(tilt.inverse)


def draw(
    dynamics: Dynamics, reference: Reference, ahead: Ahead, rows: Rows, z: Float[Array, "time drawn"]
) -> tuple[Float[Array, "time drawn"], Float[Array, " time"]]:
    r"""A path in unconstrained coordinates, and $\log|\partial u_i / \partial z_i|$ of each step.

    The model's own transition, tilted by what is to come:
    $u_i = \bar u_i + R_i(f(u_{i-1}) - \bar u_i) + V_i \eta_i + C_i L_i^{-\top} z_i$ with $f$ and $C_i$ at the drawn
    $u_{i-1}$. The first step is drawn from the reference or, at index 0 and before, is the model's start.
    """

    def forward(u, step):
        u, log_det = draw_step(dynamics, u, *step)
        return u, (u, log_det)

    def part(tree, keep):
        return jax.tree.map(lambda a: a[keep], tree)

    early, late = slice(None, -1), slice(1, None)
    pinned = rows.index[0] <= 0
    first = jnp.where(pinned, dynamics.start, reference.mean[0] + reference.root[0] @ z[0])
    log_det = jnp.where(pinned, 0.0, log_diagonal(unpack(reference.root[0])))
    entries = (unpack(a[late], lead=1) for a in (ahead.precision, ahead.gradient, reference.mean, z))
    _, (u, log_dets) = jax.lax.scan(
        jax.checkpoint(forward, prevent_cse=False), unpack(first), (part(rows, early), part(rows, late), *entries)
    )
    return jnp.concatenate([first[None], pack(u)]), jnp.concatenate([log_det[None], log_dets])
