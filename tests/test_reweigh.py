"""q(θ) moved by weighted draws: back to the posterior from beside it, and left alone where there is nothing to mend."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import nmax
from nmax import reference
from nmax._reweigh import LONGEST, NOTICED, corrected, reweighed

MODEL = nmax.models.ar1()


@pytest.fixture(scope="module")
def fit():
    _, y = nmax.simulate(MODEL, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 150, key=jr.key(4))
    return nmax.fit(MODEL, y, key=jr.key(0), guide=nmax.LookaheadGuide(weighted=1), progress=False)


def beside(guide, shift, width):
    """The guide with q(θ) moved by so many sds along each of its own axes, and so many times as wide."""
    head = guide.theta_flow.head
    moved = head.loc + head.matrix @ jnp.full(len(head.loc), shift)
    hurt = dataclasses.replace(head, loc=moved, matrix=width * head.matrix)
    return eqx.tree_at(lambda g: g.theta_flow.head, guide, hurt)


def drawn(flow):
    return np.asarray(jax.vmap(lambda e: flow(e)[0])(jr.normal(jr.key(1), (20_000, flow.size))), float)


@pytest.mark.stat
@pytest.mark.parametrize(("shift", "width"), [(0.8, 0.75), pytest.param(-0.5, 1.3, marks=pytest.mark.extra)])
def test_it_comes_back_to_the_exact_posterior(fit, shift, width):
    """Two rounds worth 400 each know means to 0.04 sd, widths to 3 %: six errors in six figures, false alarms 1 in 10⁶."""
    exact = reference.ar1_exact(np.asarray(fit.table.y)[:, 0], 20_000, seed=0).theta
    hurt = beside(fit.guide, shift, width)
    assert np.abs(reference.bias_in_sd(drawn(hurt.theta_flow), exact)).max() > 0.4
    found = reweighed(hurt, fit.series, key=jr.key(3))
    mended = drawn(found.flow)
    assert np.abs(reference.bias_in_sd(mended, exact)).max() < 0.25
    assert np.abs(reference.sd_ratio(mended, exact) - 1).max() < 0.18
    assert "q(θ) was moved to weighted draws" in found.notes[0]


def test_it_is_left_alone_where_little_is_missing_or_weights_were_declined(fit):
    outcome, notes = SimpleNamespace(guide=fit.guide), ("a note",)
    for shortfall, weighted, length in [(0.5 * NOTICED, None, 150), (9.0, 1, 150), (9.0, None, LONGEST + 1)]:
        located, settings = SimpleNamespace(shortfall=shortfall), SimpleNamespace(weighted=weighted)
        same = corrected(outcome, notes, located, settings, SimpleNamespace(lengths=(length,)), key=jr.key(0))
        assert same == (outcome, notes)


def test_weights_that_say_nothing_change_nothing(fit, monkeypatch):
    monkeypatch.setattr("nmax._reweigh.ROUGH", 1)
    away = beside(fit.guide, 60.0, 0.1)
    found = reweighed(away, fit.series, key=jr.key(3))
    assert found.flow is away.theta_flow
    assert "too uneven" in found.notes[0]
