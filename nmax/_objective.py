"""The evidence lower bound, estimated from windows."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax.data import Series, Window, Windows
from nmax.guides import Guide, Stretch
from nmax.models import Theta, log_prob_of_rows

SIGNS_E = np.array([1.0, 1.0, -1.0, -1.0], np.float32)
SIGNS_Z = np.array([1.0, -1.0, 1.0, -1.0], np.float32)


class Elbo(eqx.Module):
    """Parts of the evidence lower bound of the whole series, in nats. Higher is better.

    Attributes:
        theta: log p(θ) − log q(θ).
        dynamics: log p(x | θ), scaled up from the window.
        data: log p(y | x, θ), scaled up, that of y_0 included.
        entropy: −log q(x | θ), scaled up.
        balance: increments of the guide's own forecast of the data, scaled up. Zero over the whole series, it takes out of
            a window's estimate most of what depends on where the path enters and leaves it.
    """

    theta: Float[Array, "..."]
    dynamics: Float[Array, "..."]
    data: Float[Array, "..."]
    entropy: Float[Array, "..."]
    balance: Float[Array, "..."]

    @property
    def total(self) -> Float[Array, "..."]:
        """The bound itself."""
        return self.theta + self.dynamics + self.data + self.entropy + self.balance


def window_elbo(
    guide: Guide,
    series: Series,
    windows: Windows,
    window: Window,
    theta_noise: Float[Array, " param"],
    z: Float[Array, "noise drawn"],
) -> Elbo:
    r"""One draw's log-ratio, estimated from one window $B$ drawn with probability $|B|/T$:

    $$\log\frac{p(\theta)}{q(\theta)} + \log p(y_0 \mid x_0, \theta) + \frac{T}{|B|} \sum_{i \in B}
    \{\log p(x_i \mid x_{i-1}, \theta) + \log p(y_i \mid x_i, \theta) - \lambda_i + D_i - D_{i-1}\}.$$

    With several series T is the number of steps of all, and a window of series k, which has $T_k$, counts $\log p(y_0^k \mid
    x_0^k, \theta)$ for $T / T_k$: its windows come up with probability $T_k / T$ in all.

    Args:
        guide: q.
        series: the data.
        windows: the partition the window belongs to.
        window: which window. Where it has fewer than `windows.width` steps, the rest count for nothing.
        theta_noise: base noise of θ.
        z: noise for the `windows.width` + 1 steps from one before the window on, and the guide's reach around them.
    """  # noqa: D205
    flat, log_q_theta = guide.theta(theta_noise)
    own = guide.model.parameters.log_prob(flat) - log_q_theta
    return dataclasses.replace(window_ratio(guide, series, windows, window, flat, theta_noise, z), theta=own)


def window_ratio(
    guide: Guide,
    series: Series,
    windows: Windows,
    window: Window,
    flat: Float[Array, " param"],
    theta_noise: Float[Array, " param"],
    z: Float[Array, "noise drawn"],
) -> Elbo:
    """The same at any θ, given in unconstrained coordinates, and without θ's own part."""
    theta = guide.model.parameters.constrain(flat)
    stretch = guide.path(theta, theta_noise, z, series, window.start - 1)
    return stretch_ratio(guide, series, windows, window, theta, stretch)


def stretch_ratio(guide: Guide, series: Series, windows: Windows, window: Window, theta: Theta, stretch: Stretch) -> Elbo:
    """The same for a path that is drawn already, from one step before the window on."""
    counted = jnp.arange(windows.width) < window.size
    terms = step_terms(guide, series, theta, stretch, window.start)

    def whole(parts):
        return jnp.sum(jnp.where(counted, parts, 0.0)) * (windows.length / window.size)

    scaled, first = jax.tree.map(whole, terms), start_term(guide, series, theta)
    if series.ends is not None:
        first *= windows.length / series.ends
    return dataclasses.replace(scaled, theta=jnp.zeros(()), data=scaled.data + first)


def step_terms(guide: Guide, series: Series, theta: Theta, stretch: Stretch, start: Int[Array, ""]) -> Elbo:
    """The parts of the log-ratio step by step, from `start` on, of a path drawn from one step before it on."""
    model, (x, log_q, ahead, _) = guide.model, stretch
    row = series.at(start + jnp.arange(len(x) - 1))
    y, observed, inputs = series.values[row], series.observed[row], series.inputs[row]
    return Elbo(
        theta=jnp.zeros(len(x) - 1),
        dynamics=log_prob_of_rows(model.transition_log_prob, x[:-1], x[1:], inputs, theta=theta),
        data=log_prob_of_rows(model.observation_log_prob, x[1:], y, observed, inputs, theta=theta),
        entropy=-log_q[1:],
        balance=ahead[1:] - ahead[:-1],
    )


def start_term(guide: Guide, series: Series, theta: Theta) -> Float[Array, ""]:
    """Log p(y_0 | x_0, θ)."""
    values, observed, inputs = series.start
    return guide.model.observation_log_prob(guide.start(theta, series), values, observed, theta, inputs)


def mirrored_elbo(guide: Guide, series: Series, windows: Windows, window: Window, noise: Float[Array, " noise"]) -> Elbo:
    r"""The mean of four estimates from one window, with noise $(\pm e, \pm z)$.

    What is linear in $e$ or in $z$, most of the noise in the gradient once the guide is near the posterior, cancels; the
    side information is encoded only once. `noise` holds $e$ and then $z$, as many as `noise_size` says.
    """
    size = guide.theta_flow.size
    e, z = noise[:size], noise[size:].reshape(-1, len(guide.drawn))
    four = jax.vmap(lambda a, b: window_elbo(guide, series, windows, window, a * e, b * z))(SIGNS_E, SIGNS_Z)
    return jax.tree.map(jnp.mean, four)


def noise_size(guide: Guide, windows: Windows) -> int:
    """How many standard normal numbers a window takes."""
    return guide.theta_flow.size + (windows.width + 1 + sum(guide.reach)) * len(guide.drawn)


def draw_elbo(
    guide: Guide,
    series: Series,
    windows: Windows,
    count: int,
    *,
    shift: Int[Array, ""],
    key: PRNGKeyArray,
    part: tuple[Int[Array, ""], int] | None = None,
) -> Elbo:
    """The mean of the estimates from `count` windows, each with its own draw; unbiased if `shift` is uniform.

    With `part`, a number and how many parts there are, only of that part of the windows: the mean of all parts is the same.
    """
    noise = jr.normal(key, (count, noise_size(guide, windows)))  # all at once: random numbers take long to compile
    chosen = windows.spread(shift, count)
    if part is not None:
        number, parts = part
        own = count // parts
        noise, chosen = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, number * own, own), (noise, chosen))

    def one(series, window, noise):
        return mirrored_elbo(guide, series, windows, window, noise)

    each = jax.vmap(one, in_axes=(series.stacked, 0, 0))
    return jax.tree.map(jnp.mean, each(series, chosen, noise))
