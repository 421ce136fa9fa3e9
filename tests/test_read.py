"""Data in: every form gives the same table, and what cannot be right is refused with the line and the remedy."""

import doctest
import gzip
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
import zarr
from numpyro.distributions import constraints

import nmax
from nmax.data import Table, as_table, read, read_for

NAN = np.nan
PREY, HARES = np.array([1.5, NAN, -3.0, 4.25]), np.array([7, 8, 9, 10])
FEED = np.array([0.1, 0.2, 0.3, 0.4])
DAYS = np.array(["2020-02-27", "2020-02-28", "2020-02-29", "2020-03-01"], "datetime64[ns]")
TEXT = "date,prey,hares,feed\n2020-02-27,1.5,7,0.1\n2020-02-28,{gap},8,0.2\n2020-02-29,-3.0,9,0.3\n2020-03-01,4.25,10,0.4\n"


def pandas_frame():
    return pd.DataFrame({"date": DAYS, "prey": PREY, "hares": HARES, "feed": FEED})


def polars_frame():
    prey = [None if np.isnan(value) else value for value in PREY]
    return pl.DataFrame({"date": DAYS, "prey": prey, "hares": HARES, "feed": FEED})


def nullable_frame():
    frame = pandas_frame().astype({"hares": "Int64", "prey": "Float64"})
    return frame.set_index("date")


def dataset():
    variables = {name: ("date", values) for name, values in (("prey", PREY), ("hares", HARES), ("feed", FEED))}
    return xr.Dataset(variables, {"date": DAYS})


def data_array():
    values = np.stack([PREY, HARES, FEED])
    return xr.DataArray(values, {"animal": ["prey", "hares", "feed"], "date": DAYS}, ("animal", "date"))


def text(folder, name, gap="", comma=","):
    content = TEXT.format(gap=gap).replace(",", comma)
    opened = gzip.open if name.endswith(".gz") else open
    with opened(folder / name, "wt", encoding="utf-8") as file:
        file.write(content)
    return folder / name


def saved(folder, name, save):
    save(folder / name)
    return folder / name


def save_npz(path):
    y = np.stack([PREY, HARES], axis=1)
    np.savez(path, y=y, columns=["prey", "hares"], inputs=FEED, input_columns=["feed"], times=DAYS)


FORMS = {
    "pandas": lambda folder: pandas_frame(),
    "pandas with an index": lambda folder: pandas_frame().set_index("date"),
    "pandas with periods": lambda folder: pandas_frame().assign(date=DAYS.astype("M8[D]")).set_index("date").to_period("D"),
    "pandas, nullable": lambda folder: nullable_frame(),
    "pandas, Arrow inside": lambda folder: pandas_frame().convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda folder: polars_frame(),
    "polars, lazy": lambda folder: polars_frame().lazy(),
    "Arrow": lambda folder: pa.Table.from_pandas(pandas_frame()),
    "records": lambda folder: pandas_frame().to_records(index=False),
    "xarray, variables": lambda folder: dataset(),
    "xarray, array": lambda folder: data_array(),
    "CSV": lambda folder: text(folder, "a.csv"),
    "CSV, NA": lambda folder: text(folder, "a.csv", gap="NA"),
    "CSV, nan": lambda folder: text(folder, "a.csv", gap=" nan"),
    "CSV with semicolons": lambda folder: text(folder, "a.csv", comma=";"),
    "CSV, packed": lambda folder: text(folder, "a.csv.gz"),
    "CSV as text": lambda folder: str(text(folder, "a.CSV")),
    "TSV": lambda folder: text(folder, "a.tsv", comma="\t"),
    "Parquet by pandas": lambda folder: saved(folder, "a.parquet", pandas_frame().to_parquet),
    "Parquet by pandas, index": lambda folder: saved(folder, "a.parquet", pandas_frame().set_index("date").to_parquet),
    "Parquet by polars": lambda folder: saved(folder, "a.parquet", polars_frame().write_parquet),
    "npz": lambda folder: saved(folder, "a.npz", save_npz),
    "Zarr by xarray": lambda folder: saved(folder, "a.zarr", lambda p: dataset().to_zarr(p, consolidated=False)),
    "Zarr by xarray, version 2": lambda folder: saved(folder, "a.zarr", lambda p: dataset().to_zarr(p, zarr_format=2)),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_table(name, tmp_path):
    columns = ["prey", "hares"] if "Zarr" in name else None  # a group has no order
    table = read(FORMS[name](tmp_path), columns=columns, inputs=["feed"])
    np.testing.assert_array_equal(table.y, np.stack([PREY, HARES], axis=1))
    np.testing.assert_array_equal(table.inputs, FEED[:, None])
    assert table.inputs is not None
    assert table.y.dtype == table.inputs.dtype == np.float64
    assert (table.columns, table.input_columns) == (("prey", "hares"), ("feed",))
    np.testing.assert_array_equal(table.times, DAYS)
    assert table.time_name == ("time" if name == "npz" else "date")
    assert table.notes == ()


def test_arrays_are_left_as_they_are():
    y = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    table = as_table(y, inputs=y[:, 0])
    assert np.shares_memory(table.y, y)
    assert np.shares_memory(table.inputs, y)
    assert table.y.dtype == np.float32
    assert (table.columns, table.input_columns, table.times) == (("y0", "y1"), ("u",), None)
    assert as_table(table) is table
    assert as_table(np.arange(3)).y.dtype == np.int64
    np.testing.assert_array_equal(as_table(jnp.arange(3.0)).y, [[0.0], [1.0], [2.0]])


def test_what_is_masked_is_missing():
    masked = np.ma.masked_equal(np.arange(4), 2)
    np.testing.assert_array_equal(as_table(masked).y[:, 0], [0.0, 1.0, NAN, 3.0])
    np.testing.assert_array_equal(read(masked).y[:, 0], [0.0, 1.0, NAN, 3.0])


def test_integers_are_counts():
    np.testing.assert_array_equal(nmax.data.make_series(np.array([3, 1, 2])).values[:, 0], [3.0, 1.0, 2.0])


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.zarr"])
def test_one_array_in_a_file(name, tmp_path):
    y = np.arange(6).reshape(3, 2)
    if name.endswith("npy"):
        np.save(tmp_path / name, y)
    elif name.endswith("npz"):
        np.savez(tmp_path / name, anything=y)
    else:
        zarr.save_array(tmp_path / name, y)
    table = read(tmp_path / name)
    np.testing.assert_array_equal(table.y, y)
    assert table.columns == ("y0", "y1")
    assert table.times is None


def test_a_group_of_columns(tmp_path):
    columns = {"t": np.arange(3) * 0.5, "a": np.ones(3), "b": np.zeros(3)}
    zarr.save_group(tmp_path / "a.zarr", **columns)
    np.savez(tmp_path / "a.npz", **columns)
    for name in ("a.zarr", "a.npz"):
        table = read(tmp_path / name)
        assert table.columns == ("a", "b")
        assert ("no order of its columns; they were taken by name: a and b" in "".join(table.notes)) == name.endswith("zarr")
        np.testing.assert_array_equal(table.times, [0.0, 0.5, 1.0])


def test_series_keep_their_names():
    assert read(pd.Series([1.0, 2.0], name="level")).columns == ("level",)
    assert read(pd.Series([1.0, 2.0])).columns == ("y",)
    assert read(pl.Series("level", [1, None])).columns == ("level",)
    assert read(xr.DataArray([1.0, 2.0], name="level")).columns == ("level",)
    assert read(pd.DataFrame({0: [1.0, 2.0]})).columns == ("0",)


def test_other_frames_come_by_the_interchange_protocol():
    class Frame:
        def __dataframe__(self, *args, **kwargs):
            return pa.table({"level": [1.0, 2.0]}).__dataframe__(*args, **kwargs)

    assert read(Frame()).columns == ("level",)


def test_decimals_and_categories():
    table = pa.table(
        {"price": pa.array(["1.10", "2.25"]).cast(pa.decimal128(8, 2)), "kind": pa.array(["a", "b"]).dictionary_encode()}
    )
    read_table = read(table)
    np.testing.assert_array_equal(read_table.y, [[1.10], [2.25]])
    assert "`kind` was left out: it holds text" in read_table.notes[0]


def test_which_columns():
    frame = pandas_frame().assign(place=["north", "south"] * 2, wet=[True, False] * 2)
    table = read(frame, columns="hares", time="date")
    assert table.columns == ("hares",)
    assert table.notes == ()
    table = read(frame, inputs="feed")
    assert table.columns == ("prey", "hares")
    assert [note.split(":")[0] for note in table.notes] == ["Column `place` was left out", "Column `wet` was left out"]
    table = read(frame, columns=["prey"], time=False)
    assert table.times is None
    assert "`date` was not used" in table.notes[0]
    assert read(pd.DataFrame({"T": [3.0, 1.0]}), columns=["T"]).times is None  # a temperature


def test_an_index_that_is_not_used_is_mentioned(tmp_path):
    frame = pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=[0, 1, 5])
    assert "`index` was not used, and rows were counted" in read(frame).notes[0]
    np.testing.assert_array_equal(read(frame, time="index").times, np.arange(6))
    assert read(frame.reset_index(drop=True)).notes == ()
    frame.to_parquet(tmp_path / "a.parquet")
    assert "`index` was not used" in read(tmp_path / "a.parquet").notes[0]
    frame.rename_axis("station").to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").columns == ("y",)
    assert read(xr.DataArray([1.0, 2.0], {"x": [0, 1]}, ("x",))).notes == ()


def test_row_numbers_of_pandas_are_no_observations(tmp_path):
    pandas_frame().to_csv(tmp_path / "a.csv")
    table = read(tmp_path / "a.csv", inputs=["feed"])
    assert table.columns == ("prey", "hares")
    assert table.notes == ("A column without a name, which counts the rows, was left out.",)
    pandas_frame().rename(columns={"date": ""}).to_csv(tmp_path / "b.csv", index=False)
    assert read(tmp_path / "b.csv").time_name == "time"


def test_empty_lines(tmp_path):
    (tmp_path / "a.csv").write_text("\ny\n1\n\n3\n\n\n")
    table = read(tmp_path / "a.csv")
    np.testing.assert_array_equal(table.y[:, 0], [1.0, NAN, 3.0])
    assert table.notes == ("Empty lines, taken as missing values: 1.",)
    (tmp_path / "b.csv").write_text("\ufeff\n\na, b\r\n1,2\r\n\r\n3,4\r\n\r\n", encoding="utf-8")
    table = read(tmp_path / "b.csv")
    np.testing.assert_array_equal(table.y, [[1.0, 2.0], [3.0, 4.0]])
    assert table.columns == ("a", "b")


def csv(content, name="a.csv", encoding="utf-8"):
    def write(folder):
        (folder / name).write_bytes(content.encode(encoding))
        return folder / name

    return write


def pickled(folder):
    np.save(folder / "a.npy", np.array([1.0, None], dtype=object))
    return folder / "a.npy"


def pickled_npz(folder):
    np.savez(folder / "a.npz", y=np.array([1.0, None], dtype=object))
    return folder / "a.npz"


def misspelt(folder):
    (folder / "data.csv").write_text("y\n1\n")
    return folder / "dta.csv"


REFUSED = {  # source, options, message
    "decimal comma": (
        csv("y;u\n1,5;2\n2;3\n"),
        {},
        "`y` does not: it holds text: '1,5' at line 2 looks like .* decimal comma",
    ),
    "thousands": (csv('y,u\n1,1\n"1,234",2\n'), {}, "'1,234' at line 3 looks like a number with thousands separators"),
    "percent": (csv("y\n1\n5 %\n"), {}, "'5 %' at line 3 is a percentage"),
    "a stray word": (
        csv("a,b\n1,1\n\n2,oops\n"),
        {},
        "`b` does not: it holds text, 'oops' at line 4.*name the others in `columns`",
    ),
    "a text column": (
        csv("a,b\n1,x\n"),
        {"columns": ["b"]},
        "Columns must hold numbers; `b` does not: it holds text, 'x' at line 2",
    ),
    "numbers as text": (lambda f: pd.DataFrame({"y": ["1", "2"]}), {}, "`y` does not: it holds numbers as text"),
    "no numbers": (csv("a,b\nx,y\n"), {}, r"a column of numbers to observe; there is none.*a \(text\) and b \(text\)"),
    "objects": (lambda f: pd.DataFrame({"y": [object(), 1]}), {"columns": "y"}, "`y` does not: it holds objects, <obj"),
    "a number and a word": (
        lambda f: pd.DataFrame({"y": [1.0, "a"], "u": 1.0}),
        {},
        "it holds objects, 'a' at row 1 .*`columns`",
    ),
    "object array": (lambda f: np.array([1.0, None]), {}, "`y` does not: it holds numbers as objects"),
    "true and false": (lambda f: np.array([True, False]), {}, r"there is none.*y \(true and false\)"),
    "infinite": (csv("y\n1\ninf\n-inf\n"), {}, "`y` is infinite at lines 3 and 4"),
    "infinite in a frame": (lambda f: pd.DataFrame({"y": [1.0, np.inf]}), {}, r"infinite at row 1 \(counted from 0\)"),
    "empty file": (csv(""), {}, "a.csv is empty"),
    "no rows": (csv("a,b\n"), {}, "must hold rows; .*a.csv has none"),
    "no names": (csv("1,2\n3,4\n"), {}, "must name the columns; that of .* holds values: 1 and 2"),
    "no names, dates": (csv("2020-01-01T00:00Z,2\n2020-01-02T00:00Z,4\n"), {}, "must name the columns"),
    "a name twice": (csv("a,b,a\n1,2,3\n"), {}, "different names; a occurs more than once"),
    "a name twice in a frame": (lambda f: pd.DataFrame([[1, 2]], columns=["a", "a"]), {}, "different names; a occurs"),
    "ragged": (csv("a,b\n1,2\n3\n"), {}, "as many values as there are names, 2; line 3 of .* has 1: '3'"),
    "not UTF-8": (csv("größe\n1\n", encoding="latin-1"), {}, "must be text in UTF-8"),
    "UTF-16": (csv("a,b\n1,2\n", encoding="utf-16"), {}, "must be text in UTF-8"),
    "unnamed numbers": (csv(",b\n5,2\n9,3\n"), {}, "Every column must have a name; one without holds numbers"),
    "not packed": (csv("y\n1\n", name="a.csv.gz"), {}, "must be packed by gzip, as its name says; it is not"),
    "not a table": (csv("nonsense", name="a.parquet"), {}, "cannot be read as Parquet"),
    "not an array": (csv("nonsense", name="a.npy"), {}, "a.npy"),
    "no such column": (csv("prey,b\n1,2\n"), {"columns": ["pray"]}, "no `pray`. Did you mean `prey`.*There are: prey"),
    "no such input": (csv("prey,b\n1,2\n"), {"inputs": ["c"]}, "`inputs` must name columns of the data; there is no `c`"),
    "no such time": (csv("prey,b\n1,2\n"), {"time": "when"}, "`time` must name columns"),
    "no columns": (csv("prey,b\n1,2\n"), {"columns": []}, "`columns` must name at least one column"),
    "a column named twice": (csv("a,b\n1,2\n"), {"columns": ["a", "a"]}, "name each column once"),
    "column and input": (csv("a,b\n1,2\n"), {"columns": ["a"], "inputs": ["a"]}, "a is in `columns` and in `inputs`"),
    "column and time": (csv("a,b\n1,2\n"), {"columns": ["a"], "time": "a"}, "`time` must be a column of its own"),
    "two times": (csv("a,b,y\n2020-01-01,2020-01-02,1\n"), {}, "More than one column could be the time: a and b"),
    "unknown suffix": (csv("a\n1\n", name="a.xlsx"), {}, r"must end in one of .csv, .csv.gz, .*\.zarr; got 'a.xlsx'"),
    "an address": (lambda f: "https://example.org/a.csv", {}, "must be a file on this machine"),
    "pickle": (pickled, {}, "pickled objects, which are not read"),
    "pickle in npz": (pickled_npz, {}, "pickled objects, which are not read"),
    "folder for a file": (lambda f: (f / "a.csv").mkdir() or f / "a.csv", {}, "must be a file, as its name says"),
    "file for a folder": (csv("", name="a.zarr"), {}, "must be a folder, as its name says"),
    "empty folder": (lambda f: (f / "a.zarr").mkdir() or f / "a.zarr", {}, "cannot be read as Zarr"),
    "three dimensions": (lambda f: np.zeros((2, 2, 2)), {}, r"shape \(T \+ 1, columns\).* got shape \(2, 2, 2\)"),
    "three dimensions, xarray": (lambda f: xr.DataArray(np.zeros((2, 2, 2))), {}, "one or two dimensions"),
    "two dimensions, xarray": (lambda f: xr.Dataset({"a": ("x", [1.0]), "b": ("z", [1.0])}), {}, "one common dimension"),
    "levels": (lambda f: pandas_frame().set_index(["date", "feed"]), {}, "must have one level, the time; got 2"),
    "step without times": (csv("a,b\n1,2\n"), {"step": 2}, "there is no time column"),
    "inputs with gaps": (
        csv("y,u\n1,2\n3,\n"),
        {"inputs": ["u"]},
        "`u` is missing on 1 of 2 rows, first at 1. Nothing is inter",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name, tmp_path):
    source, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read(source(tmp_path), **options)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no file .*dta.csv. Did you mean data.csv\?"):
        read(misspelt(tmp_path))
    with pytest.raises(TypeError, match="got a Table, which has been read already"):
        read(as_table(np.zeros(3)))
    with pytest.raises(TypeError, match="must be a path, an array or a frame; got dict"):
        read({"y": [1.0, 2.0]})
    with pytest.raises(TypeError, match="Did you mean `columns`"):
        read(np.zeros(3), colums=["y"])


def test_arrays_of_an_npz_that_do_not_fit(tmp_path):
    path = tmp_path / "a.npz"
    for arrays, message in (
        ({"a": np.zeros(3), "b": np.zeros(4)}, "must hold an array `y`, one array alone, or columns of one length"),
        ({"y": np.zeros(3), "times": np.zeros(4)}, "one row for each record; their lengths are"),
        ({"y": np.zeros((3, 2)), "columns": ["a"]}, "must name the 2 columns of `y`; got 1"),
        ({"y": np.zeros(3), "t": np.zeros(3), "time": np.zeros(3)}, "one array of times"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match=message):
            read(path)


def test_reading_a_csv_imports_neither_pandas_nor_polars(tmp_path):
    code = (
        "import sys, nmax; nmax.read(sys.argv[1])\n"
        "assert not {'pandas', 'polars', 'xarray'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code, text(tmp_path, "a.csv")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_examples_of_the_manual():
    manual = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8")
    examples = "\n".join(code for code in re.findall(r"```python\n(.*?)```", manual, re.DOTALL) if ">>>" in code)
    test = doctest.DocTestParser().get_doctest(examples, {}, "data.md", None, 0)
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test)
    assert (failed, tried) == (0, 9)


class TestInputs:
    """Inputs beside the observations: by name, row by row, or by their times."""

    def test_by_name(self):
        table = as_table(pandas_frame(), inputs=["feed"])
        assert (table.columns, table.input_columns) == (("prey", "hares"), ("feed",))

    def test_row_by_row_they_follow_the_sorted_records(self):
        frame = pandas_frame()[["date", "prey"]].iloc[::-1]
        for inputs in (FEED[::-1], pd.DataFrame({"feed": FEED[::-1]})):
            table = as_table(frame, inputs)
            np.testing.assert_array_equal(table.inputs, FEED[:, None])
            np.testing.assert_array_equal(table.y[:, 0], PREY)

    def test_by_their_times(self):
        feed = pd.DataFrame({"feed": np.arange(6.0)}, index=pd.date_range("2020-02-26", periods=6, name="day"))
        table = as_table(pandas_frame()[["date", "prey"]].iloc[[0, 2, 3]], feed)
        np.testing.assert_array_equal(table.inputs, [[1.0], [2.0], [3.0], [4.0]])
        assert table.notes[-1] == "Records of the inputs left out, as they lie before or after the observations: 2."

    def test_their_times_become_those_of_an_array(self):
        table = as_table(PREY, pandas_frame()[["date", "feed"]])
        np.testing.assert_array_equal(table.times, DAYS)
        assert table.time_name == "date"

    def test_beside_a_table(self):
        table = as_table(read(pandas_frame()[["date", "prey"]]), pandas_frame()[["date", "feed"]].iloc[::-1])
        np.testing.assert_array_equal(table.inputs, FEED[:, None])

    def test_refusals(self):
        frame, gap = pandas_frame()[["date", "prey"]], pandas_frame()[["date", "prey"]].iloc[[0, 2, 3]]
        feed = pandas_frame()[["date", "feed"]]
        for y, inputs, message in (
            (gap, FEED[:3], "`u` is missing on 1 of 4 rows, first at 2020-02-28"),
            (frame, feed.iloc[:2], "`feed` is missing on 2 of 4 rows, first at 2020-02-29"),
            (frame, feed.assign(date=DAYS + np.timedelta64(6, "h")), "2020-02-27 06:00 .row 0.* does not"),
            (frame, feed.iloc[[0, 1, 2, 2]], "two of them fall on the same row"),
            (frame, pd.DataFrame({"t": np.arange(4), "feed": FEED}), "must both be numbers, or both dates"),
            (PREY, feed.iloc[::-1], "Pass `y` with its times"),
            (as_table(pandas_frame(), ["feed"]), FEED, "Inputs must be given once"),
            (as_table(frame), ["feed"], "not of a Table"),
        ):
            with pytest.raises(ValueError, match=message):
                as_table(y, inputs)


class TestModels:
    """What the time step of an SDE has to do with the data."""

    def test_numbers_are_put_on_its_grid(self):
        table = as_table(pd.DataFrame({"t": [0.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]}), step=0.1)
        assert table.y.shape == (21, 1)
        np.testing.assert_array_equal(np.flatnonzero(~np.isnan(table.y[:, 0])), [0, 10, 20])
        np.testing.assert_allclose(table.times, np.arange(21) / 10, rtol=1e-15)
        assert as_table(table, step=0.1) is table

    def test_a_table_with_another_step_is_refused(self):
        table = read(pd.DataFrame({"t": [0.0, 1.0, 2.0], "y": [1.0, 2.0, 3.0]}))
        with pytest.raises(
            ValueError, match=r"dt = 0.1; those of the table are 1. Read the data with `nmax.read\(..., step=0.1\)`"
        ):
            as_table(table, step=0.1)

    @pytest.mark.parametrize("method", [nmax.fit, nmax.sample])
    def test_fit_and_sample_hold_it_against_the_data(self, method):
        model = nmax.SDE(
            prior={"pull": dist.LogNormal(0.0, 1.0)},
            initial=lambda theta: jnp.zeros(1),
            drift=lambda x, theta: -theta["pull"] * x,
            diffusion=lambda x, theta: jnp.ones(1),
            dt=0.1,
            observation=lambda x, theta: dist.Normal(x, 0.5).to_event(1),
        )
        every = pd.DataFrame({"t": np.arange(30) * 1.0, "y": np.zeros(30)})
        with pytest.raises(ValueError, match="dt = 0.1; those of the table are 1"):
            method(model, read(every), key=jr.key(0), progress=False)
        with pytest.raises(ValueError, match="bring the times to the units of the model's `dt`, or take a finer one"):
            method(model, every.assign(t=0.14 * np.arange(30)), key=jr.key(0), progress=False)

    def test_dates_get_a_note(self):
        note = "One step, dt = 0.1 of the model, is 1 day."
        assert as_table(pandas_frame(), step=0.1).notes == (note,)
        table = as_table(read(pandas_frame()), step=0.1)
        assert table.notes == (note,)
        assert as_table(table, step=0.1) is table
        assert read_for(0.1, pandas_frame()).notes == (note,)

    def test_rows_that_are_counted_have_no_step(self):
        assert as_table(pd.DataFrame({"y": [1.0, 2.0]}), step=0.1).times is None


@pytest.fixture(scope="module")
def fitted():
    """AR(1) on a frame with dates, one of them missing and all in the wrong order."""
    model = nmax.StateSpaceModel(
        prior={"memory": dist.Uniform(-1.0, 1.0)},
        initial=lambda theta: jnp.zeros(1),
        transition=lambda x, theta: dist.Normal(theta["memory"] * x, 1.0).to_event(1),
        observation=lambda x, theta: dist.Normal(x, 0.5).to_event(1),
        support=constraints.real,
    )
    y = nmax.simulate(model, {"memory": 0.8}, 200, key=jr.key(1)).y
    days = pd.date_range("2020-01-01", periods=201, name="day")
    frame = pd.DataFrame({"level": np.asarray(y)[:, 0]}, index=days).drop(days[50]).iloc[::-1]
    return y, days, nmax.fit(model, frame, key=jr.key(0), progress=False)


def test_a_fit_keeps_names_and_dates(fitted):
    y, days, fit = fitted
    assert isinstance(fit.table, Table)
    assert fit.table.columns == ("level",)
    assert fit.table.time_name == "day"
    np.testing.assert_array_equal(fit.table.times, days.to_numpy())
    np.testing.assert_array_equal(np.delete(fit.table.y, 50, axis=0), np.delete(np.asarray(y), 50, axis=0))
    assert np.isnan(fit.table.y[50]).all()
    assert fit.notes[:2] == fit.table.notes
    assert "not in the order of `day`" in fit.notes[0]
    assert "201 rows from 2020-01-01 to 2020-07-19, 1 day apart; 1 of them" in fit.notes[1]
