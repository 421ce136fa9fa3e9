"""The runner: fits that are missing, then claims, figures and a table."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import nmax._fit as fitting
from nmax.experiments._declare import Case, Claim, Data, Experiment, NothingToCompare, Result, Results, Verdict
from nmax.experiments._figures import pyplot, saved
from nmax.experiments._measures import CLOSE, seconds_to
from nmax.guides import Guide

DRAWS, TRACED, PATHS = 20_000, 1_000, 100


class Outcome(NamedTuple):
    """What a run of an experiment came to: results by case, verdicts by claim, files written."""

    results: Results
    verdicts: list[Verdict]
    files: list[Path]

    @property
    def holds(self) -> bool:
        """Whether no claim failed."""
        return all(verdict.holds is not False for verdict in self.verdicts)


def run(experiment: Experiment, out: Path, *, quick: bool = False, say: Callable[[str], object] = print) -> Outcome:
    """Run an experiment into a folder, going on where an earlier run was stopped.

    A case that is finished, with the settings it has now, is read from its file and not fitted again.

    Args:
        experiment: the declaration.
        out: the folder; made if it is not there.
        quick: whether to run the shortened form.
        say: takes a line about what is being done.
    """
    if not quick:
        pyplot()  # before any work: what draws the figures must be there
    out.mkdir(parents=True, exist_ok=True)
    cases = [case for case in experiment.cases if not quick or case.quick is not None]
    made = {source: source(quick) for source in dict.fromkeys(case.data for case in cases)}  # all, before the first fit
    results = {case.name: _done(case, made[case.data], out, quick, say) for case in cases}
    verdicts = [judged(claim, results) for claim in experiment.claims if (claim.quick if quick else claim.full)]
    table = out / "claims.md"
    table.write_text(described(experiment, results, verdicts), encoding="utf-8")
    files = [saved(figure, results, out / f"{name}.png") for name, figure in experiment.figures.items()] if not quick else []
    return Outcome(results, verdicts, [table, *files])


def judged(claim: Claim, results: Results) -> Verdict:
    """A claim held against the results: no infinite figure holds, and where there is nothing to compare with it is open."""
    try:
        value = claim.measure(results)
    except NothingToCompare:
        return Verdict(claim, float("nan"), None)
    return Verdict(claim, value, bool(np.isfinite(value) and claim.above <= value <= claim.below))


def described(experiment: Experiment, results: Results, verdicts: list[Verdict]) -> str:
    """The experiment in Markdown: fits, then claims."""
    lines = [
        f"# {experiment.title}",
        "",
        f"| fit | seconds | steps | ELBO, nats | seconds to MMD² ≤ {CLOSE:g} |",
        "|---|---|---|---|---|",
    ]
    for name, result in results.items():
        facts, needed = result.facts, seconds_to(result, CLOSE)
        elbo = f"{facts['elbo']:.1f} ± {facts['elbo_standard_error']:.1f}"
        there = "" if np.isnan(needed) else f"{needed:.0f}" if np.isfinite(needed) else "never"
        lines.append(f"| {name} | {facts['seconds']:.0f} | {facts['steps']:,} | {elbo} | {there} |")
    notes = [f"- {name}: {note}" for name, result in results.items() for note in result.facts.get("notes", ())]
    lines += ["", *notes] if notes else []
    if experiment.paper_minutes is not None:
        lines += ["", f"The paper: about {experiment.paper_minutes:g} minutes a fit on a Titan XP."]
    lines += ["", "| claim | by | measured | limit | |", "|---|---|---|---|---|"]
    for claim, value, holds in verdicts:
        limits = [f"≤ {claim.below:g}"] * bool(np.isfinite(claim.below)) + [f"≥ {claim.above:g}"] * bool(
            np.isfinite(claim.above)
        )
        verdict = {True: "holds", False: "**fails**", None: "nothing to compare with"}[holds]
        text = claim.text.replace("|", r"\|")  # else it would end the cell
        lines.append(f"| {text} | {claim.source} | {value:.3g} | {' and '.join(limits)} | {verdict} |")
    return "\n".join([*lines, ""])


def _done(case: Case, data: Data, out: Path, quick: bool, say: Callable[[str], object]) -> Result:
    settings = _settings(case, data, quick)
    file = out / f"{case.name.replace(' ', '_').replace('=', '')}.npz"
    if file.exists():
        kept = _read(file, data)
        if kept.facts["settings"] == settings:
            say(f"{case.name}: done before, {kept.facts['seconds']:.0f} s, by nmax {kept.facts['version']}")
            return kept
    say(f"{case.name}: T = {len(data.y) - 1:,} …")
    result = _fitted(case, data, quick, settings)
    _write(file, result)
    jax.clear_caches()  # compiled programs of one case are of no use to the next, and there may be dozens
    say(f"{case.name}: {result.facts['seconds']:.0f} s, {result.facts['reason']}")
    return result


def _settings(case: Case, data: Data, quick: bool) -> dict[str, Any]:
    """What a result is kept with: it is fitted again if any of this has changed.

    The code of the library is not among it; a result made by another version is told by its `version`.
    """
    asked = _options(case, quick)
    guide = asked.pop("guide")
    options = {key: repr(value) for key, value in asked.items()}
    checksum = hashlib.sha256(np.ascontiguousarray(data.y, np.float64).tobytes()).hexdigest()
    settings = {
        "guide": {"kind": type(guide).__name__, **dataclasses.asdict(guide)},
        "options": options,
        "seed": case.seed,
        "series": checksum,
        "prior": np.round(data.model.parameters.sample(jr.key(0), 3), 4).tolist(),  # priors have no other name
        "stretch": case.stretch,
        "every": case.every,
        "kept": (DRAWS, TRACED, PATHS),
    }
    return json.loads(json.dumps(settings, default=repr))


def _options(case: Case, quick: bool) -> dict[str, Any]:
    """Arguments of the fit."""
    return {"guide": case.guide, **case.options, **((case.quick or {}) if quick else {})}


class _Trace:
    """Draws of θ along the way; the time it takes is not counted."""

    def __init__(self, every: int):
        self.every, self.begun, self.lost = every, time.perf_counter(), 0.0
        self.steps, self.seconds, self.draws = [], [], []

    def __call__(self, steps: int, guide: Guide) -> None:
        if steps % self.every:
            return
        paused = time.perf_counter()
        self.steps.append(steps)
        self.seconds.append(paused - self.begun - self.lost)
        e = jr.normal(jr.key(9), (TRACED, guide.theta_flow.size))
        self.draws.append(np.asarray(jax.vmap(lambda noise: guide.theta(noise)[0])(e), np.float32))
        self.lost += time.perf_counter() - paused


def _fitted(case: Case, data: Data, quick: bool, settings: dict[str, Any]) -> Result:
    trace = _Trace(min(case.every, 100) if quick else case.every)
    fit = fitting.fit(data.model, data.y, key=jr.key(case.seed), progress=False, watch=trace, **_options(case, quick))
    if fit.reason.startswith("interrupted"):  # what is not finished is not kept as if it were
        raise KeyboardInterrupt
    theta = {name: jnp.asarray(value) for name, value in fit.theta(DRAWS, key=jr.key(1)).items()}
    draws = np.asarray(jax.vmap(data.model.parameters.unconstrain)(theta), np.float32)
    start, stop = min(case.stretch[0], len(data.y) - 1), min(case.stretch[1], len(data.y))
    elbo = fit.elbo(key=jr.key(2))
    facts = {
        "seconds": fit.seconds - trace.lost,
        "steps": fit.steps,
        "reason": fit.reason,
        "elbo": elbo.mean,
        "elbo_standard_error": elbo.standard_error,
        "notes": list(fit.notes),
        "version": version("nmax"),
        "settings": settings,
    }
    traced = (np.array(trace.steps), np.array(trace.seconds), np.array(trace.draws).reshape(-1, TRACED, draws.shape[1]))
    states = (start, start + 1) if quick else (start, stop)  # no figures are drawn of the shortened form
    paths = fit.path(2 if quick else PATHS, start=states[0], stop=states[1], key=jr.key(3))
    return Result(data, draws, paths, start, *traced, facts)


def _write(file: Path, result: Result) -> None:
    """All at once, so that a run that is stopped leaves no half of a file."""
    arrays = {name: value for name, value in result._asdict().items() if name not in ("data", "facts")}
    partial = file.with_suffix(".partial.npz")
    np.savez(partial, facts=json.dumps(result.facts), **arrays)
    partial.replace(file)


def _read(file: Path, data: Data) -> Result:
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if name not in ("facts", "start")}
        return Result(data=data, start=int(stored["start"]), facts=json.loads(str(stored["facts"])), **arrays)
