"""Claims that several experiments make of the default guide."""

from __future__ import annotations

from nmax.experiments import _measures as measures
from nmax.experiments._declare import Claim


def accurate(*cases: str, quick: bool = False, where: str = "") -> tuple[Claim, Claim]:
    """Means and widths of θ are near the exact posterior's."""
    name = f"default guide{where}"
    return (
        Claim(text=f"{name}: |bias| in sd", measure=measures.worst_bias(*cases), below=0.2, source="nmax", quick=quick),
        Claim(text=f"{name}: |sd ratio − 1|", measure=measures.worst_width(*cases), below=0.15, source="nmax", quick=quick),
    )


def faster(*cases: str, times: int, minutes: float) -> Claim:
    """So many times faster than the paper's GPU, which took so many minutes."""
    text = f"default guide, {times} times faster than the paper's GPU: seconds"
    return Claim(text=text, measure=measures.seconds(*cases), below=60 * minutes / times, source="nmax")
