"""The section on the verdict: whether to trust the fit, why, and what to do."""

from __future__ import annotations

import math

import numpy as np

from nmax._draws import LEAST, Draws
from nmax._posterior import Posterior
from nmax.checks import DO_NOT_TRUST, TRUST, TRUST_MEANS, Check, Finding
from nmax.report._html import Markup, bullets, joined, paragraphs, sentence, tag
from nmax.report._numbers import count, duration, fixed, listed, plural
from nmax.report._section import Section
from nmax.report._subject import Subject

LOOKS = {TRUST: "good", TRUST_MEANS: "doubt", DO_NOT_TRUST: "bad"}
WORDS = {TRUST: "Trust it", TRUST_MEANS: "Trust the means, not the widths", DO_NOT_TRUST: "Do not trust it"}
SIGNS = {TRUST: "holds", TRUST_MEANS: "widths in doubt", DO_NOT_TRUST: "fails"}


def verdict_section(subject: Subject) -> Section:
    """One verdict, its reasons and remedies."""
    posterior = subject.posterior
    if isinstance(posterior, Draws):
        body = _of_chains(posterior)
    else:
        body = _unchecked(posterior) if posterior.checked is None else _of_check(posterior.checked)
    return Section("verdict", "Can it be trusted?", body)


def _of_check(check: Check) -> Markup:
    worst = check.verdict
    against = sorted((f for f in check.findings if f.level != TRUST), key=lambda f: f.level != DO_NOT_TRUST)
    fine = [f for f in check.findings if f.level == TRUST]
    lead = f"None of {plural(len(check.findings), 'examination')}, which took {duration(check.seconds)}, speaks against it."
    if against:
        what = listed([finding.about for finding in against])
        speak = "speaks" if len(against) == 1 else "speak"
        lead = (
            f"{count(len(against))} of {plural(len(check.findings), 'examination')} {speak} against relying on it: {what}."
        )
    return joined(_box(WORDS[worst], LOOKS[worst], lead), *(_finding(f) for f in (*against, *fine)))


def _finding(finding: Finding) -> Markup:
    look = LOOKS[finding.level]
    return tag(
        "div",
        tag("h3", sentence(finding.about).rstrip("."), tag("span", SIGNS[finding.level], class_=f"sign {look}")),
        paragraphs(sentence(finding.text)),
        tag("p", tag("b", "What to do. "), sentence(finding.remedy), class_="remedy") if finding.remedy else None,
        class_="finding",
    )


def _unchecked(fit: Posterior) -> Markup:
    lead = "This fit has not been checked, so nothing here says whether it can be relied on."
    how = joined(
        "Run ",
        tag("code", "fit.check()"),
        f", which takes about as long as the fit ({duration(fit.seconds)}), and write this page again. It weighs draws of "
        "the parameters and the path against the exact posterior, holds forecasts against observations, and looks for rival "
        "modes.",
    )
    return joined(_box("Not checked", "doubt", lead), paragraphs(how))


def _of_chains(draws: Draws) -> Markup:
    warnings = draws.warnings()
    worst = max(draws.mixing.values(), key=lambda one: np.nan_to_num(one.rhat, nan=np.inf))
    fewest = min((min(one.bulk, one.tail) for one in draws.mixing.values()), default=math.nan)
    lead = (
        f"Draws from the exact posterior, as far as the chains have mixed: R-hat is at most {fixed(worst.rhat, 3)} "
        f"(it should be at most {fixed(worst.limit, 3)}), every parameter has at least "
        f"{count(round(fewest)) if math.isfinite(fewest) else '–'} effective draws (at least {LEAST}), and "
        f"{plural(draws.divergences, 'trajectory', 'trajectories')} diverged."
    )
    if warnings:
        return joined(_box("Do not rely on these draws yet", "bad", lead), bullets(map(sentence, warnings)))
    return _box("The chains have mixed", "good", lead)


def _box(words: str, look: str, lead: str) -> Markup:
    return tag("div", tag("p", words, class_="verdict-words"), tag("p", lead), class_=f"verdict {look}")
