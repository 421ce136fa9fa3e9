"""The head of the page: what was fitted to what, in a sentence and in figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmax._draws import Draws
from nmax._posterior import Estimate
from nmax.guides import LookaheadSampler
from nmax.report._convergence_section import said_elbo
from nmax.report._html import Markup, facts, joined, tag
from nmax.report._numbers import count, duration, listed, plural, small_percent
from nmax.report._subject import Subject


def title_of(subject: Subject) -> str:
    """What the page is called."""
    names = list(subject.model.parameters.distributions)
    return f"Posterior of {listed(names, most=4)}"


def header(subject: Subject, elbo: Estimate | None) -> Markup:
    """Title, a sentence, and the figures."""
    return tag(
        "header",
        tag("p", "nmax report", class_="kicker"),
        tag("h1", title_of(subject)),
        tag("p", _sentence(subject), class_="standfirst"),
        facts(_facts(subject, elbo)),
    )


def _sentence(subject: Subject) -> str:
    model, table = subject.model, subject.table
    entries = int(sum(np.prod(d.batch_shape + d.event_shape, dtype=int) for d in model.parameters.distributions.values()))
    kind = "A stochastic differential equation" if hasattr(model, "drift") else "A state space model"
    states = plural(model.state_size, "state component")
    columns = listed(list(table.columns), most=4)
    how = "sampled exactly given" if isinstance(subject.posterior, Draws) else "fitted to"
    return (
        f"{kind} with {plural(entries, 'parameter')} and {states}, {how} {plural(subject.rows, 'row')} of {columns} "
        f"in {duration(subject.posterior.seconds)}."
    )


def _facts(subject: Subject, elbo: Estimate | None) -> list[tuple[str, Any]]:
    table, times = subject.table, subject.times
    out: list[tuple[str, Any]] = [
        ("Parameters", listed(list(subject.model.parameters.distributions), most=8)),
        ("States", listed(list(subject.model.state_names), most=8)),
        ("Columns", listed(list(table.columns), most=8)),
        ("Steps T", count(subject.rows - 1)),
        ("Missing", _missing(subject)),
    ]
    if table.input_columns:
        out.append(("Inputs", listed(list(table.input_columns), most=8)))
    if table.times is not None:
        out.append(("Times", f"{times.said(0)} to {times.said(subject.rows - 1)}, every {times.spacing()}"))
    out.append(("Guide", _guide(subject)))
    if elbo is not None:
        out.append(("ELBO", said_elbo(elbo)))
    out.append(("Seconds", duration(subject.posterior.seconds)))
    return out


def _missing(subject: Subject) -> str:
    rows, entries = 1.0 - subject.seen.rows, 1.0 - subject.seen.entries
    if entries == 0:
        return "nothing"
    if len(subject.table.columns) == 1 or rows == entries:
        return f"{small_percent(rows)} of the rows"
    return f"{small_percent(entries)} of the entries, {small_percent(rows)} of the rows"


def _guide(subject: Subject) -> Markup:
    posterior = subject.posterior
    if isinstance(posterior, Draws):
        return joined("NUTS in the noise of a look-ahead")
    guide = posterior.guide
    if not isinstance(guide, LookaheadSampler):
        return joined("neural moving average")
    layers = len(guide.layers.flows)
    blocks = "" if guide.block > posterior.series.length else f", blocks of {count(guide.block)}"
    return joined("look-ahead", blocks, f", {plural(layers, 'layer')}" if layers else "")
