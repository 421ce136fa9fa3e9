"""Stochastic volatility of the Treasury bill rates, Section 5.4."""

from __future__ import annotations

import functools

from nmax._optimiser import Optimiser
from nmax.experiments import _figures as figures
from nmax.experiments import _measures as measures
from nmax.experiments._claims import accurate, faster
from nmax.experiments._declare import Case, Claim, Data, Experiment
from nmax.experiments._sources import stored, treasury_bills
from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import stochastic_volatility

LABELS = (r"$\theta_1$", r"$\theta_2$", r"$\log\theta_3$", r"$\log\theta_4$")
SHORT = 201
SHORT_ELBO = 0.25  # nats a week; before training it is below -2
SLOW = Optimiser(rate=2e-3, theta_rate=1e-2)  # at full rates training diverges on so short a series
SMALL = MovingAverageGuide(layers=1, length=10)
FORMS = {"paper": 1.0, "code": 2.0}  # the power of the rate in its variance: as printed, and as in the authors' code


def series(form: str, quick: bool) -> Data:
    """The Treasury bill rates, and their near-exact posterior if that is stored; the first of them in the shortened form."""
    model = stochastic_volatility(elasticity=FORMS[form])
    if quick:
        return Data(model, treasury_bills()[:SHORT, None])
    kept = stored(f"sv_tbill_{form}", model)
    return Data(model, treasury_bills()[:, None], exact=None if kept is None else kept.exact)


def experiment(form: str) -> Experiment:
    """One form of the diffusion."""
    data = functools.partial(series, form)
    return Experiment(
        name=f"sv-{form}",
        title=f"Stochastic volatility of Treasury bills, variance r^{FORMS[form]:g} e^z (Section 5.4, figure 5)",
        cases=(
            Case(name="default", data=data, guide=LookaheadGuide(), stretch=(0, 1_509)),
            Case(
                name="nMA",
                data=data,
                guide=MovingAverageGuide(layers=3, length=20),
                options={"steps": 20_000, "window": 50},
                quick={"guide": SMALL, "steps": 1_000, "draws": 6, "optimiser": SLOW} if form == "paper" else None,
                stretch=(0, 1_509),
            ),
        ),
        claims=(
            *accurate("default"),
            Claim(text="nMA consistent with the MCMC: |bias| in sd", measure=measures.worst_bias("nMA"), below=0.5),
            faster("default", times=5, minutes=20),
            Claim(
                text=f"nMA on {SHORT - 1} weeks in few steps: ELBO a week",
                measure=measures.elbo_a_step("nMA"),
                above=SHORT_ELBO,
                source="nmax",
                quick=True,
                full=False,
            ),
        ),
        figures={
            "volatility": figures.paths("default", 1, "$z$", count=50),
            "densities": figures.densities(LABELS, "nMA", "default"),
        },
        paper_minutes=20,
    )


PAPER_FORM, CODE_FORM = experiment("paper"), experiment("code")
