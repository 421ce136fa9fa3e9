"""A section of the page."""

from __future__ import annotations

from typing import NamedTuple

from nmax.report._html import Markup


class Section(NamedTuple):
    """What a section is called in links, what stands above it, what it says, and what it leaves for the script."""

    name: str
    title: str
    body: Markup
    data: Markup = Markup("")
