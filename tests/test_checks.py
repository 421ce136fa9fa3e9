"""Verdicts: each examination's finding at its limits, a good fit trusted, bad ones not."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest

import nmax
from nmax._evidence import Evidence
from nmax._posterior import Estimate
from nmax._strip import Strip
from nmax.checks import DO_NOT_TRUST, TRUST, TRUST_MEANS, Check, Finding, Residuals
from nmax.checks._path import by_gap, by_strip
from nmax.checks._residuals import by_residuals
from nmax.checks._theta import _judged, by_weights

MODEL = nmax.models.ar1()


@pytest.fixture(scope="module")
def fit():
    _, y = nmax.simulate(MODEL, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 300, key=jr.key(4))
    return nmax.fit(MODEL, y, key=jr.key(0), progress=False)


def levels(findings):
    return {finding.level for finding in findings[0]}


def test_the_verdict_is_the_worst_finding():
    fine, wide, bad = (Finding("a", level, "text", "remedy") for level in (TRUST, TRUST_MEANS, DO_NOT_TRUST))
    assert Check((fine, wide), {}, 0.0).verdict == TRUST_MEANS
    assert Check((fine, bad, wide), {}, 0.0).verdict == DO_NOT_TRUST
    assert Check((), {}, 0.0).verdict == DO_NOT_TRUST  # nothing examined is nothing shown
    check = Check((fine, wide, bad), {}, 0.0)
    assert len(check.reasons) == 2
    assert str(check).startswith("verdict: do not trust")


def test_parameters_by_their_offsets_and_widths():
    labels = ("a", "b")

    def judged(off, ratio):
        return levels((_judged(np.array(off), np.array(ratio), 0.02, 0.02, 0.3, labels, "weights"), {}))

    assert judged([0.1, 0.0], [1.0, 0.95]) == {TRUST}
    assert judged([0.4, 0.0], [1.0, 1.0]) == {DO_NOT_TRUST}
    assert judged([0.0, 0.0], [1.0, 0.6]) == {TRUST_MEANS}
    assert judged([0.0, 0.0], [1.5, 1.0]) == {TRUST_MEANS}
    assert judged([np.nan, 0.0], [1.0, 1.0]) == {DO_NOT_TRUST}
    vague = _judged(np.zeros(2), np.ones(2), 0.2, 0.02, 0.3, labels, "weights")
    assert levels((vague, {})) == {TRUST_MEANS}  # too little to tell is no green light


def test_weights_find_a_narrow_and_a_shifted_q(fit):
    flow = fit.guide.theta_flow
    found = fit.evidence(most=256, key=jr.key(1))
    assert levels(by_weights(fit.guide, found, key=jr.key(2))) == {TRUST}
    head = flow.head
    sd = jnp.sqrt(jnp.diagonal(head.matrix @ head.matrix.T))
    narrow, shifted = dataclasses.replace(head, matrix=0.6 * head.matrix), dataclasses.replace(head, loc=head.loc + 0.6 * sd)
    for head, level in ((narrow, TRUST_MEANS), (shifted, DO_NOT_TRUST)):
        hurt = eqx.tree_at(lambda g: g.theta_flow.head, fit.guide, head)
        result = levels(by_weights(hurt, found, key=jr.key(2)))  # weighted draws of the sound guide stand for the truth
        assert level in result


def test_a_gap_and_bad_windows_are_judged():
    weights = np.zeros(100)
    evidence = Evidence(-100.0, 0.01, 0.1, 100.0, np.zeros((100, 1)), weights, 0.0)
    assert levels(by_gap(Estimate(-100.5, 0.1), evidence, 10)) == {TRUST}
    assert levels(by_gap(Estimate(-120.0, 0.1), evidence, 10)) == {TRUST_MEANS}
    assert levels(by_gap(Estimate(-95.0, 0.1), evidence, 10)) == {DO_NOT_TRUST}
    assert levels(by_gap(Estimate(-np.inf, np.nan), evidence, 10)) == {DO_NOT_TRUST}
    starts = np.arange(1, 6_401, 64)

    def strip(bad):
        effective = np.where(np.arange(100) < bad, 0.05, 0.95)
        return Strip(starts, starts + 64, np.full(100, 0.2), effective, np.zeros(100))

    assert levels(by_strip(strip(0))) == {TRUST}
    assert levels(by_strip(strip(5))) == {TRUST_MEANS}
    assert levels(by_strip(strip(50))) == {DO_NOT_TRUST}


@pytest.mark.stat
def test_forecasts_that_do_not_fit_are_noticed():
    """Four standard errors in five tests: false alarms in 3 of 10,000."""
    rng = np.random.default_rng(0)
    index, uniform = np.arange(1, 1_001), rng.uniform(size=(1_000, 1))
    assert levels(by_residuals(Residuals(index, uniform))) == {TRUST}
    assert levels(by_residuals(Residuals(index, 0.3 + 0.4 * uniform))) == {DO_NOT_TRUST}
    assert levels(by_residuals(Residuals(index, uniform**0.7))) == {DO_NOT_TRUST}
    assert levels(by_residuals(Residuals(index, np.repeat(uniform[:500], 2, axis=0)))) == {DO_NOT_TRUST}
    partly = Residuals(index, np.where(uniform < 0.2, np.nan, uniform), unforeseen=(200,))
    assert TRUST_MEANS in levels(by_residuals(partly))
    assert "for 1000 of 1000 observations" in str(
        by_residuals(Residuals(index, np.full_like(uniform, np.nan), unforeseen=(1000,)))[0]
    )
    few = by_residuals(Residuals(index[:5], uniform[:5]))
    assert "too few" in few[0][0].text


@pytest.mark.slow
def test_a_good_fit_is_trusted_and_says_so_in_its_summary(fit):
    assert "not checked" in str(fit.summary())
    check = fit.check()
    assert check.verdict == TRUST, str(check)
    assert {finding.about for finding in check.findings} == {
        "parameters",
        "bound",
        "path",
        "model",
        "modes",
        "identification",
        "training",
    }
    assert "verdict: trust" in str(fit.summary())


@pytest.mark.extra
def test_a_parameter_that_does_nothing_is_not_trusted():
    prior = {**MODEL.prior, "spare": dist.Normal(0.0, 1.0)}
    model = dataclasses.replace(MODEL, prior=prior)
    truth = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0, "spare": 0.0}
    _, y = nmax.simulate(model, truth, 200, key=jr.key(6))
    with pytest.warns(UserWarning, match="does not use spare"):
        fit = nmax.fit(model, y, key=jr.key(0), progress=False)
    check = fit.check()
    assert check.verdict == DO_NOT_TRUST
    assert any("say nothing about spare" in reason for reason in check.reasons)
    assert fit.check(known=("spare",)).verdict == TRUST


@pytest.mark.extra
def test_a_fit_of_too_few_steps_is_not_trusted():
    _, y = nmax.simulate(MODEL, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 200, key=jr.key(6))
    short = nmax.fit(MODEL, y, key=jr.key(0), guide=nmax.MovingAverageGuide(), steps=50, progress=False)
    assert short.check().verdict == DO_NOT_TRUST
