"""Figures by hand: SVG shapes that stretch with the page, beside them ticks and words in HTML, which do not.

A canvas is 1,000 wide and 100 high whatever its size on the screen; strokes keep their width (`vector-effect`). So one
figure serves a phone and a printed page, without a script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nmax.report._html import Markup, joined, shape, tag, tidy
from nmax.report._scale import Scale, Tick

WIDTH, HEIGHT = 1_000.0, 100.0
EDGE = 10.0  # per cent of the width over which labels near an end are moved inwards
BEYOND = 10.0  # canvas heights beyond which nothing needs to be drawn


class Frame(NamedTuple):
    """The scales of a panel."""

    x: Scale
    y: Scale


class Note(NamedTuple):
    """Words inside a panel: at a place of the frame, of a class, on the side of it that `side` says."""

    x: float
    y: float
    text: str
    class_: str = ""
    side: str = "right"


def line(frame: Frame, x: Any, y: Any, class_: str) -> Markup:
    """A line, broken where a number is missing."""
    points = _points(frame, x, y)
    return _path("".join("M" + "L".join(run) for run in _runs(points)), class_)


def area(frame: Frame, x: Any, low: Any, high: Any, class_: str) -> Markup:
    """What lies between two lines."""
    lower, upper = _points(frame, x, low), _points(frame, x, high)
    both = [(a, b) if a and b else None for a, b in zip(lower, upper, strict=True)]
    parts = []
    for run in _runs(both):
        there, back = [b for _, b in run], [a for a, _ in run][::-1]
        parts.append("M" + "L".join(there + back) + "Z")
    return _path("".join(parts), class_)


def bars(frame: Frame, x: Any, low: Any, high: Any, class_: str) -> Markup:
    """Upright strokes; a dot where both ends are the same."""
    lower, upper = _points(frame, x, low), _points(frame, x, high)
    return _path(
        "".join(f"M{a}V{b.split(' ')[1]}" if a != b else f"M{a}h0" for a, b in zip(lower, upper, strict=True) if a and b),
        class_,
    )


def dots(frame: Frame, x: Any, y: Any, class_: str) -> Markup:
    """Points, as strokes of no length with round ends."""
    return bars(frame, x, y, y, class_)


def boxes(frame: Frame, left: Any, right: Any, low: Any, high: Any, class_: str) -> Markup:
    """Rectangles."""
    lower, upper = _points(frame, left, low), _points(frame, right, high)
    corners = ((a.split(" "), b.split(" ")) for a, b in zip(lower, upper, strict=True) if a and b)
    return _path("".join(f"M{x0} {y0}V{y1}H{x1}V{y0}Z" for (x0, y0), (x1, y1) in corners), class_)


def across(frame: Frame, y: float, class_: str) -> Markup:
    """A level line."""
    (point,) = _points(frame, [frame.x.low], [y])
    return _path(f"M0 {point.split(' ')[1]}H{WIDTH:.0f}", class_)


def upright(frame: Frame, x: Iterable[float], class_: str) -> Markup:
    """Lines from top to bottom."""
    places = [_one(WIDTH * at) for at in frame.x(list(x)) if np.isfinite(at)]
    return _path("".join(f"M{place} 0V{HEIGHT:.0f}" for place in places), class_)


def panel(
    frame: Frame,
    shapes: Sequence[Markup],
    *,
    label: str,
    x_ticks: Sequence[Tick] = (),
    y_ticks: Sequence[Tick] = (),
    x_title: str = "",
    title: Any = None,
    aside: Any = None,
    notes: Sequence[Note] = (),
    height: int = 150,
    gutter: int | None = None,
    data: int | None = None,
) -> Markup:
    """A panel: title, canvas, ticks and notes.

    Args:
        frame: its scales.
        shapes: what is drawn.
        label: what it shows, for those who do not see it.
        x_ticks: below it.
        y_ticks: on its left, with lines across.
        x_title: what stands behind the ticks.
        title: above it.
        aside: beside the title.
        notes: words inside.
        height: in pixels.
        gutter: characters that the labels on the left may take; by default as many as they do.
        data: number of the panel, for the script.
    """
    width = gutter if gutter is not None else gutter_of(y_ticks)
    grid = _path("".join(f"M0 {_two(100 * (1 - at))}H1000" for at in frame.y([t.at for t in y_ticks])), "grid")
    marks = _path("".join(f"M{_one(1000 * at)} 100v-4" for at in frame.x([t.at for t in x_ticks])), "tick")
    svg = tag(
        "svg",
        grid,
        *shapes,
        marks,
        class_="canvas",
        viewBox="0 0 1000 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=tidy(label),
    )
    above = [_note(frame, note) for note in notes]
    head = tag("p", tag("span", title, class_="panel-name"), aside, class_="panel-title") if title is not None else None
    plot = tag(
        "div",
        tag("div", *(_at("top", 100 * (1 - frame.y(t.at)), t.label) for t in y_ticks), class_="y-ticks", aria_hidden="true"),
        tag("div", svg, *above, class_="field"),
        tag("div", *_x_labels(frame, x_ticks), class_="x-ticks", aria_hidden="true"),
        tag("div", x_title, class_="x-title", aria_hidden="true") if x_title else None,
        class_="plot",
        style=f"--height:{height}px;--gutter:{width}ch",
    )
    return tag("div", head, plot, class_="panel", data_panel=data)


def gutter_of(*ticks: Sequence[Tick]) -> int:
    """Characters of the longest label."""
    return max((len(tick.label) for part in ticks for tick in part), default=0)


def figure(name: str, caption: Any, *parts: Any, class_: str = "") -> Markup:
    """Panels with a caption."""
    return tag("figure", *parts, tag("figcaption", tidy(caption)), id=name, class_=f"figure {class_}".strip())


def multiples(*panels: Markup, class_: str = "") -> Markup:
    """Small panels side by side, as many as the page has room for."""
    return tag("div", *panels, class_=f"multiples {class_}".strip())


def _x_labels(frame: Frame, ticks: Sequence[Tick]) -> list[Markup]:
    return [_at("left", 100 * float(frame.x(t.at)), t.label, shift=True) for t in ticks]


def _at(side: str, per_cent: Any, text: str, shift: bool = False) -> Markup:
    """A label at a place; near the ends moved inwards, so that it stays on the page."""
    place = float(per_cent)
    style = f"{side}:{_two(place)}%"
    if shift:
        moved = 50.0 * min(1.0, place / EDGE) if place < 50 else 100.0 - 50.0 * min(1.0, (100.0 - place) / EDGE)
        style += f";transform:translateX(-{_two(max(moved, 0.0))}%)"
    return tag("span", text, style=style)


def _note(frame: Frame, note: Note) -> Markup:
    left, top = 100 * float(frame.x(note.x)), 100 * (1 - float(frame.y(note.y)))
    place = f"left:{_two(left)}%" if note.side == "right" else f"right:{_two(100 - left)}%"
    style = f"{place};top:{_two(min(max(top, 0.0), 100.0))}%"
    return tag("span", note.text, class_=f"note {note.class_}".strip(), style=style, aria_hidden="true")


def _points(frame: Frame, x: Any, y: Any) -> list[str]:
    """Coordinates as text; empty where one is missing."""
    across, up = WIDTH * frame.x(x), HEIGHT * (1.0 - frame.y(y))
    fine = np.isfinite(across) & np.isfinite(up)
    up = np.clip(up, -BEYOND * HEIGHT, (1 + BEYOND) * HEIGHT)
    across = np.clip(across, -BEYOND * WIDTH, (1 + BEYOND) * WIDTH)
    return [f"{_one(a)} {_two(b)}" if ok else "" for a, b, ok in zip(across, up, fine, strict=True)]


def _runs(points: list[Any]) -> Iterable[list[Any]]:
    """Stretches without a hole."""
    run: list[Any] = []
    for point in points:
        if point:
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _path(data: str, class_: str) -> Markup:
    return shape("path", d=data, class_=class_) if data else Markup("")


def _one(value: float) -> str:
    return _short(f"{value:.1f}")


def _two(value: float) -> str:
    return _short(f"{float(value):.2f}")


def _short(text: str) -> str:
    text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def key_of(*entries: tuple[str, str]) -> Markup:
    """What marks mean, where they cannot be labelled directly: (class, words)."""
    items = (tag("li", tag("span", class_=f"swatch {class_}", aria_hidden="true"), tidy(words)) for class_, words in entries)
    return tag("ul", joined(*items), class_="key")
