"""Lotka–Volterra, Section 5.2: dense and sparse observation; order reversal (supplement C)."""

from __future__ import annotations

import functools

import jax.random as jr

import nmax._sample as sampling
from nmax.experiments import _figures as figures
from nmax.experiments import _measures as measures
from nmax.experiments._claims import accurate, faster
from nmax.experiments._declare import Case, Claim, Data, Experiment
from nmax.experiments._sources import stored
from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import lotka_volterra, simulate

TRUTH = {"growth": 0.5, "predation": 0.0025, "death": 0.3}
LABELS = (r"$\log\theta_1$", r"$\log\theta_2$", r"$\log\theta_3$")
STEPS, ROWS, DT = 30_000, 501, 0.1
PLAIN = MovingAverageGuide(layers=3, length=20)
RESCALED = {"growth": 0.4428, "predation": 0.0029, "death": 0.2957}  # a tenth of the rates of the paper's fast mode


def series(name: str, every: int, quick: bool) -> Data:
    """The stored series with its near-exact posterior if it is there, else a simulated one with draws by `nmax.sample`."""
    model = lotka_volterra()
    kept = stored(name, model, TRUTH)
    if kept is not None:
        return kept
    x, y = simulate(model, TRUTH, ROWS - 1, key=jr.key(21), observe_every=every)
    if quick:  # exact draws take longer than the shortened form itself; its claims about them stay open
        return Data(model, y.astype(float), TRUTH, x)
    draws = sampling.sample(model, y, key=jr.key(1), progress=False)
    return Data(model, y.astype(float), TRUTH, x, draws.record.theta.reshape(draws.count, -1).astype(float))


dense, sparse = functools.partial(series, "lv_dense_s21", 10), functools.partial(series, "lv_sparse_s21", 100)
DENSE = Experiment(
    name="lv-dense",
    title="Lotka–Volterra, observed every 10 steps (Section 5.2, figure 3 left)",
    cases=(
        Case(name="default", data=dense, guide=LookaheadGuide(), quick={}),
        Case(name="nMA", data=dense, guide=PLAIN, options={"steps": STEPS, "window": 50}),
    ),
    claims=(
        Claim(text="nMA is near the MCMC: |bias| in sd", measure=measures.worst_bias("nMA"), below=0.5),
        Claim(text="nMA in about 10 minutes: seconds", measure=measures.seconds("nMA"), below=600),
        *accurate("default", quick=True),
        faster("default", times=5, minutes=10),
    ),
    figures={
        "densities": figures.densities(LABELS, "nMA", "default"),
        "paths": figures.paths("default", 0, "prey $u$", dt=DT),
    },
    paper_minutes=10,
)

SPARSE = Experiment(
    name="lv-sparse",
    title="Lotka–Volterra, observed every 100 steps (Section 5.2, figure 3 right; supplement G)",
    cases=(
        Case(name="default", data=sparse, guide=LookaheadGuide()),
        Case(name="nMA without care", data=sparse, guide=PLAIN, options={"steps": STEPS, "window": 50}),
        Case(
            name="nMA pre-trained",
            data=sparse,
            guide=PLAIN,
            options={"steps": STEPS, "window": 50, "pretrain": 3_000, "pretrain_at": RESCALED},
            quick={"steps": 500, "pretrain": 1_000},
        ),
    ),
    claims=(
        Claim(
            text="consistent with the truth: distance in sd", measure=measures.truth_off("default"), below=3.0, source="nmax"
        ),
        Claim(text="nMA, pre-trained, consistent with the truth", measure=measures.truth_off("nMA pre-trained"), below=3.0),
        Claim(
            text="nMA, pre-trained, is in the slow mode: log rates off by",
            measure=measures.far_from_truth("nMA pre-trained"),
            below=0.5,  # the fast mode is 0.9 away
            quick=True,
        ),
        Claim(
            text="nMA without care ends in the fast mode: log rates off by",
            measure=measures.far_from_truth("nMA without care"),
            above=0.5,
        ),
        Claim(
            text="the mode found without care has less mass: nats of ELBO",
            measure=measures.elbo_gain("default", "nMA without care"),
            above=0.0,
            source="nmax",
        ),
        *accurate("default"),
        faster("default", times=5, minutes=20),
    ),
    figures={
        "paths": figures.paths("default", 0, "prey $u$", dt=DT),
        "paths-predators": figures.paths("default", 1, "predators $v$", dt=DT),
        "paths-without-care": figures.paths("nMA without care", 0, "prey $u$", dt=DT, count=50),
        "paths-pre-trained": figures.paths("nMA pre-trained", 0, "prey $u$", dt=DT, count=50),
        "densities": figures.densities(LABELS, "nMA pre-trained", "default"),
    },
    paper_minutes=20,
)

REVERSAL = Experiment(
    name="order-reversal",
    title="Order reversal on Lotka–Volterra, observed every 10 steps (supplement C)",
    cases=tuple(
        Case(
            name=name,
            data=dense,
            guide=MovingAverageGuide(layers=4, length=20, reverse=reverse),
            options={"steps": 10_000, "window": 50},
            quick={"steps": 1_500, "guide": MovingAverageGuide(layers=2, length=10, reverse=True)} if reverse else None,
        )
        for name, reverse in (("one order", False), ("order reversed", True))
    ),
    claims=(
        Claim(
            text="order reversal does no harm: nats of ELBO gained",
            measure=measures.elbo_gain("order reversed", "one order"),
            above=-1.0,
            source="nmax",
        ),
        Claim(
            text="with reversal, near the MCMC: |bias| in sd",
            measure=measures.worst_bias("order reversed"),
            below=0.5,
            source="nmax",
            quick=True,
        ),
    ),
    figures={"densities": figures.densities(LABELS, "one order", "order reversed")},
)
