"""The look-ahead: Gaussian summaries of what is to come, and the model's own transition tilted by them."""

from nmax.lookahead._dynamics import Dynamics as Dynamics
from nmax.lookahead._dynamics import Reference as Reference
from nmax.lookahead._dynamics import Rows as Rows
from nmax.lookahead._dynamics import linearised as linearised
from nmax.lookahead._dynamics import rows_of as rows_of
from nmax.lookahead._information import draw as draw
from nmax.lookahead._information import draw_step as draw_step
from nmax.lookahead._information import look_ahead as look_ahead
from nmax.lookahead._memory import memory as memory
from nmax.lookahead._reference import FIRST_PULL as FIRST_PULL
from nmax.lookahead._reference import around as around
from nmax.lookahead._reference import smoothed as smoothed
