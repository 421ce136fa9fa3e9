"""nmax: Bayesian inference in state space models and stochastic differential equations, for long series.

Write a model with NumPyro distributions, hand over a series with gaps, get the joint posterior of the parameters and the
latent path. The default guide looks ahead; the neural moving average model of Ryder, Prangle, Golightly and Matthews (UAI
2021), from which it began, is there too.
"""

from nmax import features as features
from nmax import flows as flows
from nmax import models as models
from nmax import reference as reference
from nmax import report as report
from nmax._calibrate import calibrate as calibrate
from nmax._calibration import Calibration as Calibration
from nmax._claim import RunInUseError as RunInUseError
from nmax._compare import Comparison as Comparison
from nmax._compare import compare as compare
from nmax._convergence import Converged as Converged
from nmax._convergence import Convergence as Convergence
from nmax._draws import Draws as Draws
from nmax._evidence import Evidence as Evidence
from nmax._finite import NoPosteriorError as NoPosteriorError
from nmax._fit import fit as fit
from nmax._forecast import Forecast as Forecast
from nmax._load import load as load
from nmax._many import ManyPosterior as ManyPosterior
from nmax._objective import Elbo as Elbo
from nmax._optimiser import Optimiser as Optimiser
from nmax._posterior import Estimate as Estimate
from nmax._posterior import Posterior as Posterior
from nmax._predictive_check import PredictiveCheck as PredictiveCheck
from nmax._resume import resume as resume
from nmax._sample import sample as sample
from nmax._score import score as score
from nmax._score_table import Score as Score
from nmax._strip import PathSummary as PathSummary
from nmax._strip import Strip as Strip
from nmax._summary import Summary as Summary
from nmax._train import DivergedError as DivergedError
from nmax._train import History as History
from nmax._train import ProcessLostError as ProcessLostError
from nmax.checks import Check as Check
from nmax.checks import Finding as Finding
from nmax.checks import Residuals as Residuals
from nmax.data import Table as Table
from nmax.data import read as read
from nmax.data import source as source
from nmax.guides import Guide as Guide
from nmax.guides import LookaheadGuide as LookaheadGuide
from nmax.guides import MovingAverageGuide as MovingAverageGuide
from nmax.models import SDE as SDE
from nmax.models import Simulation as Simulation
from nmax.models import StateSpaceModel as StateSpaceModel
from nmax.models import simulate as simulate

__version__ = "0.1.0"
