"""From text files with separated values to columns, and from records back to lines."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmax.data._dates import is_date
from nmax.data._raw import Raw, check_names, kind, listed, numbers

MISSING = ["", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "."]


def read_csv(path: Path, separator: str | None = None) -> Raw:
    """The columns of a file whose first line names them.

    Args:
        path: of the file; one that ends in `.gz` is unpacked on the way.
        separator: between the values; by default a comma, or where the first line has none, a semicolon or a tab.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    separator, names, blank = _header(path, separator)
    odd: list[Any] = []
    alone = len(names) == 1  # in a file of one column, an empty line is a gap
    gaps = _blank_lines(path) if alone else []
    try:
        table = arrow.read_csv(
            path,
            read_options=arrow.ReadOptions(skip_rows=blank, column_names=None),
            parse_options=arrow.ParseOptions(
                delimiter=separator,
                ignore_empty_lines=not alone,
                invalid_row_handler=lambda row: odd.append(row) or "error",
            ),
            convert_options=arrow.ConvertOptions(
                null_values=MISSING + [f" {text}" for text in MISSING], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(_why_not(path, names, odd, error)) from error
    columns = dict(zip(names, table.columns, strict=True))
    del table
    notes = ()
    if alone:
        trailing = _trailing(gaps, len(columns[names[0]]) + blank + 1)
        columns[names[0]] = columns[names[0]].slice(0, len(columns[names[0]]) - trailing)
        if inside := len(gaps) - trailing - blank:
            notes = (f"Empty lines, taken as missing values: {inside:,}.",)
    raw = Raw(columns, lambda records: _lines_named(path, records, alone), notes=notes)
    return _without_row_numbers(raw)


def _without_row_numbers(raw: Raw) -> Raw:
    """Leave out a column without a name that counts the rows or is empty, and call one that holds dates `time`."""
    if "" not in raw.columns:
        return raw
    columns = dict(raw.columns)
    column = columns.pop("")
    if kind(column) == "numbers":
        values = numbers(column)
        counted = np.array_equal(values, np.arange(len(values))) or np.array_equal(values, np.arange(1, len(values) + 1))
        if not counted and not np.isnan(values).all():
            raise ValueError("Every column must have a name; one without holds numbers. Name it in the first line.")
        said = (*raw.notes, "A column without a name, which counts the rows, was left out.") if counted else raw.notes
        return Raw(columns, raw.where, notes=said)
    if "time" in columns:
        raise ValueError("Every column must have a name; one has none. Name it in the first line.")
    return Raw({"time": column, **columns}, raw.where, index="time", notes=raw.notes)


def _header(path: Path, separator: str | None) -> tuple[str, list[str], int]:
    """The separator, the names of the columns, and how many empty lines come before them."""
    blank = 0
    try:
        for line in _lines(path):
            if line.strip("\r\n \t"):
                break
            blank += 1
        else:
            raise ValueError(f"The file must hold a line of column names and rows below it; {path} is empty.")
    except UnicodeDecodeError as error:
        raise ValueError(f"The file must be text in UTF-8; {path} is not. Save it as UTF-8.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} must be packed by gzip, as its name says; it is not: {error}.") from error
    line = line.rstrip("\r\n")
    if separator is None:
        separator = next((mark for mark in ",;\t" if mark in line), ",")
    names = [name.strip() for name in next(csv.reader([line], delimiter=separator))]
    check_names(names, str(path))
    if all(_is_value(name) for name in names):
        raise ValueError(
            f"The first line of the file must name the columns; that of {path} holds values: {listed(names)}. "
            "Add a line of names above it."
        )
    return separator, names, blank


def _is_value(name: str) -> bool:
    """Whether what should be a name is a number or a date."""
    try:
        float(name)
    except ValueError:
        return name in MISSING or is_date(name)
    return True


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        yield from file


def _blank_lines(path: Path) -> list[int]:
    """Which lines are empty, counted from 0."""
    return [number for number, line in enumerate(_lines(path)) if not line.strip("\r\n")]


def _trailing(blank: list[int], lines: int) -> int:
    """How many of the last lines are empty."""
    count = 0
    while count < len(blank) and blank[-1 - count] == lines - 1 - count:
        count += 1
    return count


def _lines_named(path: Path, records: Sequence[int], alone: bool) -> str:
    """The lines of the file that records stand on, counted from 1 as editors do."""
    lines = enumerate(_lines(path), start=1)
    next(number for number, line in lines if line.strip())  # that of the names
    places = (number for number, line in lines if alone or line.strip("\r\n"))
    wanted = set(records)
    found = {record: number for record, number in enumerate(places) if record in wanted}
    return f"line{'s' if len(records) > 1 else ''} {listed([found[record] for record in records])}"


def _why_not(path: Path, names: list[str], odd: list[Any], error: Exception) -> str:
    if odd:
        number = next((n for n, line in enumerate(_lines(path), 1) if line.rstrip("\r\n") == odd[0].text), None)
        return (
            f"Every line of the file must have as many values as there are names, {len(names)}; line {number} of {path} has "
            f"{odd[0].actual_columns}: {odd[0].text!r}."
        )
    return f"{path} cannot be read as a table of separated values: {error}."
