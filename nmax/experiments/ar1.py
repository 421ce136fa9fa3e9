"""AR(1), Section 5.1: how accuracy depends on the length of the series and on the receptive field."""

from __future__ import annotations

import functools

import jax.random as jr
import numpy as np

from nmax._optimiser import Optimiser
from nmax.experiments import _figures as figures
from nmax.experiments import _measures as measures
from nmax.experiments._claims import accurate, faster
from nmax.experiments._declare import Case, Claim, Data, Experiment
from nmax.experiments._measures import CLOSE
from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import ar1, simulate
from nmax.reference import ar1_exact

TRUTH = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}
LABELS = (r"$\theta_1$", r"$\theta_2$", r"$\log\theta_3$")
LENGTHS = (5_000, 10_000, 50_000, 100_000)
FIELDS = (5, 10, 50, 100, 200)
STEPS, FEW = 10_000, 2_000
QUICK_STEPS = 1_500


def series(length: int, quick: bool) -> Data:
    """A simulated series with its exact posterior, by Metropolis with the forward filter's likelihood (supplement A)."""
    del quick  # the shortened form has the shortest series
    x, y = simulate(ar1(), TRUTH, length, key=jr.key(length))
    exact = ar1_exact(y[:, 0], 4_000 if length > 20_000 else 20_000, seed=0)
    return Data(ar1(), y.astype(float), TRUTH, x, np.asarray(exact.theta, float))


DATA = {length: functools.partial(series, length) for length in LENGTHS}
OPTIONS = {"steps": STEPS, "window": 50}
plain = [f"nMA, T = {length}" for length in LENGTHS]
few = [f"nMA, {FEW} steps, T = {length}" for length in LENGTHS]
recipe = "nMA, the paper's recipe, T = 5000"
ahead = [f"default, T = {length}" for length in LENGTHS]

LENGTH = Experiment(
    name="ar1-length",
    title="AR(1): length of the series (Section 5.1, figures 2a and 2b)",
    cases=(
        *(
            Case(name=name, data=DATA[length], guide=MovingAverageGuide(length=10), options=OPTIONS)
            for name, length in zip(plain, LENGTHS, strict=True)
        ),
        *(
            Case(name=name, data=DATA[length], guide=MovingAverageGuide(length=10), options={**OPTIONS, "steps": FEW})
            for name, length in zip(few, LENGTHS, strict=True)
        ),
        Case(
            name=recipe,
            data=DATA[LENGTHS[0]],
            guide=MovingAverageGuide(length=10),
            options={**OPTIONS, "optimiser": Optimiser.paper()},
        ),
        *(
            Case(
                name=name,
                data=DATA[length],
                guide=LookaheadGuide(),
                quick={} if length == LENGTHS[0] else None,
            )
            for name, length in zip(ahead, LENGTHS, strict=True)
        ),
    ),
    claims=(
        Claim(text="nMA approximates the posterior well at all lengths: MMD²", measure=measures.apart(*plain), below=CLOSE),
        Claim(
            text=f"the steps it needs do not grow with T: MMD² of runs of {FEW:,} steps",
            measure=measures.apart(*few),
            below=CLOSE,
        ),
        Claim(text="with the paper's optimiser: MMD² as of the authors' code", measure=measures.apart(recipe), below=0.115),
        Claim(
            text="a step costs the same: T = 100,000 against 5,000",
            measure=measures.step_cost_ratio(plain[-1], plain[0]),
            below=1.2,
        ),
        Claim(text="nMA, 10,000 steps in about 3 minutes: seconds", measure=measures.seconds(*plain), below=180),
        *accurate(*ahead),
        *accurate(ahead[0], quick=True, where=" at T = 5,000"),
        faster(*ahead, times=5, minutes=3),
    ),
    figures={
        "mmd": figures.traces(*plain),
        "mmd-few": figures.traces(*few),
        "mmd-recipe": figures.traces(plain[0], recipe),
        "densities": figures.densities(LABELS, plain[0], ahead[0]),
    },
    paper_minutes=3,
)

fields = [f"nMA, field {field}" for field in FIELDS]

RECEPTIVE_FIELD = Experiment(
    name="ar1-receptive-field",
    title="AR(1): receptive field (Section 5.1, figures 2c and 2d)",
    cases=tuple(
        Case(
            name=name,
            data=DATA[LENGTHS[0]],
            guide=MovingAverageGuide(length=field),
            options=OPTIONS,
            quick={"steps": QUICK_STEPS} if field == FIELDS[0] else None,
        )
        for name, field in zip(fields, FIELDS, strict=True)
    ),
    claims=(
        Claim(text="a good approximation for every receptive field: MMD²", measure=measures.apart(*fields), below=CLOSE),
        Claim(
            text="a good approximation with the shortest one: MMD²",
            measure=measures.apart(fields[0]),
            below=CLOSE,
            quick=True,
        ),
        Claim(
            text="a similar number of steps: ℓ = 200 against 10",
            measure=measures.steps_ratio(fields[-1], fields[1], CLOSE),
            below=2.0,
        ),
        Claim(
            text="a step takes longer with a longer field: ℓ = 200 against 5",
            measure=measures.step_cost_ratio(fields[-1], fields[0]),
            above=1.2,
        ),
    ),
    figures={"mmd-steps": figures.traces(*fields), "mmd-seconds": figures.traces(*fields, against="seconds")},
    paper_minutes=3,
)
