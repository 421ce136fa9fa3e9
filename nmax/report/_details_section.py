"""The section on details: notes, rival modes, settings, versions, and how to do it again."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from nmax._posterior import Posterior
from nmax._summary import entries
from nmax.report._html import Markup, bullets, facts, joined, paragraphs, sentence, table, tag
from nmax.report._numbers import listed, number, percent
from nmax.report._section import Section
from nmax.report._subject import Subject

PACKAGES = ("nmax", "jax", "jaxlib", "numpyro", "equinox", "flowjax", "optax", "blackjax", "numpy", "scipy")
MOST_RIVALS, MOST_SETTINGS = 20, 200


def details_section(subject: Subject, settings: Mapping[str, Any] | None, reproduce: str | None) -> Section:
    """All that is needed to judge the page, and to make it again."""
    posterior = subject.posterior
    notes = list(dict.fromkeys([*subject.table.notes, *posterior.notes]))  # a fit's own begin with those of the table
    body = joined(
        _titled("Notes", bullets(map(sentence, notes))) if notes else None,
        _rivals(posterior) if isinstance(posterior, Posterior) else None,
        _titled("How to do it again", tag("pre", tag("code", reproduce), tabindex="0")) if reproduce else None,
        _settings(posterior, settings),
        _titled("Versions", facts(versions(), "facts compact")),
    )
    return Section("details", "Details", body)


def _titled(title: str, body: Markup) -> Markup:
    return joined(tag("h3", title), body)


def _rivals(fit: Posterior) -> Markup | None:
    """Modes that were found and not taken."""
    if len(fit.modes) < 2:
        return None
    best, prior = fit.modes[0], fit.model.parameters
    rows, labels = [], []
    for place, mode in enumerate(fit.modes[: MOST_RIVALS + 1]):
        theta = prior.constrain(jnp.asarray(mode.theta, jnp.float32))
        values = entries({name: np.asarray(theta[name])[None] for name in prior.distributions})
        labels = list(values)
        has = np.isfinite(mode.elbo) and np.isfinite(best.elbo)
        below = best.elbo - mode.elbo if has else best.log_evidence - mode.log_evidence
        share = percent(float(np.exp(-max(below, 0.0))), 2) if place else "–"
        by_elbo = number(best.elbo - mode.elbo, 3) if has and place else "–"
        by_laplace = number(best.log_evidence - mode.log_evidence, 3) if place else "–"
        rows.append(
            ["taken" if not place else f"rival {place}", *(number(float(v[0]), 4) for v in values.values())]
            + [by_laplace, by_elbo, share]
        )
    head = ["Mode", *labels, "Nats less by Laplace", "by the ELBO", "Share of the mass of the one taken"]
    return _titled("Rival modes", table("Modes of the posterior that several starts led to.", head, rows))


def _settings(posterior: Any, settings: Mapping[str, Any] | None) -> Markup | None:
    given = dict(settings or {})
    own = getattr(posterior, "settings", None)
    if settings is None and own is not None:
        given = own.described()
    pairs = list(flattened(given))
    if not pairs:
        return None
    chosen = [pair for pair in pairs if pair[1] is not None][:MOST_SETTINGS]
    open_ = [name for name, value in pairs if value is None]
    said = paragraphs(f"Left for the fit to choose: {listed(open_, most=20)}." if open_ else None, class_="small")
    return _titled("Settings", joined(facts(chosen, "facts compact"), said))


def flattened(settings: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, str | None]]:
    """Nested settings one by one, as guide.layers; None where nothing was set."""
    for name, value in settings.items():
        label = f"{before}{name}"
        if isinstance(value, Mapping):
            yield from flattened(value, f"{label}.")
        else:
            yield label, None if value is None else str(value)


def versions() -> list[tuple[str, str]]:
    """Of this library, of those it stands on, and of Python."""
    rows = []
    for name in PACKAGES:
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return [*rows, ("Python", platform.python_version())]
