"""Panels of the path: bands, medians, observations and gaps of a stretch, as they are before any zooming."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmax.report._bands import Stretch, Track
from nmax.report._bins import coarser, coarser_mean, middles
from nmax.report._draw import Frame, area, bars, boxes, gutter_of, line, panel
from nmax.report._html import Markup, tag
from nmax.report._numbers import count
from nmax.report._scale import Scale, limits
from nmax.report._seen import Gap
from nmax.report._times import TimeAxis

BINS = 480  # of a static figure as wide as the page
SPARSE = 160  # observations up to which they are large dots
WIDE_GAP = 0.004  # share of the stretch above which a gap is shaded


class View:
    """One track of a stretch in at most so many bins."""

    def __init__(self, stretch: Stretch, track: Track, bins: int):
        group = max(1, -(-len(stretch.band.low) // bins))
        self.rows = stretch.start + middles(-(-len(stretch.band.low) // group), stretch.width * group)
        self.rows = np.minimum(self.rows, stretch.start + stretch.rows - 1)
        self.binned = stretch.width * group
        nothing = np.full(len(self.rows), np.nan)
        self.low = self.high = self.middle_low = self.middle_high = self.level = self.seen_low = self.seen_high = nothing
        if track.track is not None:
            k = slice(track.track, track.track + 1)
            self.low, self.high = _column(coarser(stretch.band.low[:, k], stretch.band.high[:, k], group))
            self.middle_low, self.middle_high = _column(coarser(stretch.middle.low[:, k], stretch.middle.high[:, k], group))
            self.level = coarser_mean(stretch.middle.mean[:, k], group)[:, 0]
        if track.column is not None:
            k = slice(track.column, track.column + 1)
            self.seen_low, self.seen_high = _column(coarser(stretch.observed.low[:, k], stretch.observed.high[:, k], group))

    @property
    def scale(self) -> Scale:
        """Limits that hold all of it."""
        return limits(self.low, self.high, self.seen_low, self.seen_high)


def path_panels(
    stretch: Stretch,
    tracks: Sequence[Track],
    times: TimeAxis,
    gaps: Sequence[Gap],
    *,
    bins: int = BINS,
    height: int = 170,
    numbered: bool = False,
    most: int = 5,
) -> list[Markup]:
    """A panel for each track, all on the same time axis, which only the last one labels."""
    views = [View(stretch, track, bins) for track in tracks]
    across = row_scale(stretch.start, stretch.rows)
    ticks = times.ticks(across.low, across.high, most)
    gutter = gutter_of(*(view.scale.ticks(4) for view in views))
    out = []
    for number, (track, view) in enumerate(zip(tracks, views, strict=True)):
        frame = Frame(across, view.scale)
        last = number == len(tracks) - 1
        out.append(
            panel(
                frame,
                [_gaps(frame, gaps, stretch), *_shapes(frame, view, track)],
                label=_described(track, view, times, stretch),
                x_ticks=ticks,
                y_ticks=view.scale.ticks(4),
                x_title=times.title if last else "",
                title=track.name,
                aside=tag("span", meaning(track), class_="panel-aside"),
                height=height,
                gutter=gutter,
                data=number if numbered else None,
            )
        )
    return out


def row_scale(start: int, rows: int) -> Scale:
    """From half a row before the first to half a row behind the last."""
    return Scale(start - 0.5, start + rows - 0.5)


def meaning(track: Track) -> str:
    """What a panel shows, in a few words."""
    if track.state is None:
        return "observed; what the model expects, in blue" if track.track is not None else "observed"
    if track.exact:
        return "observed without error"
    return "with observations" if track.column is not None else "never observed directly"


def _shapes(frame: Frame, view: View, track: Track) -> list[Markup]:
    seen = int(np.isfinite(view.seen_low).sum())
    size = "dense" if view.binned > 1 else "sparse" if seen <= SPARSE else "usual"
    observed = bars(frame, view.rows, view.seen_low, view.seen_high, f"seen {size}")
    band = area(frame, view.rows, view.low, view.high, "band")
    middle = area(frame, view.rows, view.middle_low, view.middle_high, f"middle {size}")
    if size == "dense":
        level = line(frame, view.rows, view.level, "level")
        return [band, middle, level] if track.exact else [observed, band, middle, level]
    return [band, middle] if track.exact else [band, middle, observed]


def _gaps(frame: Frame, gaps: Sequence[Gap], stretch: Stretch) -> Markup:
    """Shaded stretches without an observation."""
    wide = [gap for gap in gaps if gap.stop - gap.start > WIDE_GAP * stretch.rows]
    inside = [gap for gap in wide if gap.stop > stretch.start and gap.start < stretch.start + stretch.rows]
    left, right = (np.array([gap[k] for gap in inside], float) - 0.5 for k in (0, 1))
    bottom, top = (np.full(len(inside), edge) for edge in (frame.y.low, frame.y.high))
    return boxes(frame, left, right, bottom, top, "gap")


def _described(track: Track, view: View, times: TimeAxis, stretch: Stretch) -> str:
    first, last = times.said(stretch.start), times.said(stretch.start + stretch.rows - 1)
    binned = f", in bins of {count(view.binned)} rows" if view.binned > 1 else ""
    return f"{track.name} from {first} to {last}{binned}: median and 90 % band; {meaning(track)}."


def _column(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return pair[0][:, 0], pair[1][:, 0]
