"""Experiments: the runner goes on where it stopped, claims can fail, the command says so."""

import json

import jax.random as jr
import numpy as np
import pytest
from helpers import SHARED, random_walk

import nmax
from nmax import cli
from nmax.experiments import CATALOGUE, Case, Claim, Data, Experiment, Result, _run, run, treasury_bills
from nmax.experiments import _measures as measures

TRUTH = {"level": 2.0, "noise": 1.0}


def little(quick):
    model = random_walk()
    x, y = nmax.simulate(model, TRUTH, 30 if quick else 60, key=jr.key(0))
    rng = np.random.default_rng(0)
    return Data(model, y.astype(float), TRUTH, x, rng.standard_normal((500, 2)))


def experiment(**changes):
    guide = nmax.MovingAverageGuide(layers=1, length=2, width=8, depth=0, radius=1, encoder_depth=1, theta_layers=0)
    case = Case(name="one = 1", data=little, guide=guide, options={"steps": 200, "window": 10, "pretrain": 0}, every=100)
    return Experiment(
        name="little",
        title="A little one",
        cases=(case,),
        claims=(Claim(text="takes a while", measure=measures.seconds("one = 1"), below=1e-6),),
        figures={"trace": lambda results: _figure(results)},
        **changes,
    )


def _figure(results):
    from nmax.experiments import _figures

    figure = _figures.traces("one = 1")(results)
    assert len(results["one = 1"].trace_steps) == 2
    return figure


def test_a_run_is_gone_on_with_and_its_claims_can_fail(tmp_path, monkeypatch):
    said = []
    first = run(experiment(), tmp_path, say=said.append)
    assert not first.holds
    assert first.results["one = 1"].draws.shape == (20_000, 2)
    assert [file.name for file in first.files] == ["claims.md", "trace.png"]
    assert "**fails**" in (tmp_path / "claims.md").read_text()

    monkeypatch.setattr(_run.fitting, "fit", lambda *a, **k: pytest.fail("fitted again"))
    second = run(experiment(), tmp_path, say=said.append)
    assert "done before" in said[-1]
    np.testing.assert_array_equal(second.results["one = 1"].draws, first.results["one = 1"].draws)
    other = experiment()
    changed = Case(name="one = 1", data=little, guide=other.cases[0].guide, options={"steps": 100}, every=100)
    with pytest.raises(pytest.fail.Exception, match="fitted again"):  # other settings, another fit
        run(Experiment(name="x", title="x", cases=(changed,), claims=(), figures={}), tmp_path, say=said.append)


def test_a_fit_that_is_interrupted_is_not_kept(tmp_path, monkeypatch):
    class Interrupted:
        reason = "interrupted after 100 steps"

    monkeypatch.setattr(_run.fitting, "fit", lambda *a, **k: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        run(experiment(), tmp_path, say=str)
    assert not list(tmp_path.glob("*.npz"))


def test_a_figure_that_is_not_a_number_fails_its_claim():
    data = Data(random_walk(), np.zeros((3, 1)), exact=np.random.default_rng(0).standard_normal((50, 2)))
    good, bad = (Result(data, draws, None, 0, None, None, None, {}) for draws in (data.exact, np.full((50, 2), np.nan)))
    claim = Claim(text="near", measure=measures.worst_bias("a", "b"), below=1.0)
    assert _run.judged(claim, {"a": good, "b": good}).holds
    assert _run.judged(claim, {"a": good, "b": bad}).holds is False


def test_a_claim_about_what_is_not_there_is_left_open():
    claim = Claim(text="|bias|", measure=measures.worst_bias("one"), below=1.0)
    nothing = Data(random_walk(), np.zeros((3, 1)))
    draws = np.zeros((10, 2))
    result = Result(
        nothing, draws, None, 0, None, None, None, {"seconds": 1.0, "steps": 1, "elbo": 0.0, "elbo_standard_error": 0.0}
    )
    assert _run.judged(claim, {"one": result}).holds is None
    with pytest.raises(KeyError):  # a misspelt case is a mistake, not an open question
        _run.judged(claim, {})
    table = _run.described(experiment(), {"one": result}, [_run.Verdict(claim, 2.0, False)])
    row = table.splitlines()[-1].replace(r"\|", "")
    assert row.count("|") == 6
    with pytest.raises(ValueError, match="limit that it can fail"):
        Claim(text="empty", measure=measures.seconds("missing"))
    case = experiment().cases[0]
    with pytest.raises(ValueError, match="different names"):
        Experiment(name="x", title="x", cases=(case, case), claims=(), figures={})


def test_steps_to_an_accuracy_are_those_after_which_it_stays(monkeypatch):
    monkeypatch.setattr(measures, "trace_of", lambda result: np.array([0.5, 0.01, 0.2, 0.01, 0.005]))
    result = _run.Result(None, None, None, 0, np.array([1, 2, 3, 4, 5]) * 100, None, None, {})
    assert measures.steps_to(result, 0.02) == 400
    assert measures.steps_to(result, 0.001) == np.inf


def test_the_catalogue_is_consistent():
    for name, one in CATALOGUE.items():
        assert one.name == name
        assert one.claims
        assert one.figures
    assert {"ar1-length", "lv-dense", "fhn", "sv-paper"} <= set(CATALOGUE)


def test_the_command_lists_and_refuses(capsys):
    assert cli.main(["reproduce", "--list"]) == 0
    assert "lv-sparse" in capsys.readouterr().out
    assert cli.main(["reproduce", "nonsense"]) == 2
    assert "the names are ar1-length" in capsys.readouterr().err
    assert cli.main(["reproduce", "sv-code", "--quick"]) == 2
    assert "no shortened form of sv-code" in capsys.readouterr().err


def test_a_run_that_breaks_off_does_not_end_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NMAX_DATA", str(tmp_path))
    monkeypatch.delenv("NMAX_REFERENCE", raising=False)
    assert cli.main(["reproduce", "sv-paper", "--json", "--out", str(tmp_path)]) == 3
    assert "WTB3MS" in json.loads(capsys.readouterr().out)["sv-paper"]["error"]


def test_treasury_bills_are_refused_where_they_are_not(tmp_path, monkeypatch):
    monkeypatch.setenv("NMAX_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="WTB3MS"):
        treasury_bills()
    (tmp_path / "short.txt").write_text("1.0\n2.0\n")
    with pytest.raises(ValueError, match="1,809 rates"):
        treasury_bills(tmp_path / "short.txt")
    long = tmp_path / "treasury_bill_3m_weekly.txt"
    np.savetxt(long, np.arange(1_809.0))
    assert treasury_bills()[0] == 300.0


@pytest.mark.extra
def test_pre_training_at_given_parameters_starts_there():
    y = little(False).y
    settings = experiment().cases[0].guide
    fit = nmax.fit(
        random_walk(),
        y,
        key=jr.key(0),
        guide=settings,
        steps=1,
        pretrain=5,
        pretrain_at={"level": 3.0, "noise": 0.5},
        progress=False,
    )
    assert abs(float(np.median(fit.theta(500, key=jr.key(1))["level"])) - 3.0) < 0.1
    for wrong, message in (({"level": 3.0}, "must name"), ({"level": 3.0, "noise": -0.5}, "inside the support")):
        with pytest.raises(ValueError, match=message):
            nmax.fit(random_walk(), y, key=jr.key(0), guide=settings, pretrain_at=wrong, progress=False)
    with pytest.raises(ValueError, match="finds rival modes by itself"):
        nmax.fit(random_walk(), y, key=jr.key(0), pretrain_at={"level": 3.0, "noise": 0.5}, progress=False)


@pytest.mark.slow
@pytest.mark.stat
@pytest.mark.extra
@pytest.mark.parametrize("name", ["all"])
def test_the_paper_is_reproduced_in_short(name, tmp_path, monkeypatch, capsys):
    """The shortened form of experiments: every claim that speaks of it holds."""
    monkeypatch.setenv("NMAX_REFERENCE", str(SHARED / "reference"))
    monkeypatch.setenv("NMAX_DATA", str(SHARED / "data"))
    code = cli.main(["reproduce", name, "--quick", "--json", "--out", str(tmp_path)])
    report = json.loads(capsys.readouterr().out)
    assert code == 0, report
    assert len(report) >= 3
    assert any(claim["holds"] for one in report.values() for claim in one["claims"])
