"""From a user's arrays to windows: the series, its gaps, and the stretches that training sees."""

from nmax.data._series import Series as Series
from nmax.data._series import make_series as make_series
from nmax.data._series import same_data as same_data
from nmax.data._table import Table as Table
from nmax.data._table import as_table as as_table
from nmax.data._windows import Window as Window
from nmax.data._windows import Windows as Windows
