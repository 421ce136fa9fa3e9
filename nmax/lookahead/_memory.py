"""How fast the posterior path forgets: what buffers have to be measured by."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from nmax._small import pack, solve_lower, times, unpack
from nmax.lookahead._dynamics import Linear, Reference
from nmax.lookahead._information import Ahead, Tilt


def memory(linear: Linear, ahead: Ahead, reference: Reference, first: int, lags: int) -> Float[Array, " lags"]:
    r"""What is left after 1, 2, ..., `lags` steps of a deviation of one posterior standard deviation at step `first`.

    Given all data, $\delta_i = R_i A_i \delta_{i-1} + \dots$: the norm of $P_{i+k}^{-1/2} (R A)_{i+k} \cdots (R A)_{i+1}
    P_i^{1/2}$ says both how long a path remembers where it was begun and how far ahead data still matter.
    """

    def forward(product, step):
        slope, root, precision, spread = (unpack(part) for part in step)
        product = times(times(Tilt(root, precision).shrink()[0], slope), product)
        left = pack(solve_lower(spread, product))
        return product, jnp.sqrt(jnp.sum(left**2))

    def part(a):
        return a[first + 1 : first + 1 + lags]

    steps = (part(linear.slope), part(linear.root), part(ahead.precision), part(reference.root))
    return jax.lax.scan(forward, unpack(reference.root[first]), steps)[1]
