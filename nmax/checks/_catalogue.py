"""What usually goes wrong, looked for at the posterior: steps too coarse, states that leave their support, odd units."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from nmax._validate import QUICKLY
from nmax.checks._before import before
from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Finding
from nmax.checks._theta import moments_of
from nmax.data import ManySeries, Series
from nmax.guides import Guide
from nmax.models import SDE, AbstractModel
from nmax.models._mean_and_sd import mean_and_sd

DRAWS, STRETCHES, STEPS = 8, 4, 128  # of (θ, x), and rows looked at, where the series has more
SAMPLED = 1_000  # rows of a series on disk
LOOKED_AT, HEAD = 3, 20_000  # of several series, beside the longest; and rows of all of them
MISS, USUALLY = 0.25, 0.5  # of the flow's own factor by which a step of Euler may miss it, in this share of the rows
UNSTABLE = 0.02  # share of the rows in which Euler's step may grow what the flow shrinks
FINE = 0.2  # dt times rate to aim for
STILL = 0.3  # of a relaxation time that the whole series should last at least
LEAVING, OFTEN = 1e-3, 0.05  # share of steps that may leave the support before widths, or anything, are in doubt
EDGE, PRIOR_DRAWS = 1e-3, 16_384  # of the prior's mass beyond the posterior's mean


def by_catalogue(fit: Any, known: tuple[str, ...], *, key: PRNGKeyArray) -> tuple[list[Finding], dict[str, Any]]:
    """What is likely wrong with the model and the data, and what draws of θ and stretches of the path show of it."""
    path_key, step_key, prior_key = jr.split(key, 3)
    theta = {name: jnp.asarray(value) for name, value in fit.theta(DRAWS, key=path_key).items()}
    factors, left, undefined = [], [], []
    ones = _ones(fit)
    for one, (start, stop) in [(own, stretch) for own in ones for stretch in stretches(own.series.length)]:
        x = jnp.asarray(one.path(DRAWS, start=start, stop=stop, key=path_key))
        found = _stepped(fit.model, theta, x, _inputs(one.series, start + 1, stop + 1), step_key)
        for kept, part in zip((factors, left, undefined), found):
            kept.append(np.asarray(part).reshape(-1, *part.shape[2:]))
    slopes, left, undefined = map(np.concatenate, (factors, left, undefined))
    table, firsts = (fit.table.joined(HEAD), fit.series.firsts) if isinstance(fit.series, ManySeries) else (fit.table, None)
    findings = [*before(fit.model, table, _in_memory(fit.series), firsts), *by_support(fit.model, left, undefined)]
    figures: dict[str, Any] = {"steps that leave the support": float(left.any(axis=1).mean())}
    if isinstance(fit.model, SDE):
        more, own = by_rates(slopes, fit.model.dt, fit.series.length)
        findings, figures = findings + more, figures | own
    return findings + by_prior(fit.guide, known, key=prior_key), figures


def _ones(fit: Any) -> list[Any]:
    """The fit itself, or those of some of its series, the longest among them."""
    if not isinstance(fit.series, ManySeries):
        return [fit]
    lengths = fit.series.lengths
    spread = np.linspace(0, len(lengths) - 1, min(LOOKED_AT, len(lengths))).astype(np.int64)
    return [fit.one(int(k)) for k in dict.fromkeys([int(np.argmax(lengths)), *spread.tolist()])]


def stretches(length: int) -> list[tuple[int, int]]:
    """Rows from which steps are looked at: all of a short series, else some spread over it."""
    if length <= STRETCHES * STEPS:
        return [(0, length)]
    return [(int(first), int(first) + STEPS) for first in np.linspace(0, length - STEPS, STRETCHES)]


def _inputs(series: Any, start: int, stop: int) -> Array:
    return series.inputs[start:stop] if isinstance(series, Series) else series.view(start, stop - start).inputs


def _in_memory(series: Any) -> Series:
    """The series, or some rows of one that is on the disk, or of several."""
    if isinstance(series, Series):
        return series
    return series.sampled(np.unique(np.linspace(0, series.rows - 1, SAMPLED).astype(np.int64)))


@partial(jax.jit, static_argnums=0, compiler_options=QUICKLY)
def _stepped(model: AbstractModel, theta: Any, x: Array, inputs: Array, key: PRNGKeyArray) -> tuple[Array, Array, Array]:
    """One step from each state of each draw: slope of its mean, components that leave, and whether all is defined there."""

    def one(theta, at, row, key):
        given = (row,) if row.shape[0] else ()
        slope = jax.jacfwd(lambda x: mean_and_sd(model.transition(x, theta, *given))[0])(at)
        following = jnp.asarray(model.transition(at, theta, *given).sample(key))
        inside = jnp.stack([transform.codomain(following[k]) for k, transform in enumerate(model.state_transforms)])
        mean, sd = mean_and_sd(model.transition(following, theta, *given))
        return slope, ~inside, jnp.any(jnp.isnan(mean)) | ~jnp.all(sd > 0)

    def path(theta, own, key):
        return jax.vmap(lambda at, row, k: one(theta, at, row, k))(own, inputs, jr.split(key, x.shape[1]))

    return jax.vmap(path)(theta, x, jr.split(key, x.shape[0]))


def by_rates(slopes: np.ndarray, dt: float, length: int) -> tuple[list[Finding], dict[str, Any]]:
    r"""Is a step of Euler and Maruyama short against what happens in it, and the series long?

    With $\lambda$ the eigenvalues of the drift's derivative along the path and $z = \lambda\,\Delta t$, a step multiplies a
    deviation by $1 + z$ where the flow has $e^z$; what the flow shrinks must not grow, $|1 + z| \le 1$.
    """
    slopes = slopes[np.isfinite(slopes).all(axis=(1, 2))]
    if not len(slopes):
        return [], {}
    z = np.linalg.eigvals(np.asarray(slopes, np.float64) - np.eye(slopes.shape[1]))
    shrinks = z.real <= 0
    miss = np.where(shrinks, np.abs(1 + z - np.exp(np.where(shrinks, z, 0.0))), 0.0).max(axis=1)
    grows = (shrinks & (np.abs(1 + z) > 1.0) & (np.abs(z) > 1.0)).any(axis=1)
    fastest = float(np.quantile(np.abs(z).max(axis=1), 0.95))
    figures = {"dt times the fastest rate": fastest, "what a step of Euler misses": float(np.median(miss))}
    finer = max(int(np.ceil(fastest / FINE)), 2)
    remedy = (
        f"Take `dt={dt / finer:.3g}`, {finer} times smaller, with {finer - 1} rows of NaN between the rows of `y`, or look "
        "whether `dt` has the units of the rates"
    )
    if grows.mean() > UNSTABLE:
        text = (
            f"dt = {dt:.3g} is too coarse: the steps are unstable in {grows.mean():.0%} of the rows, where they grow what "
            f"the drift shrinks; dt times the fastest rate is {fastest:.2g}"
        )
        return [Finding("step", DO_NOT_TRUST, text, remedy)], figures
    if np.mean(miss > MISS) > USUALLY:
        text = (
            f"dt = {dt:.3g} is too coarse: what the drift does is over within a step, dt times the fastest rate being "
            f"{fastest:.2g}. The posterior is that of the scheme, not of the equation"
        )
        return [Finding("step", DO_NOT_TRUST, text, remedy)], figures
    lasts = float(np.median(np.abs(z).max(axis=1))) * length
    if 0 < lasts < STILL:
        text = f"the drift does nothing within the series: the fastest rate times dt times T is {lasts:.2g}"
        slow = "Has `dt` the units of the rates? If it has, the series is too short to tell them"
        return [Finding("units of time", TRUST, text, slow)], figures
    return [], figures


def by_support(model: AbstractModel, left: np.ndarray, undefined: np.ndarray) -> list[Finding]:
    """How often one step from the posterior's states leads out of the support, or to where the model is not defined."""
    findings, share = [], left.mean(axis=0)
    worst = int(np.argmax(share))
    if share[worst] > LEAVING:
        text = f"one step in {1 / share[worst]:.0f} takes {model.state_names[worst]} out of its support, and so do forecasts"
        log = "Model the logarithm of what is positive, take a transition that stays inside, or a smaller `dt`"
        findings.append(Finding("support", DO_NOT_TRUST if share[worst] > OFTEN else TRUST_MEANS, text, log))
    broken = float(np.mean(undefined & ~left.any(axis=1)))
    if broken > LEAVING:
        text = f"one step in {1 / broken:.0f} leads to a state where the transition is NaN: a logarithm of negative numbers?"
        keep = "Pass `support=dist.constraints.positive` for what must stay positive, or model its logarithm"
        findings.append(Finding("support", DO_NOT_TRUST if broken > OFTEN else TRUST_MEANS, text, keep))
    return findings


def by_prior(guide: Guide, known: tuple[str, ...], *, key: PRNGKeyArray) -> list[Finding]:
    """Parameters whose posterior lies where the prior has next to no mass: often a matter of units."""
    prior = guide.model.parameters
    drawn: Any = jax.jit(lambda k: prior.sample(k, PRIOR_DRAWS), compiler_options=QUICKLY)(key)
    before, (mean, _) = np.asarray(drawn, np.float64), moments_of(guide, key=key)
    beyond = np.minimum((before > mean).mean(axis=0), (before < mean).mean(axis=0))
    findings = []
    for k in np.flatnonzero(beyond < EDGE):
        if prior.labels[k].split("[")[0] not in known:
            side = "above" if (before[:, k] > mean[k]).mean() < 0.5 else "below"
            share = 1 - max(beyond[k], 1 / PRIOR_DRAWS)
            text = f"{prior.labels[k]} lies {side} {share:.2%} of its prior, which has next to no mass there"
            remedy = "Has the series, or `dt`, other units than the prior was meant for? Scale it, or widen the prior"
            findings.append(Finding("prior", TRUST, text, remedy))
    return findings
