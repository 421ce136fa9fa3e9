"""Guides: the two kinds of q(θ, x), each made from settings by `build`."""

from nmax.guides._base import Guide as Guide
from nmax.guides._base import Stretch as Stretch
from nmax.guides._base import prior_centre as prior_centre
from nmax.guides._damaged import DamagedGuide as DamagedGuide
from nmax.guides._lookahead import LookaheadSampler as LookaheadSampler
from nmax.guides._lookahead_settings import LookaheadGuide as LookaheadGuide
from nmax.guides._moving_average import MovingAverageGuide as MovingAverageGuide
from nmax.guides._moving_average import PlainGuide as PlainGuide
from nmax.guides._stretches import one_stretch as one_stretch
from nmax.guides._stretches import stretches as stretches
