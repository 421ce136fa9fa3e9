"""What the page's script draws from: bands and observations as single-precision numbers, in base 64."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from nmax.report._bands import Painter, Stretch, Track
from nmax.report._seen import Gap
from nmax.report._stretches import Place
from nmax.report._times import TimeAxis


def packed(values: np.ndarray) -> str:
    """Little-endian single precision in base 64; NaN, where nothing is, is a number of that format."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode("ascii")


def packed_stretch(stretch: Stretch, tracks: list[Track]) -> dict[str, Any]:
    """The numbers of all panels of a stretch; where every bin is one row, what is the same is packed once."""
    panels = []
    for track in tracks:
        one: dict[str, Any] = {}
        if track.track is not None:
            one["low"], one["high"] = (packed(side[:, track.track]) for side in (stretch.band.low, stretch.band.high))
            one["middleLow"] = packed(stretch.middle.low[:, track.track])
            if stretch.width > 1:
                one["middleHigh"] = packed(stretch.middle.high[:, track.track])
                one["level"] = packed(stretch.middle.mean[:, track.track])
        if track.column is not None:
            one["seenLow"] = packed(stretch.observed.low[:, track.column])
            if stretch.width > 1:
                one["seenHigh"] = packed(stretch.observed.high[:, track.column])
        panels.append(one)
    return {"start": stretch.start, "rows": stretch.rows, "width": stretch.width, "panels": panels}


def explorer_data(
    painter: Painter,
    tracks: list[Track],
    whole: Stretch,
    details: list[tuple[Place, Stretch | None]],
    gaps: Sequence[Gap],
    times: TimeAxis,
) -> dict[str, Any]:
    """All that the script needs; stretches that the whole series shows row by row bring no numbers of their own."""
    return {
        "rows": painter.subject.rows,
        "time": times.packed(),
        "names": [track.name for track in tracks],
        "exact": [track.exact for track in tracks],
        "whole": packed_stretch(whole, tracks),
        "details": [packed_stretch(stretch, tracks) for _, stretch in details if stretch is not None],
        "places": [{"name": place.name, "start": place.start, "stop": place.stop} for place, _ in details],
        "gaps": [list(gap) for gap in gaps],
    }
