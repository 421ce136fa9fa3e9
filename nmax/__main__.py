"""`python -m nmax` is the command `nmax`."""

import sys

from nmax.cli import main

sys.exit(main())
