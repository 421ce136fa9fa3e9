"""Flows from noise to path and to θ. They know nothing of data or models."""

from nmax.flows._base import AbstractFlow as AbstractFlow
from nmax.flows._base import Chain as Chain
from nmax.flows._base import Side as Side
from nmax.flows._elementwise import Bijectors as Bijectors
from nmax.flows._elementwise import Constrain as Constrain
from nmax.flows._elementwise import Standardise as Standardise
from nmax.flows._moving_average import MovingAverage as MovingAverage
from nmax.flows._network import Encoder as Encoder
from nmax.flows._order import Backwards as Backwards
from nmax.flows._recipes import nma_layers as nma_layers
from nmax.flows._skew import Skew as Skew
from nmax.flows._theta import AffineHead as AffineHead
from nmax.flows._theta import ThetaFlow as ThetaFlow
