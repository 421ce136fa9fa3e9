"""Beyond the paper: its models on two more real series."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from nmax._optimiser import Optimiser
from nmax.experiments import _figures as figures
from nmax.experiments import _measures as measures
from nmax.experiments._declare import Case, Claim, Data, Experiment, Result
from nmax.guides import LookaheadGuide, MovingAverageGuide
from nmax.models import SDE, StateSpaceModel

# Pelts of snowshoe hare and lynx that the Hudson's Bay Company collected in 1900, ..., 1920, in thousands.
HARES = (
    30.0,
    47.2,
    70.2,
    77.4,
    36.3,
    20.6,
    18.1,
    21.4,
    22.0,
    25.4,
    27.1,
    40.3,
    57.0,
    76.6,
    52.3,
    19.5,
    11.2,
    7.6,
    14.6,
    16.2,
    24.7,
)
LYNXES = (
    4.0,
    6.1,
    9.8,
    35.2,
    59.4,
    41.7,
    19.0,
    13.0,
    8.3,
    9.1,
    7.4,
    8.0,
    12.3,
    19.5,
    45.7,
    51.1,
    29.7,
    15.8,
    9.7,
    10.1,
    8.6,
)
STEPS_A_YEAR = 10
PLAIN = MovingAverageGuide(layers=3, length=20)
PLAIN_OPTIONS = {"steps": 20_000, "window": 50}
SLOW = {**PLAIN_OPTIONS, "optimiser": Optimiser(rate=1e-3, theta_rate=5e-3)}  # at full rates training diverges
# posterior means of the model without noise in its dynamics, from Stan's case study of these counts (Carpenter, 2018)
DETERMINISTIC = {"growth": 0.55, "predation": 0.028, "death": 0.80, "conversion": 0.024}


def predators_and_prey() -> SDE:
    r"""Lotka–Volterra with rates of its own for predators, noise in proportion to the populations, log-normal errors.

    $du = (\alpha u - \beta uv)\,dt + \sigma u\,dW$, $dv = (\delta uv - \gamma v)\,dt + \sigma v\,dW'$; the error of
    a count is relative to it.
    """

    def drift(x, theta):
        u, v = x
        grown, eaten = theta["growth"] * u, theta["predation"] * u * v
        return jnp.stack([grown - eaten, theta["conversion"] * u * v - theta["death"] * v])

    return SDE(
        prior={
            "growth": dist.LogNormal(0.0, 1.0),
            "predation": dist.LogNormal(-3.0, 1.0),
            "death": dist.LogNormal(0.0, 1.0),
            "conversion": dist.LogNormal(-3.0, 1.0),
            "wobble": dist.LogNormal(-2.0, 0.7),
            "error": dist.LogNormal(-1.5, 0.5),
            "hares": dist.LogNormal(3.4, 0.5),
            "lynxes": dist.LogNormal(1.5, 0.5),
        },
        initial=lambda theta: jnp.stack([theta["hares"], theta["lynxes"]]),
        drift=drift,
        diffusion=lambda x, theta: (theta["wobble"] * x) ** 2,
        dt=1.0 / STEPS_A_YEAR,
        observation=lambda x, theta: dist.LogNormal(jnp.log(x), theta["error"]).to_event(1),
        support=constraints.positive,
    )


def pelts(quick: bool) -> Data:
    """Annual counts on the model's grid."""
    del quick
    y = np.full(((len(HARES) - 1) * STEPS_A_YEAR + 1, 2), np.nan)
    y[::STEPS_A_YEAR] = np.stack([HARES, LYNXES], axis=1)
    return Data(predators_and_prey(), y)


def _rates(result: Result) -> np.ndarray:
    """Posterior means of the rates' logarithms."""
    return result.draws[:, : len(DETERMINISTIC)].mean(axis=0)


def _rates_off(results) -> float:
    """Largest distance of the deterministic model's estimates from the posterior means, in posterior sd."""
    result = results["default"]
    off = np.log(list(DETERMINISTIC.values())) - _rates(result)
    return float(np.max(np.abs(off) / result.draws[:, : len(off)].std(axis=0)))


def _widest(results) -> float:
    """Largest posterior sd of a rate's logarithm; that of the prior is 1."""
    return float(results["default"].draws[:, :4].std(axis=0).max())


HUDSON_BAY = Experiment(
    name="hudson-bay",
    title="Hares and lynxes of Hudson Bay, 1900 to 1920 (beyond the paper)",
    cases=(
        Case(name="default", data=pelts, guide=LookaheadGuide(), stretch=(0, 201)),
        Case(name="nMA", data=pelts, guide=PLAIN, options=SLOW, stretch=(0, 201)),
    ),
    claims=(
        Claim(
            text="rates agree with those of the deterministic model: distance in sd",
            measure=_rates_off,
            below=3.0,
            source="nmax",
        ),
        Claim(
            text="the counts tell the rates: sd of their logarithms, 1 a priori",
            measure=_widest,
            below=0.3,
            source="nmax",
        ),
        Claim(
            text="nMA finds the same rates: largest difference of their logarithms",
            measure=lambda results: float(np.abs(_rates(results["nMA"]) - _rates(results["default"])).max()),
            below=0.2,
            source="nmax",
        ),
    ),
    figures={
        "hares": figures.paths("default", 0, "hares, thousands", dt=1 / STEPS_A_YEAR),
        "lynxes": figures.paths("default", 1, "lynxes, thousands", dt=1 / STEPS_A_YEAR),
        "densities": figures.densities(
            ("log growth", "log predation", "log death", "log conversion", "log wobble", "log error"), "default", "nMA"
        ),
    },
)


MORE_THAN_TWO = dist.transforms.AffineTransform(2.0, 1.0, domain=constraints.positive)  # below, there is no variance


def heavy_tailed_volatility() -> StateSpaceModel:
    r"""Daily returns in per cent, $y_i \sim t_\nu(\mu, e^{h_i/2})$, with $h_{i+1} = m + \phi(h_i - m) + \sigma\epsilon$."""
    return StateSpaceModel(
        prior={
            "mean": dist.Normal(0.0, 0.2),
            "level": dist.Normal(0.0, 1.0),
            "persistence": dist.Beta(20.0, 1.5),
            "volatility": dist.LogNormal(-1.5, 0.5),
            "freedom": dist.TransformedDistribution(dist.LogNormal(2.0, 0.7), MORE_THAN_TWO),
        },
        initial=lambda theta: theta["level"][None],
        transition=lambda x, theta: dist.Normal(
            theta["level"] + theta["persistence"] * (x - theta["level"]), theta["volatility"]
        ).to_event(1),
        observation=lambda x, theta: dist.StudentT(theta["freedom"], theta["mean"], jnp.exp(0.5 * x)).to_event(1),
    )


def index_returns(quick: bool) -> Data:
    """Daily returns of the S&P 500 that the package `arch` ships, in per cent."""
    del quick
    try:
        from arch.data import sp500  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(
            "The index returns come with the package arch; `pip install nmax[experiments]` brings it."
        ) from error
    prices = np.asarray(sp500.load()["Adj Close"], float)
    return Data(heavy_tailed_volatility(), 100 * np.diff(np.log(prices))[:, None])


def _least_persistence(case: str) -> measures.Measure:
    """The 5 % quantile of the coefficient of the log variance."""
    return lambda results: float(1 / (1 + np.exp(-np.quantile(results[case].draws[:, 2], 0.05))))


EQUITY_INDEX = Experiment(
    name="equity-index",
    title="Daily returns of the S&P 500, stochastic volatility with Student t errors (beyond the paper)",
    cases=(
        Case(name="default", data=index_returns, guide=LookaheadGuide(), stretch=(0, 5_030)),
        Case(
            name="nMA",
            data=index_returns,
            guide=PLAIN,
            options=PLAIN_OPTIONS,
            stretch=(0, 5_030),
        ),
    ),
    claims=(
        Claim(
            text="volatility persists from day to day: 5 % quantile of its coefficient",
            measure=_least_persistence("default"),
            above=0.95,
            source="nmax",
        ),
        Claim(
            text="the default guide's bound is the higher one: nats",
            measure=measures.elbo_gain("default", "nMA"),
            above=0.0,
            source="nmax",
        ),
        Claim(text="the default fit's clock: seconds", measure=measures.seconds("default"), below=300, source="nmax"),
    ),
    figures={
        "volatility": figures.paths("default", 0, "log variance $h$", count=50),
        "densities": figures.densities(
            (r"$\mu$", r"$m$", r"logit $\phi$", r"$\log\sigma$", r"$\log(\nu - 2)$"), "default", "nMA"
        ),
    },
)
