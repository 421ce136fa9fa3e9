"""The section on the path: the whole series, to be zoomed into; stretches of it in full; how good the guide is where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmax._strip import POOR, Strip
from nmax.report._bands import Painter, Stretch, Track
from nmax.report._draw import Frame, Note, across, dots, figure, key_of, multiples, panel
from nmax.report._explorer_data import explorer_data
from nmax.report._html import Markup, data_block, joined, paragraphs, tag
from nmax.report._numbers import count, number, percent, plural, small_percent
from nmax.report._path_panels import path_panels, row_scale
from nmax.report._scale import Scale
from nmax.report._section import Section
from nmax.report._seen import Gap
from nmax.report._stretches import Place, places
from nmax.report._subject import Subject
from nmax.report._times import TimeAxis

MOST_TRACKS = 8
STRETCH_BINS = 400
KEYS = "Arrow keys move, plus and minus zoom, Home and End go to the ends, 0 shows the whole series."


def path_section(painter: Painter) -> Section:
    """Bands of the path along the series."""
    subject = painter.subject
    strip, times = subject.strip(), subject.times
    tracks = list(painter.tracks[:MOST_TRACKS])
    whole, found = painter.whole(), subject.seen.gaps
    details: list[tuple[Place, Stretch | None]] = [
        (place, None if whole.width == 1 else painter.stretch(place.start, place.stop))
        for place in places(subject.rows, found, strip)
    ]
    body = joined(
        paragraphs(_lead(subject, found), class_="lead"),
        _left_out(painter),
        _explorer(whole, tracks, times, found, details),
        *(_detail(place, stretch or _cut(whole, place), tracks, times, found) for place, stretch in details),
        None if strip is None else _strip_figure(strip, times, subject.rows),
    )
    data = explorer_data(painter, tracks, whole, details, found, times)
    return Section("path", "The latent path", body, data_block("path-data", data))


def _lead(subject: Subject, found: Sequence[Gap]) -> str:
    names = subject.model.state_names
    what = f"the state {names[0]}" if len(names) == 1 else plural(len(names), "state component")
    missing = 1.0 - subject.seen.rows
    lead = f"What the posterior says of {what} at each of {plural(subject.rows, 'row')}."
    if missing > 0:
        lead += f" At {small_percent(missing)} of them nothing was observed"
        lead += f"; the longest gap has {plural(found[0].length, 'row')}." if found else "."
    return lead


def _left_out(painter: Painter) -> Markup | None:
    rest = len(painter.tracks) - MOST_TRACKS
    return paragraphs(f"The first {MOST_TRACKS} are shown; {count(rest)} more are not.") if rest > 0 else None


def _explorer(
    whole: Stretch,
    tracks: list[Track],
    times: TimeAxis,
    found: Sequence[Gap],
    details: list[tuple[Place, Stretch | None]],
) -> Markup:
    panels = path_panels(whole, tracks, times, found, numbered=True)
    buttons = [
        ("in", "Zoom in", "+"),
        ("out", "Zoom out", "−"),
        ("left", "Earlier", "←"),
        ("right", "Later", "→"),
        ("all", "Whole series", "Whole series"),
    ]
    controls = [tag("button", sign, type="button", data_do=do, aria_label=said) for do, said, sign in buttons]
    controls += [tag("button", place.name, type="button", data_place=number) for number, (place, _) in enumerate(details)]
    stack = tag("div", *panels, class_="stack", tabindex="0", role="group", aria_label=f"The path. {KEYS}")
    status = tag("p", _status(whole, times), class_="status", role="status")
    legend = key_of(("band-key", "90 % band"), ("middle-key", "median"), ("seen-key", "observed"), *_gap_key(found))
    inner = tag(
        "div", tag("div", *controls, class_="controls", hidden=True), legend, status, stack, class_="explorer", id="explorer"
    )
    return figure("figure-path", _caption(whole), inner)


def _gap_key(found: Sequence[Gap]) -> list[tuple[str, str]]:
    return [("gap-key", "nothing observed")] if found else []


def _status(whole: Stretch, times: TimeAxis) -> str:
    first, last = times.said(0), times.said(whole.rows - 1)
    if times.kind == "step":
        last = last.removeprefix("step ")
    return f"{first[:1].upper()}{first[1:]} to {last}: the whole series"


def _caption(whole: Stretch) -> Markup:
    said = f"The whole series. Bands hold 90 % of {whole.draws} draws of the path"
    if whole.pieces is not None:
        drawn = float(np.isfinite(whole.band.low).any(axis=1).mean())
        said += (
            f", which was drawn on stretches of {count(whole.pieces)} rows spread evenly over the series only, since it is "
            f"very long: {percent(drawn, 1)} of the bins have bands"
        )
    said += "."
    if whole.width > 1:
        said += (
            f" The page holds it in bins of {count(whole.width)} rows: of each the reach of bands, medians and "
            "observations, so that no extreme is lost, and the mean of the medians as a line."
        )
    hint = tag(
        "span",
        " Drag across to zoom in, double-click to see the whole series again, or use the buttons. "
        f"With the figure in focus: {KEYS[0].lower()}{KEYS[1:]}",
        class_="only-with-script",
    )
    return joined(said, hint)


def _cut(whole: Stretch, place: Place) -> Stretch:
    """A stretch of a series of which every row is there already."""
    band, middle, observed = (part.part(place.start, place.stop) for part in (whole.band, whole.middle, whole.observed))
    return Stretch(place.start, place.stop - place.start, 1, band, middle, observed, whole.draws)


def _detail(place: Place, stretch: Stretch, tracks: list[Track], times: TimeAxis, found: Sequence[Gap]) -> Markup:
    panels = path_panels(stretch, tracks, times, found, bins=STRETCH_BINS, height=110)
    caption = joined(
        tag("b", place.name),
        f": {place.why}. {_from_to(times, place)}, every row; 90 % bands of {stretch.draws} draws.",
    )
    return figure(f"figure-{place.name.lower().replace(' ', '-')}", caption, *panels, class_="detail")


def _from_to(times: TimeAxis, place: Place) -> str:
    first, last = times.said(place.start), times.said(place.stop - 1)
    return f"From {first} to {last}"


def _strip_figure(strip: Strip, times: TimeAxis, rows: int) -> Markup:
    middle = 0.5 * (strip.start + strip.stop - 1)
    usual, least = (number(float(worth), 2) for worth in (np.median(strip.effective), strip.effective.min()))
    frame = Frame(row_scale(0, rows), Scale(0.0, 1.05))
    bad = strip.bad
    shapes = [
        across(frame, POOR, "limit"),
        dots(frame, middle[~bad], strip.effective[~bad], "point"),
        dots(frame, middle[bad], strip.effective[bad], "point alarm"),
    ]
    said = f"Worth of draws of the path in {plural(len(middle), 'window')} along the series"
    body = panel(
        frame,
        shapes,
        label=f"{said}: {usual} in the middle, {least} at the worst; {int(bad.sum())} below {POOR}.",
        x_ticks=times.ticks(frame.x.low, frame.x.high),
        y_ticks=Scale(0.0, 1.05).ticks(3),
        x_title=times.title,
        title="Worth of a draw of the path",
        aside=tag("span", "1 if the guide is exact", class_="panel-aside"),
        notes=[Note(frame.x.low, POOR, f"below {POOR}: bad", "over" if bad.any() else "under", "right")],
        height=90,
    )
    steps = int(np.max(strip.stop - strip.start))
    worst = f"{count(int(bad.sum()))} of them {'is' if bad.sum() == 1 else 'are'} bad" if bad.any() else "none is bad"
    caption = (
        f"Where the guide is good. Paths of {plural(len(middle), 'window')} of {plural(steps, 'step')} were weighted "
        "against the exact posterior given the parameters; the figure shows what share of equally weighted draws they are "
        f"worth. In the middle {usual}, at the worst {least}; {worst}."
    )
    return figure("figure-strip", caption, multiples(body, class_="one"))
