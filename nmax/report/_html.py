"""HTML that cannot be broken by what is put into it: whatever is not `Markup` already is escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

NOT_ALLOWED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")  # characters that HTML has no place for
PER_CENT = re.compile("(?<=[0-9]) %")
EMPTY = frozenset({"meta", "link", "br", "path", "rect", "line", "circle", "col"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(value: Any) -> Markup:
    """HTML as it is; anything else as text, whatever characters it holds."""
    if isinstance(value, Markup):
        return value
    whole = str(value).encode("utf-8", "replace").decode("utf-8")
    return Markup(html.escape(NOT_ALLOWED.sub("\N{REPLACEMENT CHARACTER}", whole), quote=True))


def joined(*parts: Any, by: str = "") -> Markup:
    """Several parts one after the other; None is left out."""
    return Markup(escaped(by).join(escaped(part) for part in parts if part is not None))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element; attributes in Python's spelling, `class_` or `aria_label`.

    An attribute that is None is left out, one that is True stands without a value.
    """
    said = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        spelt = key.rstrip("_").replace("_", "-")
        said.append(f" {spelt}" if value is True else f' {spelt}="{escaped(value)}"')
    opening = f"<{name}{''.join(said)}>"
    return Markup(opening if name in EMPTY and not children else f"{opening}{joined(*children)}</{name}>")


def shape(name: str, /, **attributes: Any) -> Markup:
    """An SVG element without children."""
    return Markup(tag(name, **attributes)[:-1] + "/>")


def link(target: str, *children: Any) -> Markup:
    """A link to a place on the page."""
    return tag("a", *children, href=f"#{target}")


def tidy(value: Any) -> Markup:
    """Text of ours: no line ends between a number and its per cent sign."""
    return Markup(PER_CENT.sub("\N{NARROW NO-BREAK SPACE}%", escaped(value)))


def paragraphs(*lines: Any, class_: str | None = None) -> Markup:
    """A paragraph a line; None is left out."""
    return joined(*(tag("p", tidy(line), class_=class_) for line in lines if line is not None))


def bullets(lines: Iterable[Any], class_: str | None = None) -> Markup:
    """A list, or nothing."""
    items = [tag("li", line) for line in lines]
    return tag("ul", *items, class_=class_) if items else Markup("")


def sentence(said: str) -> str:
    """A sentence from a phrase: a capital at the front, a full stop at the end."""
    said = said.strip()
    if not said:
        return said
    first = said[0].upper() if said[0].islower() and not re.match(r"[a-z](\(|[A-Z])", said) else said[0]  # q(θ) stays so
    return first + said[1:] + ("" if said[-1] in ".!?:" else ".")


def table(
    caption: Any,
    head: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    *,
    words: Sequence[int] = (0,),
    class_: str | None = None,
    label: str | None = None,
) -> Markup:
    """A table whose first column names the rows; it scrolls by itself where the page is too narrow for it.

    Args:
        caption: what it shows.
        head: a heading for each column.
        rows: cells.
        words: columns that hold words, which stand on the left; figures stand on the right.
        class_: for the look of it.
        label: what a screen reader calls the box that it scrolls in; by default the caption.
    """

    def kind(column: int) -> str | None:
        return None if column in words else "figure-cell"

    heads = [tag("th", tidy(cell), scope="col", class_=kind(k)) for k, cell in enumerate(head)]
    body = [
        tag(
            "tr", *(tag("td" if k else "th", cell, scope=None if k else "row", class_=kind(k)) for k, cell in enumerate(row))
        )
        for row in rows
    ]
    inner = tag("table", tag("caption", tidy(caption)), tag("thead", tag("tr", *heads)), tag("tbody", *body), class_=class_)
    said = label or re.sub("<[^>]*>", "", str(caption))
    said = said if label or not isinstance(caption, Markup) else html.unescape(said)
    return tag("div", inner, class_="scroll", role="region", tabindex="0", aria_label=said)


def facts(pairs: Iterable[tuple[Any, Any]], class_: str = "facts") -> Markup:
    """What is what, as a description list."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_=class_)


def data_block(name: str, value: Any) -> Markup:
    """Data for the page's script: JSON that cannot end its element, and has no NaN."""
    said = json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        said = said.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Markup(said), type="application/json", id=name)
