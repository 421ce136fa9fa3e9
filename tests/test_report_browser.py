"""The report as a reader sees it: in Chromium, on a phone and a desk, light and dark, printed, zoomed, without a script."""

import base64
import json
import re
import shutil
import time

import jax
import jax.random as jr
import numpy as np
import pytest
from report_pages import untrained

import nmax
from nmax.data import Table
from nmax.report import _bands
from nmax.report._calendar import date_ticks
from nmax.report._numbers import number
from nmax.report._scale import round_ticks
from nmax.report._subject import Subject

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking").split()
FLAGS += ["--disable-component-update", "--disable-sync"]
MILLION = 1_000_001
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install Debian's package `chromium`")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A page with bins, stretches in full and dates, without the parts that take long to compile."""
    jax.config.update("jax_disable_most_optimizations", True)
    model = nmax.models.ar1()
    _, y = nmax.simulate(model, {"intercept": 5.0, "coefficient": 0.5, "noise": 3.0}, 2_000, key=jr.key(4))
    y[1_000:1_040] = np.nan
    times = np.datetime64("2001-01-01") + np.arange(2_001)
    posterior = untrained(model, Table(y, None, ("rate <of> interest",), times=times))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bands, "VALUES", 5_000)
        patch.setattr(Subject, "strip", lambda self: None)
        forecast = posterior.forecast(20, 50, key=jr.key(1))
        return nmax.report.write(posterior, tmp_path_factory.mktemp("browser") / "page.html", forecast=forecast)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page(browser, file):
    """One page for all tests, which must never complain, nor ask anything of a network."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    page.close()


@pytest.fixture(autouse=True)
def as_it_was(page):
    """Every test begins with the whole series, at a desk, in light."""
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})
    if page.locator("[data-do=all]").is_enabled():
        page.locator("[data-do=all]").click()
    settled(page)


def settled(page):
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def domain(page):
    settled(page)
    return tuple(int(page.locator(".stack").get_attribute(f"data-{end}")) for end in ("first", "last"))


@pytest.mark.parametrize("width", [360, 1280])
def test_all_figures_are_seen_and_nothing_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        """[...document.querySelectorAll('figure, svg.canvas, h1, h2, table')].map(e => {
            const b = e.getBoundingClientRect(), inside = e.closest('.scroll');
            return [e.tagName, b.width, b.height, b.left, inside ? 0 : b.right]; })"""
    )
    assert len([box for box in boxes if box[0] == "svg"]) >= 10
    for tag, wide, high, left, right in boxes:
        assert wide > 40, tag
        assert high > 15, tag
        assert left >= 0, tag
        assert right <= width + 0.5, tag
    labels = page.evaluate(
        """[...document.querySelectorAll('.x-ticks span, .y-ticks span, .note')].filter(e => e.offsetParent)
            .map(e => { const b = e.getBoundingClientRect(); return [e.textContent, b.left, b.right]; })"""
    )
    assert len(labels) > 40
    assert [label for label, left, right in labels if left < 0 or right > width] == []


def test_labels_of_an_axis_do_not_touch(page):
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        settled(page)
        axes = page.evaluate(
            """[...document.querySelectorAll('.x-ticks')].filter(e => e.offsetParent).map(axis =>
                [...axis.children].map(e => { const b = e.getBoundingClientRect(); return [b.left, b.right]; }))"""
        )
        for axis in axes:
            assert all(before[1] < after[0] for before, after in zip(axis, axis[1:])), (width, axis)


def test_links_lead_to_their_sections(page):
    links = page.locator("nav a")
    assert links.count() == 7
    for k in range(links.count()):
        links.nth(k).click()
        target = links.nth(k).get_attribute("href")
        assert page.evaluate("location.hash") == target
        assert page.locator(target).bounding_box()["y"] < 900
    page.keyboard.press("Home")


def test_buttons_keys_and_dragging_zoom(page):
    whole = domain(page)
    assert whole == (0, 2_000)
    before = page.locator(".stack svg").first.inner_html()
    page.locator("[data-do=in]").click()
    first, last = domain(page)
    assert (first, last) == (500, 1_500)
    assert page.locator(".stack svg").first.inner_html() != before
    page.locator(".stack").focus()
    page.keyboard.press("ArrowRight")
    assert domain(page) == pytest.approx((750, 1_750), abs=1)  # rows at the edges may be in or out
    page.keyboard.press("End")
    assert domain(page) == pytest.approx((1_000, 2_000), abs=1)
    page.keyboard.press("+")
    assert domain(page) == pytest.approx((1_250, 1_750), abs=1)
    page.keyboard.press("-")
    page.keyboard.press("0")
    assert domain(page) == whole
    box = page.locator(".stack .field").first.bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 30, steps=4)
    assert page.locator(".chosen").first.is_visible()
    page.mouse.up()
    first, last = domain(page)
    assert abs(first - 500) <= 3
    assert abs(last - 1_000) <= 3
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], box["y"] + 20)
    assert domain(page) == whole


def test_zooming_ends_at_the_finest_that_there_is(page):
    for _ in range(15):
        if page.locator("[data-do=in]").is_enabled():
            page.locator("[data-do=in]").click()
            settled(page)
    first, last = domain(page)
    assert page.locator("[data-do=in]").is_disabled()
    assert 4 <= last - first <= 8 * 4  # eight rows in a stretch in full, or eight bins
    paths = page.evaluate("[...document.querySelectorAll('.stack path')].map(e => e.getAttribute('d'))")
    assert not any("NaN" in d or "Infinity" in d for d in paths)


def test_a_stretch_is_shown_row_by_row(page):
    page.get_by_role("button", name="The longest gap").click()
    assert domain(page) == (820, 1_219)
    assert "every row" in page.locator(".status").inner_text()
    assert page.locator(".stack .gap").count() == 1


def test_pointing_reads_out_numbers(page):
    box = page.locator(".stack .field").first.bounding_box()
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 40)
    said = page.locator(".readout").first.inner_text()
    assert re.search(r"\d+ Jul 2001: .+90 % .+ to .+; observed", said), said
    page.mouse.move(5, 5)
    assert page.locator(".readout").first.is_hidden()


def test_the_dark_scheme_changes_the_paper(page):
    def paper():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = paper()
    page.emulate_media(color_scheme="dark")
    dark = paper()
    assert sum(map(int, re.findall(r"\d+", light)[:3])) > 700
    assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 120
    page.emulate_media(media="print", color_scheme="dark")
    assert paper() == "rgb(255, 255, 255)"


def test_print_hides_what_cannot_be_used_on_paper(page):
    assert page.locator(".controls").is_visible()
    page.emulate_media(media="print")
    for hidden in (".controls", "nav", ".skip", "footer a"):
        assert page.locator(hidden).first.is_hidden(), hidden
    assert page.locator("#figure-path").is_visible()


def test_the_page_does_without_a_script(browser, file):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 360, "height": 800})
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator(".controls").is_hidden()
    assert page.locator(".only-with-script").first.is_hidden()
    box = page.locator(".stack svg.canvas").first.bounding_box()
    assert box["width"] > 200
    assert page.locator(".stack .band").count() >= 1
    context.close()


def test_the_script_sets_ticks_as_python_does(page):
    rng = np.random.default_rng(0)
    for _ in range(150):
        low = float(rng.normal() * 10.0 ** rng.uniform(-6, 9))
        high = low + abs(low) * 10.0 ** float(rng.uniform(-3, 2))
        most = int(rng.integers(2, 9))
        drawn = page.evaluate("([a, b, n]) => window.nmaxReport.niceTicks(a, b, n).map(t => t.label)", [low, high, most])
        assert drawn == [tick.label for tick in round_ticks(low, high, most)], (low, high, most)
        said = page.evaluate("v => window.nmaxReport.number(v, 4)", high)
        assert said == number(high, 4)
        begin = float(rng.integers(-(10**12), 10**13))
        end = begin + 10.0 ** float(rng.uniform(1, 12.5))
        drawn = page.evaluate(
            "([a, b, n]) => window.nmaxReport.dateTicks(a, b, n).map(t => [t.at, t.label])", [begin, end, most]
        )
        assert drawn == [[tick.at, tick.label] for tick in date_ticks(begin, end, most)], (begin, end, most)


def test_a_million_steps_open_quickly(browser, file, tmp_path):
    """The page with the data that a million steps would bring: as many numbers as the page may hold."""
    bins = _bands.VALUES // 7
    width = -(-MILLION // bins)
    x = np.random.default_rng(0).normal(size=-(-MILLION // width)).astype("<f4")
    parts = {"low": x - 2, "high": x + 2, "middleLow": x - 1, "middleHigh": x + 1, "level": x}
    parts |= {"seenLow": x - 3, "seenHigh": x + 3}
    panel = {name: base64.b64encode(values.astype("<f4").tobytes()).decode() for name, values in parts.items()}
    data = {
        "rows": MILLION,
        "time": {"kind": "step", "name": "step", "rows": [0, MILLION - 1], "values": [0, MILLION - 1]},
        "names": ["x"],
        "exact": [False],
        "whole": {"start": 0, "rows": MILLION, "width": width, "panels": [panel]},
        "details": [],
        "places": [],
        "gaps": [],
    }
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"(id=\"path-data\">)[^<]*", lambda found: found[1] + json.dumps(data), text)
    large = tmp_path / "million.html"
    large.write_text(text, encoding="utf-8")
    assert 3e6 < large.stat().st_size < 5e6
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    begun = time.perf_counter()
    page.goto(large.as_uri(), wait_until="load")
    settled(page)
    assert time.perf_counter() - begun < 3.0
    assert domain(page) == (0, MILLION - 1)
    page.locator("[data-do=in]").click()
    assert domain(page) == (250_000, 750_000)
    page.close()
