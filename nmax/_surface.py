"""A smooth surface through the gradients of the log posterior density of θ, and q(θ) fitted to it."""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from nmax.flows import AffineHead, ThetaFlow

DEGREE = 4
MOST_TERMS = 600
LOOSE = 0.3  # prior standard deviation of coefficients beyond the quadratic ones, in whitened coordinates
STEPS, BATCH, RATE = 3_000, 128, 1e-2  # of Adam


class Surface(eqx.Module):
    r"""$\sum_a c_a u^a$ over the monomials up to some degree, in coordinates where the posterior has about unit width.

    Attributes:
        coefficients: one a monomial.
        edge: the norm of $u$ beyond which nothing was seen; there the surface goes on straight, as steep as at the edge,
            and bends down.
        exponents: of each monomial.
    """

    coefficients: Float[Array, " term"]
    edge: Float[Array, ""]
    exponents: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __call__(self, u: Float[Array, " param"]) -> Float[Array, ""]:
        """The log density at u, up to a constant."""
        norm = jnp.sqrt(jnp.sum(u**2) + 1e-12)
        beyond = jnp.maximum(norm - self.edge, 0.0)
        value, slope = jax.jvp(self._polynomial, (u * jnp.minimum(1.0, self.edge / norm),), (u / norm,))
        return value + jnp.minimum(slope, 0.0) * beyond - 0.5 * beyond**2

    def _polynomial(self, u: Float[Array, " param"]) -> Float[Array, ""]:
        powers = jnp.stack([u**n for n in range(1 + max(map(max, self.exponents)))])
        terms = jnp.prod(powers[np.array(self.exponents), np.arange(len(u))[None]], axis=1)
        return jnp.sum(self.coefficients * terms)


def through_gradients(u: Float[np.ndarray, "draw param"], gradient: Float[np.ndarray, "draw param"]) -> Surface:
    """The polynomial whose gradients are nearest to given ones, coefficients beyond the quadratic ones kept small.

    They have a normal prior whose weight follows from the noise of the gradients: where that drowns them, they vanish.
    """
    size = u.shape[1]
    exponents = _monomials(size)
    design = np.stack([_monomial_gradient(u, a) for a in exponents], axis=-1).reshape(-1, len(exponents))
    target = gradient.reshape(-1)
    high = np.array([sum(a) > 2 for a in exponents])
    rough, *_ = np.linalg.lstsq(design[:, ~high], target, rcond=None)
    noise = np.mean((target - design[:, ~high] @ rough) ** 2)
    ridge = np.where(high, noise / LOOSE**2, 1e-6 * noise)
    gram, pull = design.T @ design, design.T @ target
    coefficients = np.linalg.solve(gram + np.diag(ridge), pull)
    noise = np.mean((target - design @ coefficients) ** 2)  # once more, now that what bends is not taken for noise
    coefficients = np.linalg.solve(gram + np.diag(np.where(high, noise / LOOSE**2, 1e-6 * noise)), pull)
    edge = np.quantile(np.linalg.norm(u, axis=1), 0.99)
    return Surface(jnp.asarray(coefficients, jnp.float32), jnp.float32(edge), exponents)


def fitted(flow: ThetaFlow, surface: Surface, *, key: PRNGKeyArray) -> ThetaFlow:
    """The flow in the surface's coordinates that maximises the ELBO under it, beginning with the given one."""
    return _fitted(flow, surface, key)


@eqx.filter_jit
def _fitted(flow: ThetaFlow, surface: Surface, key: PRNGKeyArray) -> ThetaFlow:
    params, rest = eqx.partition(flow, eqx.is_inexact_array)
    rule: Any = optax.adam(optax.cosine_decay_schedule(RATE, STEPS, 0.01))

    def lower(params):  # the head's matrix stays lower triangular
        return eqx.tree_at(lambda f: f.head.matrix, params, jnp.tril(params.head.matrix))

    def loss(params, key):
        half = jr.normal(key, (BATCH // 2, flow.size))
        u, log_q = jax.vmap(eqx.combine(lower(params), rest))(jnp.concatenate([half, -half]))
        return jnp.mean(log_q - jax.vmap(surface)(u))

    def body(carry, key):
        params, opt_state, average = carry
        update, opt_state = rule.update(jax.grad(loss)(params, key), opt_state)
        params = eqx.apply_updates(params, update)
        return (params, opt_state, jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b, average, params)), None

    (_, _, average), _ = jax.lax.scan(body, (params, rule.init(params), params), jr.split(key, STEPS))
    return eqx.combine(lower(average), rest)


def moved_to(flow: ThetaFlow, loc: Float[np.ndarray, " param"], root: Float[np.ndarray, "param param"]) -> ThetaFlow:
    """A flow of $u$ as one of $m + Lu$."""
    m, lower = jnp.asarray(loc, jnp.float32), jnp.asarray(root, jnp.float32)
    return eqx.tree_at(lambda f: f.head, flow, AffineHead(m + lower @ flow.head.loc, lower @ flow.head.matrix))


def _monomials(size: int) -> tuple[tuple[int, ...], ...]:
    for degree in range(DEGREE, 1, -1):
        terms = [
            tuple(combination.count(k) for k in range(size))
            for d in range(1, degree + 1)
            for combination in itertools.combinations_with_replacement(range(size), d)
        ]
        if len(terms) <= MOST_TERMS or degree == 2:
            return tuple(terms)
    raise AssertionError("a degree of 2 is always taken")


def _monomial_gradient(u: Float[np.ndarray, "draw param"], exponents: tuple[int, ...]) -> Float[np.ndarray, "draw param"]:
    out = np.empty_like(u)
    for k, n in enumerate(exponents):
        lowered = tuple(m - (j == k) for j, m in enumerate(exponents))
        out[:, k] = 0.0 if n == 0 else n * np.prod(u ** np.array(lowered), axis=1)
    return out
