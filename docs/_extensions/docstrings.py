"""Docstrings are written for people in an editor: `code` in single backticks, formulas in dollars. Sphinx reads none."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import nmax

MARKED = re.compile(r"\$\$(?P<block>[^$]+)\$\$|\$(?P<formula>[^$]+)\$|`(?P<code>[^`]+)`")
NAMES = {f"nmax.{name}" for name in vars(nmax) if not name.startswith("_")}
PACKAGES = ("nmax", "nmax.models", "nmax.features", "nmax.flows", "nmax.data", "nmax.reference")

PROPERTIES: dict[str, list[str]] = {}  # name -> docstring, while it is being read

# what annotations are spelt out to, and what a reader would rather see
KEY = re.compile(r"~jaxtyping\.Key\[[^]]*\] \| ~jaxtyping\.UInt32\[[^]]*\] \| ~jaxtyping\.UInt32\[[^]]*\]")
SPELLINGS = (
    (KEY, "~jaxtyping.PRNGKeyArray"),
    (re.compile(r"~?jax\.jaxlib\._jax\.Array|~?jaxlib\._jax\.Array"), "~jax.Array"),
    (re.compile(r"(?<=\w): ~typing\.Any(?=[,) ])"), ""),
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for docstrings, signatures, and references that lead nowhere."""
    app.connect("autodoc-process-docstring", as_restructured_text, priority=1)  # before napoleon, which knows no dollars
    app.connect("autodoc-process-docstring", as_it_was, priority=900)  # after napoleon
    app.connect("autodoc-process-signature", as_people_write_it)
    app.connect("missing-reference", by_public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def as_restructured_text(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines in place. What is named in full becomes a link, `nmax.fit` say."""
    del app, obj, options
    lines[:] = MARKED.sub(_marked, "\n".join(lines)).split("\n")
    if what == "property":
        PROPERTIES[name] = list(lines)


def as_it_was(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon in the first line of a property's docstring for its type; it is not."""
    del app, obj, options
    if what == "property":
        lines[:] = PROPERTIES[name]


def as_people_write_it(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shorten annotations. The fields of a settings class are explained below it, with what they may be."""
    del app, name, options
    if what == "class" and isinstance(obj, type) and dataclasses.is_dataclass(obj) and signature != "()":
        return str(_without_annotations(inspect.signature(obj))), None
    for pattern, text in SPELLINGS:
        signature = signature and pattern.sub(text, signature)
        returned = returned and pattern.sub(text, returned)
    return signature, returned


def by_public_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    """An annotation names the private module that a class is written in; the reference has it under its public name."""
    target = str(node.get("reftarget", ""))
    for public in _candidates(target.rpartition(".")[2]):
        if public != target and public in env.domains.python_domain.objects:
            return env.domains.python_domain.resolve_xref(
                env, node.get("refdoc", ""), app.builder, "obj", public, node, content
            )
    return None


def _candidates(short: str) -> Iterable[str]:
    return (f"{package}.{short}" for package in PACKAGES)


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    parameters = []
    for parameter in signature.parameters.values():
        made_anew = "<factory>" in repr(parameter.default)
        default = _Ellipsis() if made_anew else parameter.default
        parameters.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    return inspect.Signature(parameters)


class _Ellipsis:
    """A default that is made anew each time."""

    def __repr__(self) -> str:
        return "..."


def _marked(found: re.Match[str]) -> str:
    if found["block"]:
        return f"\n.. math:: {' '.join(found['block'].split())}\n"
    if found["formula"]:
        return f":math:`{' '.join(found['formula'].split())}`"
    code = " ".join(found["code"].split())
    return f":py:obj:`{code}`" if code in NAMES else f"``{code}``"
