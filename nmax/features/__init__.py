"""Local side information: what the path flow is told about the data near a step (supplement E).

A feature is one class: `size` says how many numbers it gives a step, `__call__` gives them for any steps, also for those
before 0 and after T. All are of unit order whatever the length and the scale of the series.
"""

from nmax.features._base import AbstractFeature as AbstractFeature
from nmax.features._base import local_features as local_features
from nmax.features._local import Inputs as Inputs
from nmax.features._local import InRange as InRange
from nmax.features._local import NextObservation as NextObservation
from nmax.features._local import Observed as Observed
from nmax.features._local import Time as Time
from nmax.features._local import TimeToNext as TimeToNext
from nmax.features._local import default_features as default_features
