"""A smooth surface through the gradients of the log posterior density of θ, and q(θ) fitted to it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from nmax.flows import AffineHead, ThetaFlow

DEGREES = (4, 2)  # of the surface: the first, and the one that is tried where that has led astray
MOST_TERMS = 600
RATIOS = np.geomspace(1e-4, 1e6, 21)  # of the gradients' noise to what terms beyond the quadratic ones may be, in variance
STEPS, BATCH, RATE = 3_000, 128, 1e-2  # of Adam
MATCHED = 20_000  # draws by which the moments of the surface are found
ENOUGH = 0.2  # effective share of them below which the flow is left as it is


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


def through_gradients(
    u: Float[np.ndarray, "draw param"], gradient: Float[np.ndarray, "draw param"], degree: int = DEGREES[0]
) -> Surface:
    r"""The polynomial whose gradients are nearest to given ones, coefficients beyond the quadratic ones kept small.

    Those have independent normal priors, of a standard deviation in proportion to $1 / a!$, as the terms of a Taylor series
    have whose derivatives are all of one size. That size is the one under which the gradients are most probable: where
    noise drowns what bends, it vanishes.
    """
    exponents = _monomials(u.shape[1], degree)
    design = np.stack([_monomial_gradient(u, a) for a in exponents], axis=-1).reshape(-1, len(exponents))
    high = np.array([sum(a) > 2 for a in exponents])
    scale = np.array([1.0 / math.prod(map(math.factorial, a)) for a in exponents])
    coefficients = scale * _held_back(design * scale, gradient.reshape(-1), high)
    edge = np.quantile(np.linalg.norm(u, axis=1), 0.99)
    return Surface(jnp.asarray(coefficients, jnp.float32), jnp.float32(edge), exponents)


def _held_back(design: np.ndarray, target: np.ndarray, high: np.ndarray) -> np.ndarray:
    r"""Least squares with a normal prior on the columns marked `high`, its width by the evidence.

    With $\lambda$ the ratio of the noise's variance to the prior's, $A = X^\top X + \lambda I_h$ and noise of the variance
    that fits best, the log evidence is $-\tfrac n2 \log(y^\top y - y^\top X A^{-1} X^\top y) - \tfrac12 \log|A| + \tfrac h2
    \log\lambda$ up to a constant, n being the number of equations less that of the other columns.
    """
    gram, pull, square = design.T @ design, design.T @ target, float(target @ target)
    tiny = 1e-9 * np.trace(gram) / len(gram) * np.eye(len(gram))
    count = max(len(target) - int(np.sum(~high)), 1)
    best, coefficients = -np.inf, np.zeros(len(pull))
    for ratio in RATIOS:
        factor = np.linalg.cholesky(gram + tiny + np.diag(np.where(high, ratio, 0.0)))
        half = np.linalg.solve(factor, pull)
        log_evidence = (
            -0.5 * count * np.log(max(square - half @ half, 1e-12 * square))
            - np.log(np.diagonal(factor)).sum()
            + 0.5 * high.sum() * np.log(ratio)
        )
        if log_evidence > best:
            best, coefficients = log_evidence, np.linalg.solve(factor.T, half)
    return coefficients


def fitted(flow: ThetaFlow, surface: Surface, *, key: PRNGKeyArray) -> ThetaFlow:
    """The flow in the surface's coordinates that maximises the ELBO under it, with the surface's own mean and covariance.

    Of the flows it can choose from, the ELBO prefers those too narrow. So the result's draws are weighted by the surface,
    and its head is moved until mean and covariance are the weighted ones.
    """
    fit_key, match_key = jr.split(key)
    flow = _fitted(flow, surface, fit_key)
    u, log_ratio = (np.asarray(a, np.float64) for a in _against(flow, surface, jr.normal(match_key, (MATCHED, flow.size))))
    weight = np.exp(log_ratio - log_ratio.max())
    weight = np.minimum(weight / weight.sum(), MATCHED**-0.5)  # a few draws far out decide nothing
    weight /= weight.sum()
    if not np.isfinite(weight).all() or 1.0 / np.sum(weight**2) < ENOUGH * MATCHED:
        return flow
    mean = weight @ u
    wanted = np.linalg.cholesky((u - mean).T @ ((u - mean) * weight[:, None]))
    change = wanted @ np.linalg.inv(np.linalg.cholesky(np.cov(u.T).reshape(len(mean), -1)))
    lower = jnp.asarray(change, jnp.float32)
    loc = jnp.asarray(mean - change @ u.mean(axis=0), jnp.float32) + lower @ flow.head.loc
    return eqx.tree_at(lambda f: f.head, flow, AffineHead(loc, lower @ flow.head.matrix))


@eqx.filter_jit
def _against(flow: ThetaFlow, surface: Surface, e: Float[Array, "draw param"]) -> tuple[Array, Array]:
    def one(e):
        u, log_q = flow(e)
        return u, surface(u) - log_q

    return jax.lax.map(one, e, batch_size=1_000)


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


def _monomials(size: int, highest: int) -> tuple[tuple[int, ...], ...]:
    """Those up to a degree, or up to a lower one where there would be too many."""
    for degree in range(highest, 1, -1):
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
