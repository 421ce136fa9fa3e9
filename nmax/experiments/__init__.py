"""The paper's experiments as declarations, and the runner that runs them."""

from nmax.experiments import ar1, fitzhugh_nagumo, lotka_volterra, real_data, stochastic_volatility
from nmax.experiments._declare import Case as Case
from nmax.experiments._declare import Claim as Claim
from nmax.experiments._declare import Data as Data
from nmax.experiments._declare import Experiment as Experiment
from nmax.experiments._declare import Result as Result
from nmax.experiments._declare import Verdict as Verdict
from nmax.experiments._run import Outcome as Outcome
from nmax.experiments._run import run as run
from nmax.experiments._sources import treasury_bills as treasury_bills

CATALOGUE = {
    experiment.name: experiment
    for experiment in (
        ar1.LENGTH,
        ar1.RECEPTIVE_FIELD,
        lotka_volterra.DENSE,
        lotka_volterra.SPARSE,
        lotka_volterra.REVERSAL,
        fitzhugh_nagumo.MILLION,
        stochastic_volatility.PAPER_FORM,
        stochastic_volatility.CODE_FORM,
        real_data.HUDSON_BAY,
        real_data.EQUITY_INDEX,
    )
}
