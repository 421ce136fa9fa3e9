"""Where is q(x | θ) bad? Weights of windows along the series, and summaries of the path corrected by them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nmax._objective import step_terms
from nmax._pareto import GOOD, Smoothed, smoothed
from nmax._particles import filter_guide
from nmax.data import Series
from nmax.guides import Guide, LookaheadSampler, one_stretch, stretches
from nmax.lookahead import Dynamics, linearised, look_ahead

THETAS, DRAWS = 4, 64  # draws of θ, and of the path at each
POOR = 0.15  # effective share below which a window is bad: about a nat lost in it
LANES = 1_024  # paths of windows at a time
QUANTILES = (0.05, 0.5, 0.95)


@dataclasses.dataclass(frozen=True)
class Strip:
    """How well q(x | θ) describes each of some windows along the series.

    If it were exact, all paths of a window drawn at one θ would weigh the same.

    Attributes:
        start: first step of each window.
        stop: one past its last.
        khat: of the weights of its paths; above 0.7 they are too uneven to correct anything with.
        effective: share of the paths that the weighted ones are worth, 1 if q is exact.
        shortfall: half the variance of the log weights, about what q loses there, in nats.
        which: the series of each window, where there are several.
    """

    start: Int[np.ndarray, " window"]
    stop: Int[np.ndarray, " window"]
    khat: Float[np.ndarray, " window"]
    effective: Float[np.ndarray, " window"]
    shortfall: Float[np.ndarray, " window"]
    which: Int[np.ndarray, " window"] | None = None

    @property
    def bad(self) -> np.ndarray:
        """Which windows q does not describe well."""
        return self.effective < POOR

    def stretches(self) -> tuple[tuple[int, int], ...]:
        """The bad windows as (first step, one past the last), neighbours put together."""
        out: list[tuple[int, int]] = []
        for start, stop in zip(self.start[self.bad].tolist(), self.stop[self.bad].tolist(), strict=True):
            if out and out[-1][1] == start:
                out[-1] = (out[-1][0], stop)
            else:
                out.append((start, stop))
        return tuple(out)

    def __str__(self) -> str:
        bad, count = int(self.bad.sum()), len(self.start)
        first = f"{count} windows of {int(np.max(self.stop - self.start))} steps: effective share of their paths "
        line = first + f"{np.median(self.effective):.2f} in the middle, {self.effective.min():.2f} at the worst"
        if not bad:
            return f"{line}; none is bad"
        if self.which is not None:
            series = np.unique(self.which[self.bad])
            places = ", ".join(map(str, series[:10])) + (" and more" if len(series) > 10 else "")
            return f"{line}; {bad} bad, in series {places}"
        places = ", ".join(f"{a}–{b - 1}" for a, b in self.stretches()[:10])
        return f"{line}; {bad} bad, at steps {places}{' and more' if len(self.stretches()) > 10 else ''}"

    __repr__ = __str__

    def plot(self, file: Any) -> None:
        """Effective share and k̂ along the series, bad windows marked, as a figure."""
        import matplotlib.pyplot as plt

        middle = 0.5 * (self.start + self.stop)
        figure, axes = plt.subplots(2, 1, figsize=(10, 4), sharex=True, layout="constrained")
        for axis, values, limit, label in zip(
            axes, (self.effective, self.khat), (POOR, GOOD), ("effective share", "k̂"), strict=True
        ):
            axis.plot(middle, values, ".", color="#3b6ea5", markersize=3)
            axis.plot(middle[self.bad], values[self.bad], ".", color="#c0392b", markersize=6)
            axis.axhline(limit, color="0.6", linewidth=0.8)
            axis.set_ylabel(label)
        axes[1].set_xlabel("step")
        figure.savefig(file, dpi=150)
        plt.close(figure)


class PathSummary(NamedTuple):
    """The path step by step, by weighted draws where the weights allow it.

    Attributes:
        start: index of the first row.
        mean: of each state component.
        sd: standard deviation.
        quantiles: 5 %, 50 % and 95 %.
        khat: of the weights that each row was corrected by.
        corrected: whether it was; the other rows are as the guide draws them.
    """

    start: int
    mean: Float[np.ndarray, "time state"]
    sd: Float[np.ndarray, "time state"]
    quantiles: Float[np.ndarray, "3 time state"]
    khat: Float[np.ndarray, " time"]
    corrected: np.ndarray


def strip(
    guide: Guide,
    series: Any,
    starts: Int[np.ndarray, " window"],
    width: int,
    *,
    thetas: int,
    draws: int,
    key: PRNGKeyArray,
    which: Int[np.ndarray, " window"] | None = None,
) -> Strip:
    """Weigh the paths of windows that begin at `starts`, in the series `which`; what is beyond T counts for nothing."""
    batches = _batches(guide, series, starts, width, 0, thetas, draws, keep=False, key=key, which=which)
    log_weight = np.concatenate([part for part, _ in batches])
    fine = pooled(log_weight)
    share = fine.effective / log_weight[0].size
    finite = np.where(np.isfinite(log_weight), log_weight, np.nan)
    shortfall = 0.5 * np.nanmean(np.nanvar(finite, axis=2, ddof=1), axis=1)
    last = series.length if which is None else np.array(series.lengths)[which]
    return Strip(np.asarray(starts), np.minimum(starts + width, last + 1), fine.khat, share, shortfall, which)


def path_summary(
    guide: Guide, series: Series, start: int, stop: int, *, width: int, thetas: int, draws: int, key: PRNGKeyArray
) -> PathSummary:
    """Mean, sd and quantiles of states `start, ..., stop - 1`, each window's paths weighted at each θ."""
    starts = np.arange(max(start, 1), stop, width)
    rows: list[tuple[np.ndarray, ...]] = []
    if start == 0:
        first = np.asarray(_starts(guide, one_stretch(guide, series, 0, 1), _theta_noise(guide, thetas, key)), np.float64)
        rows.append(_row_summary(first[None], np.full((1, thetas), 1 / thetas), np.zeros(1)))
    for log_weight, x in _batches(guide, series, starts, width, width, thetas, draws, keep=True, key=key):
        fine = pooled(log_weight)
        usable = fine.khat <= GOOD
        count = log_weight[0].size
        weight = np.where(usable[:, None], fine.weight, 1.0 / count)
        for one, own, khat in zip(x.reshape(len(x), count, *x.shape[3:]), weight, fine.khat, strict=True):
            rows.append(_row_summary(one.swapaxes(0, 1), np.broadcast_to(own, (width, count)), np.full(width, khat)))
    mean, sd, quantiles, khat = (np.concatenate(part)[: stop - start] for part in zip(*rows, strict=True))
    return PathSummary(start, mean, sd, quantiles.swapaxes(0, 1), khat, khat <= GOOD)


def pooled(log_weight: Float[np.ndarray, "window theta draw"]) -> Smoothed:
    """The weights of all paths of a window, those at each θ adding up to the same."""
    log_weight = np.where(np.isnan(log_weight), -np.inf, log_weight)
    top = np.max(log_weight, axis=2, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = top + np.log(np.maximum(np.exp(log_weight - top).sum(axis=2, keepdims=True), 1e-300))
    total = np.where(np.isfinite(log_weight).any(axis=2, keepdims=True), total, 0.0)
    return smoothed((log_weight - total).reshape(len(log_weight), -1))


def _row_summary(x: np.ndarray, weight: np.ndarray, khat: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of rows of draws (time, draw, state) with weights (time, draw)."""
    mean = np.einsum("td,tds->ts", weight, x)
    sd = np.sqrt(np.einsum("td,tds->ts", weight, (x - mean[:, None]) ** 2))
    order = np.argsort(x, axis=1)
    ranked = np.take_along_axis(x, order, axis=1)
    total = np.cumsum(np.take_along_axis(np.broadcast_to(weight[:, :, None], x.shape), order, axis=1), axis=1)
    at = [np.minimum((total < level).sum(axis=1, keepdims=True), x.shape[1] - 1) for level in QUANTILES]
    quantiles = np.stack([np.take_along_axis(ranked, k, axis=1)[:, 0] for k in at], axis=1)
    return mean, sd, quantiles, khat


def _theta_noise(guide: Guide, thetas: int, key: PRNGKeyArray) -> Float[Array, "theta param"]:
    return jr.normal(jr.fold_in(key, 0), (thetas, guide.theta_flow.size))


def _batches(
    guide: Guide, series: Any, starts: np.ndarray, width: int, margin: int, thetas, draws, *, keep, key, which=None
):
    """Log weights (window, θ, draw) of some windows at a time and, where they are to be kept, their paths."""
    look = None if isinstance(guide, LookaheadSampler) else filter_guide(guide, series)  # whose paths bring their own
    at_once = max(1, LANES // (thetas * draws))
    e = _theta_noise(guide, thetas, key)
    for begin in range(0, len(starts), at_once):
        own = starts[begin : begin + at_once]
        padded = jnp.asarray(np.pad(own, (0, at_once - len(own)), mode="edge"), jnp.int32)
        fresh = jr.fold_in(key, 1 + begin)
        time = width + 2 * margin + 1 + (0 if look is None else 2 * (look.block + look.buffer))
        of = None if which is None else np.pad(which[begin : begin + at_once], (0, at_once - len(own)), mode="edge")
        rows = stretches(guide, series, np.asarray(padded) - margin - 1, time, of)
        log_weight, x = _weights(guide, look, rows, padded, e, width, margin, draws, keep, fresh)
        yield np.asarray(log_weight, np.float64)[: len(own)], np.asarray(x, np.float64)[: len(own)]


@eqx.filter_jit
def _starts(guide: Guide, series: Series, e: Float[Array, "theta param"]) -> Float[Array, "theta state"]:
    return jax.vmap(lambda one: guide.start(guide.model.parameters.constrain(guide.theta(one)[0]), series))(e)


@eqx.filter_jit
def _weights(guide, look, series: Series, starts, e, width: int, margin: int, draws: int, keep: bool, key):
    """Log weights of windows with `margin` steps on either side, or all of them on the right, and the windows' paths."""
    left, right = guide.reach
    whole = width + 2 * margin
    size = len(guide.drawn)

    def one_path(series, theta, noise, start, key):
        z = jr.normal(key, (whole + 1 + left + right, size))
        stretch = guide.path(theta, noise, z, series, start - 1)
        index = start + jnp.arange(whole)
        inside = (index >= 1) & (index <= series.end)
        terms = step_terms(guide, series, theta, stretch, start)
        steps = terms.total if look is None else terms.total - terms.balance
        return jnp.sum(jnp.where(inside, steps, 0.0)), stretch.x

    def one_theta(series, noise, start, key):
        theta = guide.model.parameters.constrain(guide.theta(noise)[0])
        log_weight, x = jax.vmap(lambda k: one_path(series, theta, noise, start, k))(jr.split(key, draws))
        if look is not None:
            last = jnp.minimum(start + whole - 1, series.end)
            end = jnp.take(x, last - start + 1, axis=1)
            log_weight += _forecast(look, series, theta, last, end) - _forecast(look, series, theta, start - 1, x[:, 0])
        return log_weight, x[:, 1:]

    def one_window(series, core, key):
        start = jnp.maximum(core - margin, 1)
        log_weight, x = jax.vmap(lambda noise, k: one_theta(series, noise, start, k))(e, jr.split(key, len(e)))
        return log_weight, jax.lax.dynamic_slice_in_dim(x, core - start, width, axis=2) if keep else jnp.zeros(())

    return jax.vmap(one_window, in_axes=(series.stacked, 0, 0))(series, starts, jr.split(key, len(starts)))


def _forecast(look: LookaheadSampler, series: Series, theta: Any, index: Int[Array, ""], x: Float[Array, "draw state"]):
    """$D$ at one step by a look-ahead that the paths were not drawn with; zero at 0 and T."""
    number = jnp.maximum(index, 0) // look.block
    dynamics = Dynamics(theta, look.model, look.drawn)
    rows, reference = look.reference(theta, series, number)
    ahead = look_ahead(linearised(dynamics, reference, rows, look.first(dynamics, rows.index[0])))
    at = index - number * look.block + look.buffer
    u = jnp.stack([look.model.state_transforms[k].inv(x[:, k]) for k in look.drawn], axis=1)
    delta = u - reference.mean[at][None]
    later = delta @ ahead.later_gradient[at] - 0.5 * jnp.sum((delta @ ahead.later_precision[at]) * delta, axis=1)
    return jnp.where((index >= 1) & (index < series.end), later, 0.0)
