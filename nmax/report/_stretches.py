"""Which stretches of a long series to show in full: its beginning, its end, its longest gap, where the guide is worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nmax._strip import Strip
from nmax.report._numbers import count, number, plural
from nmax.report._seen import Gap

LENGTH = 400  # rows of a stretch
LONGEST = 3_000  # rows of one around a gap
SAME = 0.6  # share of a stretch within another that makes it the same
ALIKE = 0.95  # worth of the worst window's draws above which all are as good as exact


class Place(NamedTuple):
    """Rows `start, ..., stop - 1`, why they are shown, and what to say of them."""

    start: int
    stop: int
    name: str
    why: str


def places(rows: int, found: Sequence[Gap], strip: Strip | None) -> list[Place]:
    """The stretches to show; none of a series that is not much longer than one of them."""
    if rows <= 2 * LENGTH:
        return []
    out = [Place(0, LENGTH, "The beginning", f"the first {count(LENGTH)} rows")]
    if found:
        out.append(_around_gap(found[0], rows))
    worst = int(np.argmin(strip.effective)) if strip is not None and len(strip.start) else 0
    if strip is not None and len(strip.start) and strip.effective[worst] < ALIKE:
        middle = int(strip.start[worst] + strip.stop[worst]) // 2
        share = number(float(strip.effective[worst]), 2)
        out.append(_placed(middle, LENGTH, rows, "The worst window", f"where draws of the path are worth least, {share}"))
    out.append(Place(rows - LENGTH, rows, "The end", f"the last {count(LENGTH)} rows"))
    return _without_repetition(out)


def _around_gap(gap: Gap, rows: int) -> Place:
    length = gap.length
    why = f"{plural(length, 'row')} without an observation"
    if 3 * length <= LONGEST:
        return _placed((gap.start + gap.stop) // 2, max(LENGTH, 3 * length), rows, "The longest gap", why)
    return _placed(gap.start, LENGTH, rows, "Where the longest gap begins", why)


def _placed(middle: int, length: int, rows: int, name: str, why: str) -> Place:
    length = min(length, rows)
    start = min(max(middle - length // 2, 0), rows - length)
    return Place(start, start + length, name, why)


def _without_repetition(found: list[Place]) -> list[Place]:
    kept: list[Place] = []
    for place in found:
        shared = [max(0, min(place.stop, other.stop) - max(place.start, other.start)) for other in kept]
        if max(shared, default=0) <= SAME * (place.stop - place.start):
            kept.append(place)
        else:
            k = int(np.argmax(shared))
            both = f"{kept[k].name}, {place.name[:1].lower()}{place.name[1:]}", f"{kept[k].why}; {place.why}"
            kept[k] = kept[k]._replace(name=both[0], why=both[1])
    return sorted(kept)
