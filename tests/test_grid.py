"""The rule by which times become rows of a grid."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmax.data import Table, read
from nmax.data._steps import Step, parse_step

NAN = np.nan


def frame(times, values=None, name="t"):
    values = np.arange(1.0, len(times) + 1) if values is None else values
    return pd.DataFrame({name: times, "y": values})


def column(table):
    return table.y[:, 0]


def dates(*texts):
    return np.array(texts, "datetime64[ns]")


def months(*texts):
    return np.array(texts, "datetime64[M]")


def test_regular_numbers():
    table = read(frame(3.0 + 0.1 * np.arange(1_000)))
    assert table.times is not None
    np.testing.assert_array_equal(table.times, 3.0 + 0.1 * np.arange(1_000))
    np.testing.assert_array_equal(column(table), np.arange(1.0, 1_001))
    assert table.notes == ()
    np.testing.assert_allclose(table.ahead(2), [103.0, 103.1], rtol=1e-14)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1.6e9])
@pytest.mark.parametrize("step", [0.1, 0.25, 1 / 3, 7.0])
def test_rounding_of_regular_numbers_is_nothing_to_speak_of(offset, step):
    table = read(frame(offset + step * np.arange(2_000)))
    assert table.times is not None
    assert len(table.y) == 2_000
    assert table.notes == ()
    np.testing.assert_allclose(table.times - offset, step * np.arange(2_000), atol=1e-3 * step)


def test_single_precision():
    table = read(frame((0.1 * np.arange(5_000)).astype(np.float32)))
    assert table.times is not None
    np.testing.assert_allclose(table.times, 0.1 * np.arange(5_000), rtol=1e-14)
    assert table.notes == ()


def test_whole_numbers_stay_whole():
    table = read(frame([1999, 2001, 2000], name="year"), time="year")
    assert table.times is not None
    assert table.times.dtype == np.int64
    np.testing.assert_array_equal(table.times, [1999, 2000, 2001])
    np.testing.assert_array_equal(column(table), [1.0, 3.0, 2.0])


def test_missing_rows_are_gaps():
    table = read(frame([0.0, 0.5, 1.5, 2.0, 3.5]))
    np.testing.assert_array_equal(column(table), [1.0, 2.0, NAN, 3.0, 4.0, NAN, NAN, 5.0])
    assert table.notes == ("The grid has 8 rows from 0 to 3.5, 0.5 apart; 3 of them hold no record.",)


def test_irregular_times_on_the_step_given():
    table = read(frame([0.0, 0.3, 0.4, 1.1]), step=0.1)
    assert len(table.y) == 12
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(column(table))), [0, 3, 4, 11])
    np.testing.assert_array_equal(column(table)[[0, 3, 4, 11]], [1.0, 2.0, 3.0, 4.0])


def test_up_to_a_hundredth_of_a_step_is_on_the_grid():
    assert read(frame([0.0, 1.0, 2.01, 3.0]), step=1).notes == ()
    moved = read(frame([0.0, 1.0, 2.02, 3.0]), step=1)
    assert moved.notes == (
        "1 of 4 records were moved to the nearest row of the grid, by at most 0.02 and typically 0.02 of a step.",
    )


def test_jitter_is_moved_and_said_so():
    table = read(frame([0.0, 1.1, 1.95, 3.2, 4.0, 5.0]), step=1)
    np.testing.assert_array_equal(column(table), np.arange(1.0, 7.0))
    np.testing.assert_array_equal(table.times, np.arange(6.0))
    assert table.notes == (
        "3 of 6 records were moved to the nearest row of the grid, by at most 0.2 and typically 0.1 of a step.",
    )


def test_times_of_any_kind_go_on_a_grid_that_is_fine_for_them():
    """Moves of up to half a step are little where records are ten steps apart."""
    times = 2.5 * (np.arange(40) + np.random.default_rng(0).uniform(0.1, 0.9, 40))
    with pytest.raises(ValueError, match=r"more than a quarter of a step .* pass a finer `step=`, 0.2 say"):
        read(frame(times), step=0.5)
    table = read(frame(times), step=0.2)
    assert "of 40 records were moved to the nearest row of the grid, by at most 0.4" in table.notes[0]
    assert table.times is not None
    kept = ~np.isnan(column(table))
    np.testing.assert_array_equal(column(table)[kept], np.arange(1.0, 41.0))
    assert np.abs(table.times[kept] - times).max() <= 0.1
    dated = np.datetime64("2020-01-01", "ns") + (times * 86_400e9).astype("timedelta64[ns]")
    with pytest.raises(ValueError, match="pass a finer `step=`, 4 hours say"):
        read(frame(dated), step="1D")
    assert len(read(frame(dated), step="4h").y) > 500


def test_records_out_of_order_are_sorted():
    table = read(frame([2.0, 0.0, 1.0]))
    np.testing.assert_array_equal(column(table), [2.0, 3.0, 1.0])
    assert table.notes == ("The records were not in the order of `t`; they were sorted by it.",)


def test_the_same_record_twice_is_one():
    table = read(frame([0.0, 1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 2.0, NAN, NAN]))
    np.testing.assert_array_equal(column(table), [1.0, 2.0, NAN])
    assert table.notes == ("Records left out, as they repeat another one, time and all: 2.",)


def test_days_over_a_leap_year():
    days = np.arange("2020-02-20", "2020-03-10", dtype="datetime64[D]")
    kept = np.delete(days, [9, 10])  # 29 February and 1 March
    table = read(frame(kept))
    assert len(table.y) == 19
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(column(table))), [9, 10])
    np.testing.assert_array_equal(table.times, days.astype("datetime64[ns]"))
    np.testing.assert_array_equal(table.ahead(1), dates("2020-03-10"))


def test_business_days_leave_weekends_empty():
    table = read(frame(pd.bdate_range("2020-01-06", periods=10)))
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(column(table))), [5, 6])


def test_nanoseconds_are_exact():
    times = np.datetime64("2020-01-01", "ns") + np.arange(5) * 10_000_001
    table = read(frame(times))
    np.testing.assert_array_equal(table.times, times)


@pytest.mark.parametrize("library", ["pandas", "polars", "csv"])
def test_hours_over_a_change_of_clocks(library, tmp_path):
    local = pd.date_range("2020-10-24 12:00", periods=30, freq="h", tz="Europe/Berlin")
    given_frame = frame(local, name="when")
    source = given_frame
    if library == "polars":
        source = pl.from_pandas(given_frame)
    elif library == "csv":
        source = tmp_path / "a.csv"
        given_frame.to_csv(source, index=False)
    table = read(source)
    np.testing.assert_array_equal(table.times, dates("2020-10-24T10:00") + np.arange(30) * np.timedelta64(1, "h"))
    np.testing.assert_array_equal(column(table), np.arange(1.0, 31.0))
    said = "are in" if library == "csv" else "were converted from Europe/Berlin to"
    assert table.notes == (f"The times {said} UTC.",)


def test_local_midnights_over_a_change_of_clocks():
    table = read(frame(pd.date_range("2020-03-01", "2020-04-30", tz="Europe/Berlin")))
    assert len(table.y) == 61
    assert not np.isnan(table.y).any()
    assert "by at most 0.042 and typically 0.042 of a step" in table.notes[-1]


MONTHLY = {
    "starts": pd.date_range("2019-11-01", periods=5, freq="MS"),
    "ends": pd.date_range("2019-11-30", periods=5, freq="ME"),
    "the 15th": pd.date_range("2019-11-01", periods=5, freq="MS") + pd.Timedelta(14, "D"),
    "the 30th, or the last": dates("2019-11-30", "2019-12-30", "2020-01-30", "2020-02-29", "2020-03-30"),
    "local starts": pd.date_range("2019-11-01", periods=5, freq="MS", tz="Europe/Berlin"),
    "text": ["2019-11", "2019-12", "2020-01", "2020-02", "2020-03"],
    "periods": pd.period_range("2019-11", periods=5, freq="M"),
}


@pytest.mark.parametrize("name", MONTHLY)
def test_calendar_months(name):
    table = read(frame(MONTHLY[name], name="date"))
    np.testing.assert_array_equal(table.times, months("2019-11", "2019-12", "2020-01", "2020-02", "2020-03"))
    np.testing.assert_array_equal(column(table), np.arange(1.0, 6.0))
    np.testing.assert_array_equal(table.ahead(2), months("2020-04", "2020-05"))
    assert table.notes[-1] == "The times were taken as calendar months, and a row is 1 month."


def test_last_business_days_are_months():
    table = read(frame(pd.date_range("2019-11-29", periods=12, freq="BME")))
    np.testing.assert_array_equal(table.times, np.arange("2019-11", "2020-11", dtype="datetime64[M]"))


def test_a_missing_month_is_a_gap():
    table = read(frame(dates("2019-11-01", "2019-12-01", "2020-02-01", "2020-03-01")))
    np.testing.assert_array_equal(column(table), [1.0, 2.0, NAN, 3.0, 4.0])


def test_quarters_and_years():
    quarters = read(frame(["2019Q4", "2020Q1", "2020Q3"]))
    np.testing.assert_array_equal(quarters.times, months("2019-10", "2020-01", "2020-04", "2020-07"))
    np.testing.assert_array_equal(column(quarters), [1.0, 2.0, NAN, 3.0])
    assert quarters.notes[-1].endswith("a row is 1 quarter.")
    ends = read(frame(dates("2018-12-31", "2019-12-31", "2020-12-31")))
    np.testing.assert_array_equal(ends.times, months("2018-01", "2019-01", "2020-01"))
    np.testing.assert_array_equal(ends.ahead(1), months("2021-01"))
    fiscal = read(frame(dates("2019-02-28", "2019-05-31", "2019-08-31", "2019-11-30")), step="1Q")
    np.testing.assert_array_equal(fiscal.times, months("2019-01", "2019-04", "2019-07", "2019-10"))
    sparse = read(frame(dates("2019-02-28", "2019-05-31")), step="1M")
    assert len(sparse.y) == 4


def test_any_day_will_do_where_the_user_says_months():
    table = read(frame(dates("2020-01-03", "2020-02-17", "2020-03-30")), step="1M")
    np.testing.assert_array_equal(table.times, months("2020-01", "2020-02", "2020-03"))


STEPS = {
    "15min": Step(900 * 10**9, "time"),
    "1D": Step(86_400 * 10**9, "time"),
    "D": Step(86_400 * 10**9, "time"),
    "2 weeks": Step(14 * 86_400 * 10**9, "time"),
    "0.5h": Step(1_800 * 10**9, "time"),
    "1M": Step(1, "months"),
    "2Q": Step(6, "months"),
    "1Y": Step(12, "months"),
}


@pytest.mark.parametrize("text", STEPS)
def test_steps_in_words(text):
    assert parse_step(text, dates=True) == STEPS[text]


def test_steps_as_timedeltas():
    hour = Step(3_600 * 10**9, "time")
    for step in (np.timedelta64(1, "h"), datetime.timedelta(hours=1), pd.Timedelta(1, "h")):
        assert parse_step(step, dates=True) == hour
    assert parse_step(np.timedelta64(3, "M"), dates=True) == Step(3, "months")
    assert parse_step(np.float32(0.5), dates=False) == Step(0.5, "number")


def test_steps_are_spoken_of_in_their_largest_unit():
    spoken = {"90min": "90 minutes", "24h": "1 day", "7D": "1 week", "2W": "14 days", "3M": "1 quarter", "18M": "6 quarters"}
    assert {text: str(parse_step(text, dates=True)) for text in spoken} == spoken


REFUSED = {  # times, values, options, message
    "different records at one time": (
        [0.0, 1.0, 1.0, 2.0, 3.0],
        None,
        {},
        r"those at 1 and 1 \(rows 1 and 2.* fall on the same row, with a step of 1. Keep one of the two, or take their mean",
    ),
    "out of order, and at one time": ([2.0, 1.0, 0.0, 1.0], None, {}, r"rows 1 and 3 \(counted from 0\)"),
    "records too close": (
        [0.0, 0.9, 1.1, 2.0, 3.0, 4.0],
        None,
        {"step": 1},
        r"those at 0.9 and 1.1 .* A step of 0.2 separates even the closest two: pass a finer `step=`",
    ),
    "a clock set back": (
        dates("2020-10-25T02:00", "2020-10-25T02:00", "2020-10-25T03:00", "2020-10-25T04:00"),
        None,
        {},
        "2020-10-25 02:00 and 2020-10-25 02:00.* if a clock was set back, give the times with their zone",
    ),
    "two in a month": (dates("2020-01-03", "2020-01-30"), None, {"step": "1M"}, "on the same row, with a step of 1 month"),
    "far from the grid": (
        [0.0, 1.4, 2.6, 4.0],
        None,
        {"step": 1},
        "2 of 4 records are more than a quarter of a step away from their nearest row, 1.4 at row 1 .* `step=`, 0.1 say",
    ),
    "no common step": (
        [0.0, 1.0, 2.4, 3.1, 5.0, 7.3],
        None,
        {},
        "cannot be told from `t`: only 40% .* the commonest, 0.7. Pass `step=` to `nmax.read`: step=0.1 would fit",
    ),
    "nothing fits": (
        [0.0, 1.0, 2.417, 3.1234, 5.0711],
        None,
        {},
        "the smallest difference is 0.7064, the median 1.2085",
    ),
    "dates without a step": (dates("2020-01-01", "2020-01-03", "2020-01-06", "2020-01-11"), None, {}, "step='1D' would fit"),
    "one time": ([3.0], None, {}, "two different times at least to be told from; `t` has one"),
    "a missing time": ([0.0, NAN, 2.0, NAN], None, {}, r"`t` is missing at rows 1 and 3 .*because of its name"),
    "a missing date": (dates("2020-01-01", "NaT"), None, {}, "`t` is missing at row 1"),
    "an infinite time": ([0.0, np.inf], None, {}, "Times must be finite; `t` is not at row 1"),
    "a grid too large": (
        [0.0, 1e9],
        None,
        {"step": 0.1},
        "has 10,000,000,001 rows for 2 records. Is the step in the right units",
    ),
    "a grid beyond numbers": ([0.0, 1e300], None, {"step": 1e-300}, "Is the step in the right units"),
    "days without hyphens": ([20200130, 20200131, 20200201], None, {}, "look like dates written without hyphens .*20200131"),
    "months without hyphens": ([202011, 202012, 202101], None, {}, "look like dates written without hyphens .*202001"),
    "another way of writing dates": (["01/02/2020", "02/02/2020"], None, {}, "got '01/02/2020' in column `t` at row 0"),
    "dates out of range": (np.array(["1500-01-01", "1500-01-02"], "M8[s]"), None, {}, "between the years 1678 and 2261"),
    "durations": (np.array([1, 2], "m8[s]"), None, {}, "Times must be numbers or dates; `t` holds lengths of time"),
    "a text for numbers": ([0.0, 1.0], None, {"step": "1D"}, "must be a positive number in the units of the time column"),
    "a number for dates": (dates("2020-01-01", "2020-01-02"), None, {"step": 1}, "must be a length of time.*'15min'.*got 1"),
    "no step": ([0.0, 1.0], None, {"step": 0}, "must be a positive number"),
    "minutes or months": (dates("2020-01-01", "2020-01-02"), None, {"step": "5m"}, "could mean minutes or months"),
    "half a month": (dates("2020-01-01", "2020-01-02"), None, {"step": "0.5M"}, "must be a length of time"),
    "fortnights": (dates("2020-01-01", "2020-01-02"), None, {"step": "1 fortnight"}, "must be a length of time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    times, values, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read(frame(times, values), **options)


def test_lines_are_named(tmp_path):
    path = tmp_path / "a.csv"
    for text, message in (
        ("t,y\n0,1\n\n1,2\n1,3\n2,4\n", r"those at 1 and 1 \(lines 4 and 5\)"),
        ("t,y\n0,1\n,2\n2,3\n", "`t` is missing at line 3"),
        ("date,y\n2020-01-01,1\n31.1.2020,2\n", "got '31.1.2020' in column `date` at line 3"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read(path)


def test_a_grid_is_large_only_where_its_records_are_few():
    table = read(frame([0, 1_000_000]), step=1)
    assert len(table.y) == 1_000_001


@settings(deadline=None, database=None)
@given(
    st.data(),
    st.integers(2, 40),
    st.sampled_from([0.1, 1.0, 1 / 3, 0.025]),
    st.sampled_from([0.0, -7.3, 1e6]),
    st.booleans(),
)
def test_any_rows_of_a_grid_in_any_order_give_it_back(data, count, step, first, as_dates):
    """Whatever rows are left, as long as the first and the last are among them."""
    inner = data.draw(st.sets(st.integers(1, count - 2))) if count > 2 else set()
    rows = data.draw(st.permutations(sorted({0, count - 1} | inner)))
    values = np.full(count, NAN)
    values[rows] = np.asarray(rows) + 0.5
    times, given_step = first + step * np.arange(count), step
    if as_dates:
        given_step = "36h"
        times = np.datetime64("2019-12-30T06", "ns") + np.arange(count) * np.timedelta64(36, "h")
    table = read(frame(times[rows], values[rows]), step=given_step)
    assert isinstance(table, Table)
    assert table.times is not None
    np.testing.assert_array_equal(column(table), values)
    if as_dates:
        np.testing.assert_array_equal(table.times, times)
    else:
        np.testing.assert_allclose(table.times, times, rtol=1e-12)


@pytest.mark.parametrize("dates", [False, True])
def test_no_single_record_decides_where_the_grid_lies(dates):
    """A clock that jitters: the first record may be the worst."""
    rng = np.random.default_rng(0)
    hours = np.arange(1_000) + rng.uniform(-0.2, 0.2, 1_000)
    hours[0] = 0.19
    kept = np.sort(rng.permutation(np.arange(1, 1_000))[:700])
    kept = np.concatenate([[0], kept])
    time = np.datetime64("2024-03-01", "ns") + (hours * 3.6e12).astype("timedelta64[ns]") if dates else hours
    frame = pd.DataFrame({"time": time[kept], "y": kept.astype(float)})
    table = read(frame, step="1h" if dates else 1.0)
    assert table.times is not None
    first = np.datetime64("2024-03-01", "ns") if dates else 0.0
    assert table.times[0] == first
    rows = np.flatnonzero(~np.isnan(table.y[:, 0]))
    np.testing.assert_array_equal(rows, kept)
    np.testing.assert_array_equal(table.y[rows, 0], kept)


@pytest.mark.parametrize(("shift", "first"), [(0.4, 0.4), (0.03, 0.0), (0.98, 1.0)])
def test_a_grid_near_whole_multiples_of_its_step_is_moved_to_them(shift, first):
    time = np.arange(200.0) + shift + np.tile([-0.15, 0.05, 0.15, -0.05], 50)
    table = read(pd.DataFrame({"time": time, "y": time}), step=1.0)
    assert table.times is not None
    np.testing.assert_allclose(table.times, first + np.arange(200.0), atol=1e-9)


def test_times_that_share_no_grid_stay_with_the_first():
    rng = np.random.default_rng(1)
    time = np.sort(np.concatenate([[0.3], rng.uniform(1, 5_000, 100)]))
    table = read(pd.DataFrame({"time": time, "y": time}), step=1.0)
    assert table.times is not None
    assert table.times[0] == 0.3
