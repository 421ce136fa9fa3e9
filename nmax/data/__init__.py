"""From a user's files, frames and arrays to windows: tables, the series, its gaps, the stretches that training sees."""

from nmax.data._ahead import read_ahead as read_ahead
from nmax.data._as_table import as_table as as_table
from nmax.data._long import LongSeries as LongSeries
from nmax.data._long import Statistics as Statistics
from nmax.data._long import statistics_of as statistics_of
from nmax.data._many import ManySeries as ManySeries
from nmax.data._many import same_data as same_data
from nmax.data._many import windows_over as windows_over
from nmax.data._read import read as read
from nmax.data._read import read_for as read_for
from nmax.data._series import Series as Series
from nmax.data._series import make_series as make_series
from nmax.data._source import Source as Source
from nmax.data._source import SourceChangedError as SourceChangedError
from nmax.data._source import source as source
from nmax.data._source_rows import source_of as source_of
from nmax.data._table import Table as Table
from nmax.data._tables import Tables as Tables
from nmax.data._tables import one_table as one_table
from nmax.data._tables import tables_of as tables_of
from nmax.data._windows import Window as Window
from nmax.data._windows import Windows as Windows
