"""The report: pages that are whole and safe whatever they are about, figures that lose nothing, numbers that are right."""

import base64
import copy
import dataclasses
import hashlib
import json
import math
import re

import jax
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from report_pages import EVIL, Reader, strange_posterior, untrained

import nmax
from nmax.checks import DO_NOT_TRUST, TRUST, Check, Finding
from nmax.data import _source_rows
from nmax.report import _bands, _stretches, _subject, _write
from nmax.report._bands import Painter, points
from nmax.report._density import marginals, smooth
from nmax.report._details_section import details_section
from nmax.report._parameters_section import parameters_section, prior_name
from nmax.report._path_section import path_section
from nmax.report._prediction_section import autocorrelation, prediction_section
from nmax.report._seen import Gap, seen
from nmax.report._stretches import places
from nmax.report._subject import Subject
from nmax.report._verdict import verdict_section

MODEL = nmax.models.ar1()
TRUTH = {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}


@pytest.fixture(scope="module", autouse=True)
def compile_quickly_for_the_module():
    """Fixtures of the module compile before any test begins."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def fit():
    _, y = nmax.simulate(MODEL, TRUTH, 300, key=jr.key(4))
    y[100:130] = np.nan
    return nmax.fit(MODEL, y, key=jr.key(0), guide=nmax.LookaheadGuide(layers=0, weighted=1, starts=1), progress=False)


@pytest.fixture(scope="module")
def page(fit, tmp_path_factory):
    """The page of a real fit, with a forecast."""
    file = tmp_path_factory.mktemp("report") / "page.html"
    forecast = fit.forecast(12, 60, key=jr.key(3))
    assert nmax.report.write(fit, file, forecast=forecast, reproduce="y = x < 3\nfit(y)", settings={"a": {"b": 1}}) == file
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """The page of a posterior with everything that is odd, without the strip and the ELBO, which take long to compile."""
    file = tmp_path_factory.mktemp("report") / "strange.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subject, "strip", lambda self: None)
        patch.setattr(_write, "_elbo", lambda subject: nmax.Estimate(-1.0, 0.1))
        return nmax.report.write(strange_posterior(), file).read_text(encoding="utf-8")


def check_whole(text):
    """What every page must be."""
    reader = Reader(text)
    assert len(set(reader.ids)) == len(reader.ids)
    inner = [link[1:] for link in reader.links if link.startswith("#")]
    assert set(inner) <= set(reader.ids)
    assert all(link.startswith(("#", "data:")) for link in reader.links)
    assert not re.search(r"(?:src|href|action|url|import)\s*[=(:]?\s*[\"'(]?\s*(?:https?:)?//", text)
    assert "script" not in {tag for tag in reader.tags if tag not in ("script",)}
    assert reader.tags.count("script") == 2
    for tag, given in reader.attributes:
        assert not any(name.startswith("on") for name in given), f"a handler on {tag}"
        if tag == "path":
            assert re.fullmatch(r"[MLHVZhv0-9 .\-]+", given["d"]), given["d"][:80]
        if tag == "svg":
            assert given["role"] == "img"
            assert given["aria-label"]
        if tag == "th":
            assert given["scope"] in ("col", "row")
    for figure in re.findall(r"<figure.*?</figure>", text, re.S):
        assert figure.count("<figcaption>") == 1
    (block,) = reader.blocks["application/json"]
    json.loads(block, parse_constant=lambda word: pytest.fail(f"{word} in the data"))
    (script,) = reader.blocks["script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [
        given["content"] for tag, given in reader.attributes if given.get("http-equiv") == "Content-Security-Policy"
    ]
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    return reader


def unpacked(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_the_page_of_a_fit_is_whole(page):
    reader = check_whole(page)
    assert len(page.encode()) < 400_000
    for name in ("verdict", "convergence", "parameters", "path", "predictions", "forecast", "details"):
        assert name in reader.ids
        assert f"#{name}" in reader.links
    assert reader.tags.count("h1") == reader.tags.count("main") == reader.tags.count("nav") == 1
    for said in ("Not checked", "fit.check()", "intercept", "Normal(0, 10)", "y = x < 3", "a.b", "numpyro", "30 rows"):
        assert said in reader.text, said
    assert "nan" not in reader.text.lower().split()


def test_the_data_of_the_page_are_those_of_the_series(page, fit):
    (block,) = Reader(page).blocks["application/json"]
    data = json.loads(block)
    assert data["rows"] == 301
    assert data["names"] == ["x"]
    assert data["whole"]["width"] == 1
    panel = data["whole"]["panels"][0]
    assert_array_equal(unpacked(panel["seenLow"]), fit.table.y[:, 0].astype("f4"))
    low, middle, high = (unpacked(panel[name]) for name in ("low", "middleLow", "high"))
    assert np.all(low <= middle)
    assert np.all(middle <= high)
    assert np.ptp((high - low)[105:125]) < np.mean((high - low)[105:125])
    assert np.mean((high - low)[105:125]) > 1.5 * np.mean((high - low)[10:90])  # nothing was observed there
    assert data["gaps"] == [[100, 130]]


@pytest.mark.extra
def test_a_page_about_everything_that_is_odd_is_whole_and_safe(strange):
    reader = check_whole(strange)
    assert EVIL not in strange
    assert EVIL in reader.text  # as words
    for said in ("20 Feb 2020", "weights & more[1]", "shares[x][2]", "every day", "A note.", "Inputs", "without error"):
        assert said in reader.text, said
    assert "\x00" not in strange
    (block,) = reader.blocks["application/json"]
    data = json.loads(block)
    assert data["time"]["kind"] == "date"
    assert data["exact"] == [True, False, False]
    assert len(data["names"]) == 3  # the second column shows the speed; the third, its exponential, has a panel of its own
    assert "low" in data["whole"]["panels"][2]
    exact = unpacked(data["whole"]["panels"][0]["high"]) - unpacked(data["whole"]["panels"][0]["low"])
    assert np.all(exact[:20] == 0)
    assert np.all(exact[20:30] > 0)


@pytest.mark.extra
def test_the_shortest_series_has_a_page(tmp_path):
    model = nmax.StateSpaceModel(
        prior={"level": dist.Normal(0.0, 1.0)},
        initial=lambda theta: theta["level"][None],
        transition=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
        observation=lambda x, theta: dist.Normal(x, 1.0).to_event(1),
    )
    file = nmax.report.write(untrained(model, np.array([0.5, np.nan])), tmp_path / "short.html")
    reader = check_whole(file.read_text(encoding="utf-8"))
    assert "too few" in reader.text


@pytest.mark.extra
def test_draws_of_chains_have_a_page(fit, tmp_path):
    draws = nmax.sample(MODEL, fit.table.y, fit=fit, draws=25, chains=2, warmup=25, key=jr.key(1), progress=False)
    reader = check_whole(nmax.report.write(draws, tmp_path / "draws.html").read_text(encoding="utf-8"))
    for said in ("R-hat", "ESS bulk", "Do not rely on these draws yet", "sampled exactly"):
        assert said in reader.text, said
    assert "ELBO" not in reader.text


def test_the_verdict_with_its_reasons_and_remedies(fit):
    checked = copy.copy(fit)
    found = (Finding("path", TRUST, "all is well"), Finding("model", DO_NOT_TRUST, "it is <b>bad</b>", "Change it"))
    checked.checked = Check(found, {}, 3.0)
    body = verdict_section(Subject(checked, jr.key(0))).body
    assert "Do not trust it" in body
    assert "It is &lt;b&gt;bad&lt;/b&gt;." in body
    assert body.index("Change it.") < body.index("All is well.")  # what speaks against it comes first
    checked.checked = Check(found[:1], {}, 3.0)
    assert "Trust it" in verdict_section(Subject(checked, jr.key(0))).body


@pytest.mark.extra
def test_the_same_key_gives_the_same_page(page, fit, tmp_path):
    forecast = fit.forecast(12, 60, key=jr.key(3))
    options = {"forecast": forecast, "reproduce": "y = x < 3\nfit(y)", "settings": {"a": {"b": 1}}}
    again = nmax.report.write(fit, tmp_path / "again.html", **options)
    assert again.read_text(encoding="utf-8") == page
    assert sorted(tmp_path.iterdir()) == [again]  # nothing half written is left behind


def test_bad_input_is_refused_before_any_work(fit, tmp_path):
    file = tmp_path / "page.html"
    with pytest.raises(TypeError, match="`posterior` must be what nmax.fit"):
        nmax.report.write(3, file)
    with pytest.raises(ValueError, match="lies in a folder that does not exist"):
        nmax.report.write(fit, tmp_path / "nowhere" / "page.html")
    with pytest.raises(ValueError, match="is a folder"):
        nmax.report.write(fit, tmp_path)
    with pytest.raises(TypeError, match="`file` must be the path"):
        nmax.report.write(fit, 3)
    with pytest.raises(TypeError, match="`forecast` must be what posterior.forecast"):
        nmax.report.write(fit, file, forecast=3)
    other = dataclasses.replace(fit.forecast(2, 3, key=jr.key(0)), columns=("z",))
    with pytest.raises(ValueError, match="of the same model and data"):
        nmax.report.write(fit, file, forecast=other)
    with pytest.raises(TypeError, match="`settings` must be a mapping"):
        nmax.report.write(fit, file, settings=3)
    with pytest.raises(TypeError, match="Did you mean `settings`"):
        nmax.report.write(fit, file, setings={})
    assert not file.exists()


def test_bands_of_bins_have_the_reach_of_their_rows(fit, monkeypatch):
    painter = Painter(Subject(fit, jr.key(0)))
    fine = painter.whole()
    monkeypatch.setattr(_bands, "VALUES", 500)
    monkeypatch.setattr(_bands, "CHUNK", 100)  # no multiple of the bins' width
    coarse = painter.whole()
    assert coarse.width == 5  # 301 rows with 7 numbers each, and at most 500 numbers
    for name in ("band", "middle", "observed"):
        rows, bins = getattr(fine, name), getattr(coarse, name)
        for k in range(len(bins.low)):
            part = slice(k * coarse.width, (k + 1) * coarse.width)
            assert bins.low[k, 0] == np.fmin.reduce(rows.low[part, 0]) or np.isnan(rows.low[part, 0]).all()
            assert bins.high[k, 0] == np.fmax.reduce(rows.high[part, 0]) or np.isnan(rows.high[part, 0]).all()


def test_bands_of_a_very_long_series_are_on_stretches_and_the_page_says_so(fit, monkeypatch):
    for name, value in {"VALUES": 500, "VERY_LONG": 200, "PIECE": 8, "PIECES": 10, "LONG": 100}.items():
        monkeypatch.setattr(_bands, name, value)
    monkeypatch.setattr(_stretches, "LENGTH", 40)
    section = path_section(Painter(Subject(fit, jr.key(0))))
    words = Reader(str(section.body)).text
    assert "on stretches of 8 rows spread evenly over the series only" in words
    for said in ("The beginning", "The longest gap", "The end", "90 % bands of 195 draws", "90 % of 39 draws"):
        assert said in words, said
    data = json.loads(Reader(str(section.data)).blocks["application/json"][0])
    drawn = np.isfinite(unpacked(data["whole"]["panels"][0]["low"]))
    assert 0.2 < drawn.mean() < 0.9
    assert np.isfinite(unpacked(data["whole"]["panels"][0]["seenLow"])).mean() > 0.85  # of the data nothing is left out
    assert [place["name"] for place in data["places"]] == ["The beginning", "The longest gap", "The end"]
    assert [detail["width"] for detail in data["details"]] == [1, 1, 1]


def test_points_of_draws_are_draws():
    low, middle, high = points(np.random.default_rng(0).permutation(39.0 + np.arange(39))[:, None, None])
    assert (low.item(), middle.item(), high.item()) == (40.0, 58.0, 76.0)  # the 2nd, 20th and 38th of 39
    assert np.isnan(points(np.array([np.nan, *range(38)])[:, None, None])[0]).all()


def test_a_density_on_the_log_scale_is_that_of_the_draws():
    scores = np.sort(np.random.default_rng(0).normal(size=200_000))
    model = nmax.StateSpaceModel({"s": dist.LogNormal(1.0, 2.0)}, *[lambda *a: None] * 2)
    (one,) = marginals(model.parameters, {"s": np.exp(0.5 + 0.2 * scores)})
    right = np.exp(np.asarray(dist.LogNormal(0.5, 0.2).log_prob(one.grid)))
    assert_allclose(one.density, right, atol=0.03 * right.max())
    assert_allclose(one.prior, np.exp(np.asarray(dist.LogNormal(1.0, 2.0).log_prob(one.grid))), rtol=1e-3)
    assert one.scale == "log"
    assert_allclose(one.narrower, 10.0, rtol=0.1)  # 2 / 0.2, by 4,000 draws of the prior
    grid, density = smooth(scores)
    assert_allclose(np.trapezoid(density, grid), 1.0, atol=0.01)
    assert np.isfinite(smooth(np.full(100, 2.0))[1]).all()


@pytest.mark.parametrize(
    ("distribution", "said"),
    [
        (dist.Normal(0.0, 10.0), "Normal(0, 10)"),
        (dist.LogNormal(-1.5, 0.7), "LogNormal(−1.5, 0.7)"),
        (dist.Normal(0.0, 1.0).expand([3]).to_event(1), "Normal(0, 1), shape 3"),
        (dist.Normal(np.arange(2.0), 1.0), "Normal(…, 1), shape 2"),
        (dist.MultivariateNormal(np.zeros(2), np.eye(2)), "MultivariateNormal(0, …), shape 2"),
        (dist.TruncatedNormal(0.0, 1.0, low=0.5), "Normal(0, 1), truncated"),
    ],
)
def test_priors_are_named_as_they_are_written(distribution, said):
    assert prior_name(distribution) == said


def test_draws_that_are_not_finite_are_said_to_be_useless(fit, monkeypatch):
    bad = {"intercept": np.full(100, np.nan), "coefficient": np.linspace(0.0, 1.0, 100), "noise": np.full(100, np.inf)}
    monkeypatch.setattr(Subject, "theta", lambda self: bad)
    words = Reader(str(parameters_section(Subject(fit, jr.key(0))).body)).text
    assert "Draws of intercept and noise are not finite: this posterior must not be used." in words
    assert words.count("narrower") >= 1


def test_correlations_stay_within_stretches():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=400)
    found, pairs = autocorrelation(np.arange(400), scores, 3)
    centred = scores - scores.mean()
    assert_allclose(found[1], np.mean(centred[2:] * centred[:-2]) / scores.var())
    assert pairs.tolist() == [399, 398, 397]
    broken = np.concatenate([np.arange(200), 1_000 + np.arange(200)])
    assert autocorrelation(broken, scores, 3)[1].tolist() == [398, 396, 394]
    holes = np.where(np.arange(400) % 2, np.nan, scores)
    assert autocorrelation(np.arange(400), holes, 1)[1].tolist() == [199]  # by observations, not by rows


def test_notes_of_the_table_which_a_fit_repeats_are_there_once(fit):
    one = copy.copy(fit)
    one.table, one.notes = dataclasses.replace(fit.table, notes=("put on a grid",)), ("put on a grid", *fit.notes)
    assert str(details_section(Subject(one, jr.key(0)), None, None).body).count("ut on a grid") == 1


def test_rows_on_a_disk_are_read_in_stretches_and_make_the_same_page(fit, tmp_path, monkeypatch):
    np.save(tmp_path / "y.npy", fit.table.y)
    monkeypatch.setattr(_source_rows, "MOST", 10)  # all rows at once are refused
    monkeypatch.setattr(_subject, "PASS", 64)
    there = copy.copy(fit)
    there.table = dataclasses.replace(_source_rows.source_table(nmax.data.source(tmp_path / "y.npy")), notes=())
    pages = [Painter(Subject(one, jr.key(0))) for one in (fit, there)]
    for section in (path_section, lambda painter: prediction_section(painter.subject)):
        assert section(pages[0]) == section(pages[1])
    assert pages[0].subject.seen == pages[1].subject.seen


def test_gaps_and_the_stretches_around_them():
    observed = np.ones((2_000, 2), bool)
    observed[600:640] = False
    observed[900:1_000, 0] = False  # the other column was observed
    observed[1_500:1_502] = False
    found = seen([observed]).gaps
    assert found == ((600, 640), (1_500, 1_502))
    assert seen([observed]).rows == 1 - 42 / 2_000
    assert seen([observed]).entries == 1 - (84 + 100) / 4_000
    assert seen([np.arange(1_000)[:, None] % 10 == 0]).gaps == ()  # seldom observed is no gap
    names = [(place.start, place.stop, place.name) for place in places(2_000, found, None)]
    assert names == [(0, 400, "The beginning"), (420, 820, "The longest gap"), (1_600, 2_000, "The end")]
    near = places(2_000, [Gap(190, 200)], None)
    assert [place.name for place in near] == ["The beginning, the longest gap", "The end"]
    assert places(300, found, None) == []
    assert math.isclose(sum(place.stop - place.start for place in places(10_000, [], None)), 800)
