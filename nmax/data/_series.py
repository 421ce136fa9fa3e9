"""`Series`: what was observed, when, and where nothing was."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from nmax.data._windows import check_countable

LARGEST, SMALLEST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)  # of single precision


class Series(eqx.Module):
    """Observations $y_0, ..., y_T$, row $i$ belonging to state $x_i$, and the inputs beside them.

    Attributes:
        values: the observations; where one is missing, the straight line between its neighbours in the column, or the
            nearest of them beyond the first and last, so that no NaN enters a derivative.
        observed: which entries are real.
        next_observed: index of the next real entry of the column at or after this row; T + 1 where none follows.
        next_value: that entry; anything where none follows.
        inputs: exogenous inputs, row $i$ for the step that produces $x_i$; no columns where there are none.
        centre: mean of each column over its real entries.
        scale: standard deviation of each column over its real entries, 1 for a constant column.
        input_centre: mean of each input.
        input_scale: standard deviation of each input, 1 for a constant one.
        first: the number of the first row that is here: 0, unless this is a stretch of a longer series.
        start: row 0: its values, which of them are real, and its inputs.
        typical_gap: mean number of steps between rows with an observation; an array, so that another one compiles nothing.
        complete: whether nothing at all is missing.
        partial: whether some row misses some of its columns but not all of them.
        length: T: the number of steps, one less than the number of rows of the whole series.
        ends: the T of each stretch, where stretches of series of several lengths are stacked; `length` is then the longest.

    Rows have the numbers that they have in the whole series: row $i$ is at place `at(i)` of the arrays. Several stretches of
    a series, or of several, may be stacked along a first axis of all arrays.
    """

    values: Float[Array, "*stack rows obs"]
    observed: Bool[Array, "*stack rows obs"]
    next_observed: Int[Array, "*stack rows obs"]
    next_value: Float[Array, "*stack rows obs"]
    inputs: Float[Array, "*stack rows inputs"]
    centre: Float[Array, "*stack obs"]
    scale: Float[Array, "*stack obs"]
    input_centre: Float[Array, "*stack inputs"]
    input_scale: Float[Array, "*stack inputs"]
    first: Int[Array, "*stack"]
    start: tuple[Float[Array, "*stack obs"], Bool[Array, "*stack obs"], Float[Array, "*stack inputs"]]
    typical_gap: Float[Array, "*stack"]
    complete: bool = eqx.field(static=True)
    partial: bool = eqx.field(static=True)
    length: int = eqx.field(static=True)
    ends: Int[Array, "*stack"] | None = None

    @property
    def end(self) -> int | Int[Array, ""]:
        """T, the number of the last row: that of the stretch's own series, where there are several."""
        return self.length if self.ends is None else self.ends

    @property
    def lengths(self) -> tuple[int, ...]:
        """The T of every series: of this one alone."""
        return (self.length,)

    @property
    def columns(self) -> int:
        """The number of columns of y."""
        return self.values.shape[-1]

    @property
    def input_columns(self) -> int:
        """The number of inputs."""
        return self.inputs.shape[-1]

    @property
    def has_inputs(self) -> bool:
        """Whether the model's functions take a third argument."""
        return self.input_columns > 0

    @property
    def stacked(self) -> int | None:
        """The axis along which this is several stretches of a series, 0, or None: what `vmap` calls `in_axes`."""
        return 0 if self.values.ndim == 3 else None

    def at(self, index: Int[Array, "..."]) -> Int[Array, "..."]:
        """Where rows are in the arrays; those before 0 and after T are taken for the first and the last."""
        return jnp.clip(index, 0, self.end) - self.first


def make_series(y: Any, inputs: Any = None) -> Series:
    """Check a user's arrays and turn them into a `Series`.

    Args:
        y: observations, shape (T + 1, d_y) or (T + 1,), NaN where nothing was observed.
        inputs: exogenous inputs, shape (T + 1, k) or (T + 1,), complete.
    """
    y = _floats("y", y)
    if np.isinf(y).any():
        raise ValueError(
            f"`y` must be finite, or NaN where nothing was observed; got {int(np.isinf(y).sum())} infinite entries. "
            "Replace them by NaN."
        )
    check_size("y", y)
    observed = ~np.isnan(y)
    if not observed.any():
        raise ValueError("`y` must hold at least one observation; got only NaN.")
    rows = len(y)
    inputs = _inputs(inputs, rows)

    following = np.where(observed, np.arange(rows)[:, None], rows)
    following = np.minimum.accumulate(following[::-1])[::-1]
    last = np.minimum(following, rows - 1)
    values = np.stack([_interpolated(*column) for column in zip(y.T, observed.T, strict=True)], axis=1)
    centre, scale = _moments(y, observed)
    input_centre, input_scale = _moments(inputs, np.ones(inputs.shape, bool))
    check_spread("y", scale)
    check_spread("inputs", input_scale)
    return Series(
        values=jnp.asarray(values, jnp.float32),
        observed=jnp.asarray(observed),
        next_observed=jnp.asarray(following, jnp.int32),
        next_value=jnp.asarray(np.take_along_axis(values, last, axis=0), jnp.float32),
        inputs=jnp.asarray(inputs, jnp.float32),
        centre=jnp.asarray(centre, jnp.float32),
        scale=jnp.asarray(scale, jnp.float32),
        input_centre=jnp.asarray(input_centre, jnp.float32),
        input_scale=jnp.asarray(input_scale, jnp.float32),
        first=jnp.zeros((), jnp.int32),
        start=(jnp.asarray(values[0], jnp.float32), jnp.asarray(observed[0]), jnp.asarray(inputs[0], jnp.float32)),
        typical_gap=jnp.asarray(rows / max(int(observed.any(axis=1).sum()), 1), jnp.float32),
        complete=bool(observed.all()),
        partial=bool((observed.any(axis=1) & ~observed.all(axis=1)).any()),
        length=rows - 1,
    )


def _interpolated(column: np.ndarray, observed: np.ndarray) -> np.ndarray:
    if observed.all():
        return column
    if not observed.any():
        return np.full(len(column), 0.5)  # lies in the support of most distributions
    (known,) = observed.nonzero()
    return np.interp(np.arange(len(column)), known, column[known])


def _moments(array: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column over its real entries; 1 in place of a zero deviation."""
    count = np.maximum(real.sum(axis=0), 1)
    mean = np.where(real, array, 0.0).sum(axis=0, dtype=float) / count
    variance = np.where(real, (array - mean) ** 2, 0.0).sum(axis=0, dtype=float) / count
    return mean, deviation(variance, *ends(array, real))


def ends(array: np.ndarray, real: np.ndarray) -> np.ndarray:
    """The smallest and the largest real entry of each column, shape (2, columns); ∞ and −∞ where there is none."""
    return np.stack([np.where(real, array, np.inf).min(axis=0), np.where(real, array, -np.inf).max(axis=0)])


def deviation(variance: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Standard deviations of columns with these ends; 1 for a constant one, of whose variance rounding may leave 1e-34."""
    tiny = high - low < SMALLEST  # whose squares double precision may take for zero
    return np.where((low < high) & ((variance > 0) | tiny), np.sqrt(variance), 1.0)


def check_size(name: str, array: np.ndarray, where: str = "") -> None:
    """Refuse finite numbers that single precision, in which everything is computed, would take for infinite."""
    if (most := np.nanmax(np.abs(array), initial=0.0)) > LARGEST:
        raise ValueError(
            f"`{name}` must hold numbers up to {LARGEST:.2g}, the largest of single precision; got one of size {most:.2g}"
            f"{where}. Pass it in other units."
        )


def check_spread(name: str, scale: np.ndarray, where: str = "") -> None:
    """Refuse columns that vary by less than single precision can tell from zero."""
    if (scale < SMALLEST).any():
        column = int(np.argmax(scale < SMALLEST))
        raise ValueError(
            f"`{name}` must vary by {SMALLEST:.2g} or more, what single precision can tell from zero, or not at all; the "
            f"standard deviation of column {column} is {scale[column]:.2g}{where}. Pass it in other units."
        )


def _floats(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if np.issubdtype(array.dtype, np.integer):
        array = array.astype(np.float64)
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(
            f"`{name}` must hold numbers, with NaN where one is missing; got dtype {array.dtype}. "
            f"Pass `{name}.astype(float)`, if that is what they mean."
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"`{name}` must have shape (T + 1, columns) or (T + 1,); got {array.ndim} dimensions, shape {array.shape}."
        )
    if array.size == 0:
        raise ValueError(f"`{name}` must not be empty; got shape {array.shape}.")
    if len(array) < 2:
        hint = f" Rows are steps: pass `{name}.T`?" if array.ndim == 2 and array.shape[1] > 1 else ""
        raise ValueError(f"`{name}` must have at least two rows, y_0 and y_1; got {len(array)}.{hint}")
    check_countable(len(array))
    return array


def _inputs(inputs: Any, rows: int) -> np.ndarray:
    if inputs is None:
        return np.zeros((rows, 0))
    inputs = _floats("inputs", inputs)
    if len(inputs) != rows:
        raise ValueError(
            f"`inputs` must have one row for each of the {rows} rows of `y`; got {len(inputs)}. "
            "Row i is used for the step that produces x_i, so row 0 enters the first observation only."
        )
    if not np.isfinite(inputs).all():
        raise ValueError("`inputs` must be finite at every step; fill the gaps first.")
    check_size("inputs", inputs)
    return inputs
