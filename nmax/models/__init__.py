"""Models: the two ways to write one, the paper's four ready-made, and simulation."""

from nmax.models._ar1 import ar1 as ar1
from nmax.models._base import AbstractModel as AbstractModel
from nmax.models._base import StateSpaceModel as StateSpaceModel
from nmax.models._base import log_prob_of_rows as log_prob_of_rows
from nmax.models._fitzhugh_nagumo import fitzhugh_nagumo as fitzhugh_nagumo
from nmax.models._lotka_volterra import lotka_volterra as lotka_volterra
from nmax.models._one_step import in_support as in_support
from nmax.models._one_step import next_state as next_state
from nmax.models._one_step import observe as observe
from nmax.models._priors import Prior as Prior
from nmax.models._priors import Theta as Theta
from nmax.models._sde import SDE as SDE
from nmax.models._simulate import Simulation as Simulation
from nmax.models._simulate import simulate as simulate
from nmax.models._stochastic_volatility import stochastic_volatility as stochastic_volatility
