"""What the model expects to observe of a path: bands for columns that do not show a state directly."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from nmax.models import AbstractModel

ALIKE = 1e-4  # of a component's spread: what the mean of a column may differ from it by and still be the same


class Expectation:
    r"""$\mathrm{E}[y_i \mid x_i, \theta]$ of the columns that are not exactly observed.

    Attributes:
        columns: their numbers; none where the observation has no mean that could be had.
    """

    def __init__(self, model: AbstractModel, columns: int, probe: Any):
        """Try it at a probe: θ by name, states and inputs, a draw a row."""
        self._model = model
        self.columns: tuple[int, ...] = ()
        others = tuple(k for k in range(columns) if k not in set(model.exactly_observed.values()))
        if model.observation is None or not others:
            return
        self._mean = jax.jit(jax.vmap(jax.vmap(self._one, in_axes=(0, None, 0)), in_axes=(0, 0, None)))
        try:
            theta, x, inputs = probe
            found = np.asarray(jax.vmap(self._one)(x, theta, inputs))
        except (NotImplementedError, AttributeError):
            return
        if found.shape[1] == columns:
            found = found[:, list(others)]
            self._pick: tuple[int, ...] = others
        else:
            self._pick = tuple(range(len(others)))
        if np.isfinite(found).all():
            self.columns = others

    def _one(self, x: Array, theta: Any, inputs: Array) -> Array:
        assert self._model.observation is not None
        distribution = self._model.observation(x, theta, *((inputs,) if inputs.shape[0] else ()))
        return jnp.asarray(distribution.mean, jnp.float32)

    def __call__(self, x: np.ndarray, theta: Any, inputs: np.ndarray) -> Float[np.ndarray, "draw time column"]:
        """Of draws (draw, time, state), each with its own θ."""
        found = np.asarray(self._mean(jnp.asarray(x), theta, jnp.asarray(inputs)))
        return found[:, :, list(self._pick)]

    def shown(self, probe: Any) -> dict[int, int]:
        """Column -> state component whose value it has as mean, at every probe."""
        if not self.columns:
            return {}
        theta, x, inputs = probe
        found = np.asarray(jax.vmap(self._one)(x, theta, inputs), np.float64)[:, list(self._pick)]
        states, out = np.asarray(x, np.float64), {}
        for k, column in enumerate(self.columns):
            for component in range(states.shape[1]):
                state = states[:, component]
                near = ALIKE * max(float(np.ptp(state)), 1e-30)
                if component not in out.values() and np.ptp(state) > 0 and np.all(np.abs(found[:, k] - state) <= near):
                    out[column] = component
                    break
        return out
