"""Has q(θ) come to rest? R-hat of the iterates, the ELBO's rise against its error, and what going on could still change."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from nmax._check import check_count, check_positive, with_named_options
from nmax._iterates import NATS, Change, last_half, rhat, rhat_by_chance, rise
from nmax.flows import ThetaFlow

SIZE = 128  # draws of the base noise, and as many mirrored, by which q(θ) is looked at
MEANS, WIDTHS = 0.1, 0.1  # what a fit at rest may still move by: posterior sds, a share of the widths


@with_named_options
@dataclasses.dataclass(frozen=True, kw_only=True)
class Converged:
    """Train until the iterates of q(θ) and the ELBO have come to rest, then let the learning rates fall.

    At full learning rates the weights jitter about where they are going. Every 100 steps the mean and the log sd of each
    parameter under q(θ) are noted. When the last half of them has no trend left by R-hat, its halves taken as chains (Dhaka
    et al., 2020), and the ELBO's rise between the last two quarters of all steps is small against its standard error and
    against the jitter, or below half a nat, only smaller steps can gain more: the rates fall over `cooldown` times the
    steps done so far, and training ends. The result is an average over iterates; `Convergence` says what that still did at
    the end.

    Attributes:
        least: steps before the first such look, a budget.
        most: steps in all, a budget too, at which training ends in any case.
        rhat: largest R-hat that counts as rest; or, where that is larger, the one that as few independent looks exceed, for
            any of the parameters, once in 20 times. In a run on AR(1) with T = 5,000 a look's jitter was 0.6 posterior sds,
            and R-hat went up and down between 1.0 and 1.6 from 2,000 to 5,000 steps.
        rise: the ELBO's rise that counts as none, in standard errors of it, by batch means.
        jitter: the same in standard deviations of one step's estimate, lest a large error hides a rise: on Lotka–Volterra,
            after 1,700 steps, one of 135 nats had a standard error of 96.
        cooldown: length of the fall in units of the steps before it.
    """

    least: int = 1_700
    most: int = 20_000
    rhat: float = 1.1
    rise: float = 2.0
    jitter: float = 0.25
    cooldown: float = 2.0

    def __post_init__(self):
        check_count("least", self.least)
        check_count("most", self.most)
        check_positive("rise", self.rise)
        check_positive("jitter", self.jitter)
        check_positive("cooldown", self.cooldown)
        if not check_positive("rhat", self.rhat) > 1:
            raise ValueError(
                f"`rhat` must be larger than 1, the R-hat of iterates at rest; got {self.rhat!r}. Pass 1.1, say."
            )

    def still(self, elbo: Float[np.ndarray, " step"]) -> bool:
        """Whether the ELBO no longer rises, as far as its error lets one see, and `least` steps are done."""
        return len(elbo) >= self.least and self.flat(elbo)

    def flat(self, elbo: Float[np.ndarray, " step"]) -> bool:
        """The same of any number of steps."""
        change = rise(last_half(elbo))
        if not np.isfinite(change.nats):
            return False
        last = last_half(last_half(elbo))
        unseen = min(self.rise * change.standard_error, self.jitter * float(np.std(last[np.isfinite(last)])))
        return change.nats <= max(unseen, NATS)

    def stationary(self, iterates: Float[np.ndarray, "look two param"]) -> bool:
        """Whether the last half of the iterates has no trend left; not where they are too few to tell."""
        late = last_half(iterates.reshape(len(iterates), -1))
        return bool(np.max(rhat(late)) < max(self.rhat, rhat_by_chance(*late.shape)))

    def reason(self, record: Convergence, elbo: Float[np.ndarray, " step"], steps: int) -> str:
        """Why training ended: the ELBO is that at full learning rates, the steps are all there were."""
        change, full = rise(last_half(elbo)), f"{len(elbo):,}"
        found = (
            f"R-hat of the iterates of q(θ) was {record.rhat:.2f}, and the ELBO rose by {change} between the last two "
            "quarters of them"
        )
        if record.converged:
            return f"converged: after {full} steps {found}; then the learning rates fell"
        if steps < self.most:
            return f"at rest after {full} steps, when {found}, but not while the learning rates fell"
        return (
            f"stopped at the most steps allowed, {self.most}; after {full} of them, before the learning rates fell, {found}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convergence:
    """Whether a fit came to rest, and what going on could still change.

    Attributes:
        converged: whether all tests of it hold.
        rhat: the largest R-hat of the iterates at full learning rates; NaN where there was no training or there were too
            few of them.
        mean: how far the posterior mean of a parameter still moved, in posterior standard deviations; the largest. In
            unconstrained coordinates, as all of this.
        mean_of: of which parameter.
        width: how much its standard deviation still changed, as a share of it; the largest.
        width_of: of which parameter.
        elbo: what the ELBO still gained, in nats of the whole series.
        elbo_standard_error: its Monte Carlo error.
        judged_by: over what it moved so far: the last third of training, or the last two rounds of settling q(θ).
        again: what could move it as far once more.
    """

    converged: bool
    rhat: float
    mean: float
    mean_of: str
    width: float
    width_of: str
    elbo: float
    elbo_standard_error: float
    judged_by: str
    again: str = "as many steps again"

    @property
    def could_change(self) -> str:
        """What going on could still change, in a sentence."""
        parts = []
        if np.isfinite(self.mean):
            parts.append(f"means by up to {self.mean:.2f} sd ({self.mean_of})")
        if np.isfinite(self.width):
            parts.append(f"widths by up to {100 * self.width:.1f} % ({self.width_of})")
        if np.isfinite(self.elbo):
            parts.append(f"the ELBO by {Change(self.elbo, self.elbo_standard_error)}")
        if not parts:
            return f"what {self.again} could change is not known: {self.judged_by} is too little to judge by"
        listed = " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
        return f"{self.again} could move {listed}, judging by {self.judged_by}"


class Movement(NamedTuple):
    """How q(θ) moved by parameter: means in posterior standard deviations, standard deviations as a share of themselves."""

    means: Float[np.ndarray, " param"]
    widths: Float[np.ndarray, " param"]

    @property
    def slight(self) -> bool:
        """Whether it is too little to matter. What is not known, a NaN, does not count."""
        worst_mean, worst_width = (np.nanmax(np.append(a, 0.0)) for a in self)
        return bool(worst_mean <= MEANS and worst_width <= WIDTHS)

    def described(self, labels: Sequence[str]) -> dict[str, Any]:
        """The fields of a `Convergence` that say which parameter moved most."""
        most = [int(np.nanargmax(a)) if np.isfinite(a).any() else 0 for a in self]
        (mean, width), (mean_at, width_at) = (float(a[k]) for a, k in zip(self, most, strict=True)), most
        return {"mean": mean, "mean_of": labels[mean_at], "width": width, "width_of": labels[width_at]}


class Look(NamedTuple):
    """Means and log standard deviations of q(θ) after so many steps, by the weights as they are and by their average."""

    steps: int
    iterate: Float[np.ndarray, "two param"]
    average: Float[np.ndarray, "two param"]


@eqx.filter_jit
def moments(flow: ThetaFlow) -> Float[Array, "two param"]:
    """Means and log standard deviations of q(θ), unconstrained, by base noise that is always the same."""
    half = jr.normal(jr.key(0), (SIZE, flow.size))
    theta = jax.vmap(lambda e: flow(e)[0])(jnp.concatenate([half, -half]))
    return jnp.stack([theta.mean(axis=0), jnp.log(theta.std(axis=0))])


def movement(before: Float[np.ndarray, "look two param"], after: Float[np.ndarray, "two param"]) -> Movement:
    """From the farthest of some earlier looks at q(θ) to this one."""
    off = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    return Movement(np.abs(off[:, 0] / np.exp(after[1])).max(axis=0), np.abs(np.expm1(off[:, 1])).max(axis=0))


def judged(
    looks: Sequence[Look],
    elbo: Float[np.ndarray, " step"],
    gain: Change,
    full: int,
    rule: Converged,
    labels: Sequence[str],
    *,
    ended: bool = True,
) -> Convergence:
    """What training came to.

    Args:
        looks: at q(θ), the first before the first step.
        elbo: at every step.
        gain: what the averaged weights' ELBO gained since the look that begins the last third.
        full: steps at full learning rates.
        rule: what counts as rest.
        labels: names of the parameters.
        ended: whether training came to the end it was meant to.
    """
    iterates = np.stack([look.iterate for look in looks if 0 < look.steps <= full] or [looks[0].iterate])
    late = last_half(iterates.reshape(len(iterates), -1))
    last, since = looks[-1], last_third(looks)
    moved = movement(np.stack([look.average for look in since]), last.average)
    if len(since) == 1:  # no two looks to compare
        moved = Movement(*(np.full_like(part, np.nan) for part in moved))
    at_rest = rule.stationary(iterates) and rule.flat(elbo[:full])
    span = f"the last {last.steps - since[0].steps:,} of {last.steps:,} steps" if since[0].steps else f"{last.steps:,} steps"
    return Convergence(
        converged=ended and at_rest and moved.slight and gain.slight,
        rhat=float(np.max(rhat(late))),
        elbo=gain.nats,
        elbo_standard_error=gain.standard_error,
        judged_by=span,
        **moved.described(labels),
    )


def with_theta_settled(training: Convergence, settling: Convergence) -> Convergence:
    """The record of a training that left q(θ) alone, with how that settled afterwards."""
    return dataclasses.replace(
        training,
        converged=training.converged and settling.converged,
        mean=settling.mean,
        mean_of=settling.mean_of,
        width=settling.width,
        width_of=settling.width_of,
        judged_by=f"{training.judged_by} of the neural layers, and {settling.judged_by} of q(θ)",
    )


def last_third(looks: Sequence[Look]) -> Sequence[Look]:
    """The looks in the last third of the steps, and the one before them."""
    first = max(k for k, look in enumerate(looks) if 3 * look.steps <= 2 * looks[-1].steps)
    return looks[first:]
