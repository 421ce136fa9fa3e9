"""Linear algebra of small matrices, written out entry by entry.

Under `vmap` every entry becomes one array over all lanes, and a chain of products one fused loop, where batched matrix
routines would call a library once a lane. Matrices are lists of rows of scalars, vectors lists of scalars; above
`LARGEST` they stay arrays, since the written-out code would grow with the cube of their size.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

LARGEST = 4
TINY = 1e-30
ROUNDING = 5e-7  # share of a diagonal entry below which a pivot is taken for rounding error

Matrix = Any  # a list of lists of scalars, or an array of shape (n, n)
Vector = Any  # a list of scalars, or an array of shape (n,)


def unpack(a: Array, lead: int = 0) -> Any:
    """An array as nested lists of its entries, if it is small; `lead` axes in front, time say, stay with the entries."""
    shape = a.shape[lead:]
    if max(shape) > LARGEST:
        return a
    front = (slice(None),) * lead
    if len(shape) == 1:
        return [a[(*front, i)] for i in range(shape[0])]
    return [[a[(*front, i, j)] for j in range(shape[1])] for i in range(shape[0])]


def pack(a: Any) -> Array:
    """Nested lists back to an array, the entries' own axes in front."""
    if not isinstance(a, list):
        return a
    if isinstance(a[0], list):
        return jnp.stack([jnp.stack(row, axis=-1) for row in a], axis=-2)
    return jnp.stack(a, axis=-1)


def zeros(n: int) -> tuple[Vector, Matrix]:
    """A zero vector and a zero matrix."""
    return unpack(jnp.zeros(n)), unpack(jnp.zeros((n, n)))


def symmetric(a: Matrix) -> Matrix:
    """The mean of a matrix and its transpose."""
    if not isinstance(a, list):
        return 0.5 * (a + a.T)
    n = len(a)
    upper = {(i, j): a[i][i] if i == j else 0.5 * (a[i][j] + a[j][i]) for i in range(n) for j in range(i, n)}
    return [[upper[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]


def identity_plus(a: Matrix) -> Matrix:
    """$I + A$."""
    if not isinstance(a, list):
        return a + jnp.eye(len(a))
    return [[a[i][j] + 1.0 if i == j else a[i][j] for j in range(len(a))] for i in range(len(a))]


def scaled(a: Any, factor: Any) -> Any:
    """A matrix or vector times a number."""
    return [scaled(row, factor) for row in a] if isinstance(a, list) else a * factor


def added(a: Any, b: Any) -> Any:
    """$A + B$, matrices or vectors."""
    return [added(x, y) for x, y in zip(a, b, strict=True)] if isinstance(a, list) else a + b


def subtracted(a: Any, b: Any) -> Any:
    """$A - B$, matrices or vectors."""
    return [subtracted(x, y) for x, y in zip(a, b, strict=True)] if isinstance(a, list) else a - b


def transposed(a: Matrix) -> Matrix:
    """$A^\\top$."""
    return [list(column) for column in zip(*a, strict=True)] if isinstance(a, list) else a.T


def times(a: Matrix, b: Matrix) -> Matrix:
    """$AB$."""
    if not isinstance(a, list):
        return a @ b
    return [[_dot(row, column) for column in zip(*b, strict=True)] for row in a]


def applied(a: Matrix, x: Vector) -> Vector:
    """$Ax$."""
    return [_dot(row, x) for row in a] if isinstance(a, list) else a @ x


def cholesky(a: Matrix) -> Matrix:
    """Lower factor of a positive definite matrix; NaN if it is not."""
    if not isinstance(a, list):
        return jnp.linalg.cholesky(a)
    n = len(a)
    lower = [[0.0 * a[0][0]] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = a[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = jnp.sqrt(rest) if i == j else rest / lower[j][j]
    return lower


def inverse_cholesky(a: Matrix) -> Matrix:
    """$L^{-1}$, lower triangular, of a positive definite matrix $LL^\\top$."""
    if not isinstance(a, list):
        return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(a), jnp.eye(len(a)), lower=True)
    n = len(a)
    zero = 0.0 * a[0][0]
    lower, inverse = [[zero] * n for _ in range(n)], [[zero] * n for _ in range(n)]
    for j in range(n):
        inverse[j][j] = jax.lax.rsqrt(a[j][j] - sum(lower[j][k] ** 2 for k in range(j)))
        for i in range(j + 1, n):
            lower[i][j] = (a[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))) * inverse[j][j]
    for j in range(n):
        for i in range(j + 1, n):
            inverse[i][j] = -inverse[i][i] * sum(lower[i][k] * inverse[k][j] for k in range(j, i))
    return inverse


def semidefinite_cholesky(a: Matrix, rounding: float = ROUNDING, *, one_unit: bool = False) -> Matrix:
    """Lower factor of a matrix that may be singular, or indefinite where an approximation went wrong.

    A pivot that is not positive, or so small that it may be rounding error alone, makes its column zero, so that the factor
    is that of a nearby semidefinite matrix and of the matrix itself if it is one. Dividing by the root of such a pivot
    would blow the rounding errors below it up to any size. Small is meant against its own diagonal entry or, where all
    components have `one_unit`, against the largest one: an error in one row is then as large as in any other.
    """
    if not isinstance(a, list):
        return pack(_factor([[a[i, j] for j in range(len(a))] for i in range(len(a))], rounding, one_unit))
    return _factor(a, rounding, one_unit)


def _factor(a: list, rounding: float, one_unit: bool) -> list:
    n = len(a)
    zero = a[0][0] * 0.0
    largest = functools.reduce(jnp.maximum, [a[j][j] for j in range(n)])
    factor = [[zero] * n for _ in range(n)]
    for j in range(n):
        pivot = a[j][j] - sum(factor[j][k] ** 2 for k in range(j))
        good = pivot > jnp.maximum(rounding * (largest if one_unit else a[j][j]), TINY)
        root = jnp.sqrt(jnp.where(good, pivot, 1.0))
        factor[j][j] = jnp.where(good, root, 0.0)
        for i in range(j + 1, n):
            rest = a[i][j] - sum(factor[i][k] * factor[j][k] for k in range(j))
            factor[i][j] = jnp.where(good, rest / root, 0.0)
    return factor


def solve_lower(lower: Matrix, b: Any) -> Any:
    """$L^{-1}B$ for a vector or a matrix; a zero pivot gives a zero row."""
    if not isinstance(lower, list):
        safe = _safe_diagonal(lower)
        solved = jax.scipy.linalg.solve_triangular(safe, b, lower=True)
        alive = jnp.diagonal(lower) > 0
        return jnp.where(alive if b.ndim == 1 else alive[:, None], solved, 0.0)
    if isinstance(b[0], list):
        return transposed([solve_lower(lower, list(column)) for column in zip(*b, strict=True)])
    x: list = []
    for i in range(len(lower)):
        rest = b[i] - sum(lower[i][k] * x[k] for k in range(i)) if i else b[i]
        x.append(_divided(rest, lower[i][i]))
    return x


def solve_lower_transposed(lower: Matrix, b: Any) -> Any:
    """$L^{-\\top}B$ for a vector or a matrix; a zero pivot gives a zero row."""
    if not isinstance(lower, list):
        safe = _safe_diagonal(lower)
        solved = jax.scipy.linalg.solve_triangular(safe, b, lower=True, trans="T")
        alive = jnp.diagonal(lower) > 0
        return jnp.where(alive if b.ndim == 1 else alive[:, None], solved, 0.0)
    if isinstance(b[0], list):
        return transposed([solve_lower_transposed(lower, list(column)) for column in zip(*b, strict=True)])
    n = len(lower)
    x: list = [None] * n
    for i in reversed(range(n)):
        rest = b[i]
        for k in range(i + 1, n):
            rest = rest - lower[k][i] * x[k]
        x[i] = _divided(rest, lower[i][i])
    return x


def log_diagonal(lower: Matrix) -> Array:
    """Sum of the logarithms of the positive entries of the diagonal."""
    if not isinstance(lower, list):
        diagonal = jnp.diagonal(lower)
        return jnp.sum(jnp.where(diagonal > 0, jnp.log(jnp.where(diagonal > 0, diagonal, 1.0)), 0.0))
    total = 0.0
    for i in range(len(lower)):
        alive = lower[i][i] > 0
        total = total + jnp.where(alive, jnp.log(jnp.where(alive, lower[i][i], 1.0)), 0.0)
    return jnp.asarray(total)


def _dot(x: Any, y: Any) -> Any:
    total = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        total = total + a * b
    return total


def _divided(a: Any, b: Any) -> Any:
    alive = b > 0
    return jnp.where(alive, a / jnp.where(alive, b, 1.0), 0.0)


def _safe_diagonal(lower: Array) -> Array:
    return lower + jnp.diag(jnp.where(jnp.diagonal(lower) > 0, 0.0, 1.0))
