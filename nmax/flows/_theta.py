"""q(θ): a masked inverse autoregressive flow with an affine head."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.bijections import AbstractBijection
from flowjax.distributions import StandardNormal
from flowjax.flows import masked_autoregressive_flow
from jaxtyping import Array, Float, PRNGKeyArray

# flowjax makes a function for each flow. It is the same for all flows of a size; shared, programs compiled for one fit serve
# the next.
_CONSTRUCTORS: dict[int, Any] = {}


class AffineHead(eqx.Module):
    r"""$\vartheta = m + L u$, with $L$ lower triangular and positive on its diagonal: any Gaussian.

    Its own coordinates are $(c, M)$ in $m + Lc$ and $L(I + M)$: a step of $c$ is one in standard deviations of q, a step of
    $M$ a relative one, so the same learning rates suit parameters of any scale and correlation, and series of any length.
    """

    loc: Float[Array, " param"]
    matrix: Float[Array, "param param"]

    def whitened(self, gradient: AffineHead) -> AffineHead:
        """A gradient with respect to $(m, L)$ as one with respect to $(c, M)$."""
        return AffineHead(self.matrix.T @ gradient.loc, jnp.tril(self.matrix.T @ jnp.tril(gradient.matrix)))

    def moved(self, step: AffineHead) -> AffineHead:
        """The change of $(m, L)$ for a step of $(c, M)$; the diagonal goes by its exponential and stays positive."""
        unit = jnp.tril(step.matrix, -1) + jnp.diag(jnp.expm1(jnp.diagonal(step.matrix)))
        return AffineHead(self.matrix @ step.loc, self.matrix @ unit)


class ThetaFlow(eqx.Module):
    """Base noise $e$ to unconstrained parameters: masked IAF, then the affine head. It starts as the head alone."""

    autoregressive: AbstractBijection | None
    head: AffineHead

    def __init__(
        self,
        loc: Float[Array, " param"],
        scale: Float[Array, " param"],
        *,
        layers: int = 5,
        width: int = 10,
        depth: int = 3,
        key: PRNGKeyArray,
    ):
        """Start at independent normals with means `loc` and standard deviations `scale`."""
        size = len(loc)
        self.head = AffineHead(loc, jnp.diag(scale))
        # with one parameter an affine autoregressive flow is affine, and the head is that already
        self.autoregressive = None if size == 1 or layers == 0 else _identity_iaf(size, layers, width, depth, key)

    @property
    def size(self) -> int:
        """The number of unconstrained parameters."""
        return len(self.head.loc)

    def __call__(self, noise: Float[Array, " param"]) -> tuple[Float[Array, " param"], Float[Array, ""]]:
        """Return the unconstrained parameters and log q of them."""
        base = -0.5 * jnp.sum(noise**2) - 0.5 * self.size * jnp.log(2 * jnp.pi)
        inner, log_det = self.inner(noise)
        log_det = log_det + jnp.sum(jnp.log(jnp.diagonal(self.head.matrix)))
        return self.head.loc + self.head.matrix @ inner, base - log_det

    def inner(self, noise: Float[Array, " param"]) -> tuple[Float[Array, " param"], Float[Array, ""]]:
        """What the affine head is applied to, and the log determinant up to there."""
        if self.autoregressive is None:
            return noise, jnp.zeros(())
        return self.autoregressive.transform_and_log_det(noise)

    def noise(self, flat: Float[Array, " param"]) -> Float[Array, " param"]:
        """The base noise of given unconstrained parameters: the inverse."""
        noise = jax.scipy.linalg.solve_triangular(self.head.matrix, flat - self.head.loc, lower=True)
        if self.autoregressive is not None:
            noise, _ = self.autoregressive.inverse_and_log_det(noise)
        return noise


def _identity_iaf(size: int, layers: int, width: int, depth: int, key: PRNGKeyArray) -> AbstractBijection:
    """Flowjax's masked IAF with random permutations; last weights zero, so each affine layer starts at the identity."""
    with jax.numpy_rank_promotion("allow"):  # flowjax promotes ranks while it builds its masks
        flow = masked_autoregressive_flow(
            key,
            base_dist=StandardNormal((size,)),
            flow_layers=layers,
            nn_width=width,
            nn_depth=depth,
            nn_activation=jax.nn.elu,
            invert=False,
        ).bijection

    def last_layer(bijection):
        return bijection.bijection.bijections[0].masked_autoregressive_mlp.layers[-1]

    def zeros(layer):
        return jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_inexact_array(leaf) else leaf, layer)

    def constructor(bijection):
        return bijection.bijection.bijections[0].transformer_constructor

    flow = eqx.tree_at(last_layer, flow, replace_fn=zeros)
    return eqx.tree_at(constructor, flow, _CONSTRUCTORS.setdefault(size, constructor(flow)))
