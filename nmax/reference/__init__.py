"""Exact answers to hold the rest against. NumPy in double precision; shares no code with flows or objective."""

from nmax.reference._ar1 import AR1Posterior as AR1Posterior
from nmax.reference._ar1 import ar1_exact as ar1_exact
from nmax.reference._ar1 import ar1_log_likelihood as ar1_log_likelihood
from nmax.reference._ar1 import ar1_metropolis as ar1_metropolis
from nmax.reference._compare import bias_in_sd as bias_in_sd
from nmax.reference._compare import mmd2 as mmd2
from nmax.reference._compare import sd_ratio as sd_ratio
from nmax.reference._kalman import Filtered as Filtered
from nmax.reference._kalman import LinearGaussian as LinearGaussian
from nmax.reference._kalman import Smoothed as Smoothed
from nmax.reference._kalman import kalman_filter as kalman_filter
from nmax.reference._kalman import kalman_smoother as kalman_smoother
from nmax.reference._kalman import sample_paths as sample_paths
