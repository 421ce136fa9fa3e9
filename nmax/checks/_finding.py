"""What an examination finds, and the verdict that all of them come to."""

from __future__ import annotations

import dataclasses
from typing import Any

TRUST, TRUST_MEANS, DO_NOT_TRUST = "trust", "trust the means, not the widths", "do not trust"
WORST_LAST = (TRUST, TRUST_MEANS, DO_NOT_TRUST)


@dataclasses.dataclass(frozen=True)
class Finding:
    """What one examination found.

    Attributes:
        about: what was examined.
        level: the best verdict that it still allows.
        text: what was found, in plain words with its figures.
        remedy: what to do; empty where nothing is wrong.
    """

    about: str
    level: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.about}: {self.text}" + (f". {self.remedy}" if self.remedy else "")


@dataclasses.dataclass(frozen=True)
class Check:
    """Whether to trust a fit, and why.

    Attributes:
        findings: of all examinations.
        figures: the numbers they rest on, by name.
        seconds: wall clock.
    """

    findings: tuple[Finding, ...]
    figures: dict[str, Any]
    seconds: float

    @property
    def verdict(self) -> str:
        """`trust`, `trust the means, not the widths`, or `do not trust`: the worst of the findings."""
        return max((finding.level for finding in self.findings), key=WORST_LAST.index, default=DO_NOT_TRUST)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against the fit, and what to do about it."""
        worst_first = sorted(self.findings, key=lambda finding: -WORST_LAST.index(finding.level))
        return tuple(str(finding) for finding in worst_first if finding.level != TRUST)

    def __str__(self) -> str:
        lines = [f"verdict: {self.verdict}", *(f"  against it, {reason}" for reason in self.reasons)]
        lines += [f"  {finding}" for finding in self.findings if finding.level == TRUST]
        return "\n".join(lines)

    __repr__ = __str__
