"""Formulas as MathML: browsers draw it themselves, without a script and without the network."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

FUNCTION = re.compile(r"(<mi>(?:log|exp|sin|cos|max|min|det)</mi>)(?!<mo stretchy=\"false\">&#x00028;)")
BAR = re.compile(r"<mo([^>]*)>(?=&#x(?:0007C|02016);)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Make `mathml` a value of `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def visit_inline(self, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(self, node: nodes.math_block) -> None:
    """A formula on lines of its own; a wide one is scrolled, not the page."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(mathml(node.astext(), "block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def mathml(latex: str, display: str) -> str:
    """A formula, with a little room after names of functions and none around bars."""
    text = FUNCTION.sub(r'\1<mspace width="0.17em"/>', convert(latex, display=display))
    return BAR.sub(r'<mo\1 lspace="0" rspace="0">', text)
