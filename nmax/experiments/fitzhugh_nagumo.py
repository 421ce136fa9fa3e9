"""FitzHugh–Nagumo with a million steps, Section 5.3."""

from __future__ import annotations

import jax.random as jr

from nmax.experiments import _figures as figures
from nmax.experiments import _measures as measures
from nmax.experiments._claims import faster
from nmax.experiments._declare import Case, Claim, Data, Experiment
from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import fitzhugh_nagumo, simulate

TRUTH = {"rate": 2.0, "current": 1.0, "recovery": 1.5, "noise_v": 0.5, "noise_w": 0.3}
LABELS = (r"$\log\theta_1$", r"$\theta_2$", r"$\theta_3$", r"$\log\theta_4$", r"$\log\theta_5$")
LENGTH, SHORT, BUDGET = 1_000_000, 50_000, 30_000
STRETCH = (500_000, 500_500)


def series(quick: bool) -> Data:
    """A simulated series."""
    model = fitzhugh_nagumo()
    x, y = simulate(model, TRUTH, SHORT if quick else LENGTH, key=jr.key(41))
    return Data(model, y.astype(float), TRUTH, x)


MILLION = Experiment(
    name="fhn",
    title="FitzHugh–Nagumo, a million steps, one component unobserved (Section 5.3, figure 4)",
    cases=(
        Case(
            name="default", data=series, guide=LookaheadGuide(), quick={"guide": LookaheadGuide(layers=0)}, stretch=STRETCH
        ),
        Case(
            name="nMA",
            data=series,
            guide=MovingAverageGuide(layers=3, length=20),
            options={"steps": BUDGET, "window": 50},
            stretch=STRETCH,
        ),
    ),
    claims=(
        Claim(
            text="consistent with the truth: distance in sd",
            measure=measures.truth_off("default"),
            below=3.5,
            source="nmax",
            quick=True,
        ),
        Claim(text="nMA consistent with the truth: distance in sd", measure=measures.truth_off("nMA"), below=3.5),
        Claim(text="90 % band of w over 500 steps: off by, in per cent", measure=measures.band_miss("default", 1), below=10),
        faster("default", times=30, minutes=180),
    ),
    figures={
        "w": figures.paths("default", 1, "$w$", dt=0.1),
        "densities": figures.densities(LABELS, "default"),
        "densities-both": figures.densities(LABELS, "default", "nMA"),
    },
    paper_minutes=180,
)
