"""Progress of a fit: silent, or a tqdm bar with the ELBO and steps a second."""

from __future__ import annotations

import sys
from typing import Protocol, runtime_checkable


@runtime_checkable
class Meter(Protocol):
    """What training reports to."""

    def update(self, steps: int, elbo: float, phase: str) -> None:
        """`steps` more are done; the ELBO stands at `elbo` nats."""

    def phase(self, what: str) -> None:
        """Something begins that has no steps to count."""

    def close(self) -> None:
        """Training is over."""


class Silent:
    """Reports nothing."""

    def update(self, steps: int, elbo: float, phase: str) -> None:
        """Do nothing."""

    def phase(self, what: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Bar:
    """A tqdm bar on standard error."""

    def __init__(self, total: int | None):
        from tqdm import tqdm

        self._bar = tqdm(total=total, unit="step", desc="fit", file=sys.stderr, dynamic_ncols=True)

    def update(self, steps: int, elbo: float, phase: str) -> None:
        """Move on and show the ELBO."""
        self._bar.set_description(phase, refresh=False)
        self._bar.set_postfix_str(f"ELBO {elbo:,.1f}", refresh=False)
        self._bar.update(steps)

    def phase(self, what: str) -> None:
        """Show what is going on."""
        self._bar.set_description(what)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()


def make_meter(progress: bool, total: int | None) -> Meter:
    """A bar, or silence."""
    return Bar(total) if progress else Silent()
