"""One self-contained HTML page about a fit."""

from nmax.report._write import write as write
