"""What figures of the report are made of: bins that keep extremes, round ticks, dates, numbers, HTML."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from nmax.data import Table
from nmax.report._bins import Bins, binned, coarser
from nmax.report._calendar import date_ticks
from nmax.report._draw import Frame, area, bars, line
from nmax.report._html import Markup, data_block, escaped, sentence, table, tag, tidy
from nmax.report._numbers import duration, fixed, listed, number, small_percent, to_error
from nmax.report._scale import Scale, limits, round_ticks
from nmax.report._seen import seen
from nmax.report._times import time_axis

SINGLE = some.floats(-(2.0**100), 2.0**100, width=32) | some.just(float("nan"))


@settings(max_examples=60, deadline=None)
@given(arrays(np.float32, some.tuples(some.integers(1, 80), some.integers(1, 3)), elements=SINGLE), some.integers(1, 30))
def test_bins_keep_the_extremes_of_every_column(values, width):
    bins = binned(values, width)
    for k in range(len(bins.low)):
        part = values[k * width : (k + 1) * width]
        assert_array_equal(bins.low[k], np.fmin.reduce(part))
        assert_array_equal(bins.high[k], np.fmax.reduce(part))
    assert_array_equal(np.fmin.reduce(bins.low), np.fmin.reduce(values))
    assert_array_equal(np.fmax.reduce(bins.high), np.fmax.reduce(values))


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, some.tuples(some.integers(1, 80), some.just(2)), elements=SINGLE),
    some.integers(1, 12),
    some.integers(1, 25),
    some.integers(1, 5),
)
def test_bins_do_not_depend_on_how_they_are_filled(values, width, chunk, group):
    whole, pieces = binned(values, width), Bins(len(values), width, 2)
    for start in range(0, len(values), chunk):
        pieces.add(start, values[start : start + chunk], values[start : start + chunk])
    assert_array_equal(whole.low, pieces.low)
    assert_array_equal(whole.high, pieces.high)
    assert_allclose(whole.mean, pieces.mean, rtol=1e-5, atol=1e-5 * float(np.nanmax(np.abs(values), initial=1.0)))
    for coarse, wide in zip(coarser(whole.low, whole.high, group), (binned(values, width * group),) * 2, strict=True):
        assert coarse.shape == wide.low.shape
    assert_array_equal(coarser(whole.low, whole.high, group)[0], binned(values, width * group).low)
    assert_array_equal(coarser(whole.low, whole.high, group)[1], binned(values, width * group).high)


@settings(max_examples=300, deadline=None)
@given(some.floats(-1e9, 1e9), some.floats(1e-6, 1e9), some.integers(2, 8))
def test_ticks_are_round_and_inside(low, wide, most):
    high = low + max(wide, 1e-9 * abs(low))
    ticks = round_ticks(low, high, most)
    places = np.array([tick.at for tick in ticks])
    slack = 1e-6 * (high - low) + 1e-12 * abs(low)
    assert 2 <= len(ticks) <= max(most, 5)
    assert np.all(places >= low - slack)
    assert np.all(places <= high + slack)
    assert len({tick.label for tick in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"][::1]),
        (-3, 12, ["0", "5", "10"]),
        (0, 1_000_000, ["0", "0.2mn", "0.4mn", "0.6mn", "0.8mn", "1.0mn"]),
        (1_500_000, 1_500_090, ["1,500,000", "1,500,020", "1,500,040", "1,500,060", "1,500,080"]),
        (-2e-5, 1e-5, ["−2×10⁻⁵", "−1×10⁻⁵", "0", "1×10⁻⁵"]),
    ],
)
def test_labels_of_ticks(low, high, labels):
    assert [tick.label for tick in round_ticks(low, high, 6)] == labels


@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        ("1999-06-01", "2021-01-01", ["2000", "2005", "2010", "2015", "2020"]),
        ("2019-11-20", "2020-04-10", ["Dec 2019", "Jan 2020", "Feb", "Mar", "Apr"]),
        ("2020-02-20", "2020-03-20", ["24 Feb 2020", "2 Mar", "9 Mar", "16 Mar"]),
        ("2020-02-28T20:00", "2020-02-29T13:00", ["29 Feb 00:00", "06:00", "12:00"]),
        ("2020-01-01T00:00:58", "2020-01-01T00:01:09", ["1 Jan 00:01:00", "00:01:05"]),
    ],
)
def test_dates_on_an_axis(first, last, labels):
    low, high = (float(np.datetime64(day, "ms").astype(np.int64)) for day in (first, last))
    ticks = date_ticks(low, high, 5)
    assert [tick.label for tick in ticks] == labels
    assert all(low <= tick.at <= high for tick in ticks)


@settings(max_examples=200, deadline=None)
@given(some.integers(-(10**12), 10**13), some.floats(3.0, 1e12), some.integers(2, 8))
def test_dates_have_two_ticks_at_least(low, wide, most):
    ticks = date_ticks(float(low), low + wide, most)
    assert 2 <= len(ticks) <= most + 6
    assert all(low - 1e-3 <= tick.at <= low + wide + 1e-3 for tick in ticks)


@settings(max_examples=100, deadline=None)
@given(arrays(bool, some.tuples(some.integers(1, 60), some.integers(1, 2))), some.integers(1, 20))
def test_gaps_do_not_depend_on_how_the_rows_come(observed, chunk):
    whole = seen([observed])
    assert seen(observed[k : k + chunk] for k in range(0, len(observed), chunk)) == whole
    rows = observed.any(axis=1)
    for gap in whole.gaps:
        assert not rows[gap.start : gap.stop].any()
        assert gap.start == 0 or rows[gap.start - 1]
        assert gap.stop == len(rows) or rows[gap.stop]
    if not rows.any():
        assert whole.gaps == (((0, len(rows)),) if len(rows) > 1 else ())


def axis_of(times):
    return time_axis(Table(np.zeros((len(times), 1)), None, ("y",), times=times))


def test_the_time_axis_takes_rows_to_times_and_back():
    days = axis_of(np.datetime64("2001-01-01") + 7 * np.arange(200))
    assert days.said(2) == "15 Jan 2001"
    assert days.spacing() == "7 days"
    assert len(days.rows) == 2
    months = axis_of(np.arange("2001-01", "2011-01", dtype="datetime64[M]"))
    assert months.said(13) == "1 Feb 2002"
    assert [tick.label for tick in months.ticks(0, 119)] == ["2002", "2004", "2006", "2008", "2010"]
    hours = axis_of(np.datetime64("2001-01-01T00:30") + np.timedelta64(1, "h") * np.arange(50))
    assert hours.said(3) == "1 Jan 2001 03:30"
    assert hours.spacing() == "hour"
    numbers = axis_of(0.25 * np.arange(40.0))
    assert numbers.said(3) == "0.75"
    fast = axis_of(np.datetime64("2001-01-01", "ns") + 250_000 * np.arange(100))
    assert_allclose(fast.step, 0.25, rtol=1e-6)
    for axis in (days, months, hours, numbers):
        for row in (0.0, 1.5, 17.25, 39.0):
            assert_allclose(axis.row(axis.value(row)), row, atol=1e-6)
    steps = time_axis(Table(np.zeros((5, 1)), None, ("y",)))
    assert steps.said(3) == "step 3"
    assert all(tick.at == round(tick.at) for tick in steps.ticks(0, 1.2))
    ahead = time_axis(Table(np.zeros((2, 1)), None, ("y",), times=np.arange(2)), ahead=[2, 3])
    assert ahead.value(3) == 3


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (number(0.0123456), "0.0123"),
        (number(1234567.0), "1,234,567"),
        (number(-1.2e-9, 2), "−1.2×10⁻⁹"),
        (number(9.999, 3), "10.0"),
        (number(0.0), "0"),
        (number(float("nan")), "–"),
        (number(float("-inf")), "−∞"),
        (fixed(-0.001, 2), "0.00"),
        (to_error(1.23456, 0.0123), "1.235"),
        (to_error(-12871.4, 0.021), "−12,871.400"),
        (small_percent(0.0), "0\u202f%"),
        (small_percent(0.00041), "0.041\u202f%"),
        (small_percent(0.9999), "99.990\u202f%"),
        (duration(8.13), "8.1 s"),
        (duration(200), "3 min 20 s"),
        (duration(8_000), "2 h 13 min"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (listed(list("abcdefgh"), most=3), "a, b and 6 more"),
        (sentence("q(θ) settled"), "q(θ) settled."),
        (sentence("another round"), "Another round."),
        (tidy("90 % of <b>"), "90\u202f% of &lt;b&gt;"),
    ],
)
def test_numbers_and_words(said, right):
    assert said == right


def test_whatever_is_no_markup_is_escaped():
    assert tag("p", "<b>", Markup("<i>x</i>"), title='"', class_="a") == '<p title="&quot;" class="a">&lt;b&gt;<i>x</i></p>'
    assert escaped("a\x00\ud800") == "a\N{REPLACEMENT CHARACTER}?"
    assert "<script" not in data_block("x", {"</script>": ["<!--", "&"]})[1:]
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_block("x", [float("nan")])
    made = table("What <it> is", ["a", "b"], [["x", "1"], ["y", "2"]])
    assert made.count('scope="col"') == made.count('scope="row"') == 2
    assert "What &lt;it&gt; is" in made


def test_shapes_leave_out_what_is_missing():
    frame = Frame(Scale(0.0, 10.0), Scale(0.0, 1.0))
    y = np.array([0.0, 0.5, np.nan, 1.0, np.inf, 0.25])
    assert line(frame, np.arange(6), y, "a") == '<path d="M0 100L100 50M300 0M500 75" class="a"/>'
    assert area(frame, [0, 1], [0.0, np.nan], [1.0, 1.0], "a") == '<path d="M0 0L0 100Z" class="a"/>'
    assert bars(frame, [1, 2, 3], [0.0, 0.5, np.nan], [1.0, 0.5, 1.0], "a") == '<path d="M100 100V0M200 50h0" class="a"/>'
    assert line(frame, [0.0], [np.nan], "a") == ""
    huge = line(frame, [0, 1], [-1e30, 1e30], "a")
    assert "e+" not in huge
    assert limits([2.0, 2.0]).low < 2.0 < limits([2.0]).high
    assert limits([np.nan]) == (0.0, 1.0)
