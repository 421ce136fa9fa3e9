"""The page around the sections: head, style, navigation, script. It asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from nmax.report._calendar import today
from nmax.report._html import Markup, link, tag
from nmax.report._section import Section


def page(title: str, header: Markup, sections: Sequence[Section]) -> str:
    """All of it as one document."""
    style, script = _resource("page.css"), _resource("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="nmax"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "div",
            _navigation(sections),
            tag(
                "div",
                tag("main", header, *(_section(section) for section in sections), id="content", tabindex="-1"),
                tag("footer", tag("p", f"Written by nmax on {today()}. ", link("top", "Back to the top"))),
            ),
            class_="page",
        ),
        *(section.data for section in sections),
        tag("script", Markup(script)),
        id="top",
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _section(section: Section) -> Markup:
    heading = tag("h2", section.title, id=f"{section.name}-title")
    return tag("section", heading, section.body, id=section.name, aria_labelledby=f"{section.name}-title")


def _navigation(sections: Sequence[Section]) -> Markup:
    items = [tag("li", link(section.name, section.title)) for section in sections]
    return tag("nav", tag("ul", *items), aria_label="On this page")


def _policy(script: str) -> str:
    """Nothing from anywhere: styles of the page itself, and just this one script, known by its hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _resource(name: str) -> str:
    return files("nmax.report").joinpath(name).read_text(encoding="utf-8")
