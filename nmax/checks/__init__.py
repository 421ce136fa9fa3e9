"""Is a fit to be trusted? Several examinations, each with a finding in plain words, and one verdict."""

from nmax.checks._before import before as before
from nmax.checks._before import warn as warn
from nmax.checks._examine import examine as examine
from nmax.checks._finding import DO_NOT_TRUST as DO_NOT_TRUST
from nmax.checks._finding import TRUST as TRUST
from nmax.checks._finding import TRUST_MEANS as TRUST_MEANS
from nmax.checks._finding import Check as Check
from nmax.checks._finding import Finding as Finding
from nmax.checks._residuals import Residuals as Residuals
from nmax.checks._residuals import residuals as residuals
from nmax.checks._rivals import NOTABLE as NOTABLE
