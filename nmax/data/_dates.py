"""From a column of dates, or of text that spells dates, to instants in nanoseconds."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any, NoReturn

import numpy as np

from nmax.data._raw import Raw, kind, plain

EARLIEST, LATEST = np.datetime64("1678-01-01"), np.datetime64("2262-01-01")  # what 64 bits of nanoseconds span
FORMS = "2020-01-31, 2020-01-31 23:59:00, 2020-01 or 2020Q1"


@dataclasses.dataclass(frozen=True)
class Dates:
    """Instants.

    Attributes:
        values: `datetime64[ns]`, in UTC if there is a time zone; NaT where a time is missing.
        local: as the clock on the wall showed them.
        zone: the time zone they came in, or None.
    """

    values: np.ndarray
    local: np.ndarray
    zone: str | None = None


def dates_of(raw: Raw, name: str) -> Dates:
    """The dates in a column of dates or of text."""
    column = raw.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        values = np.ma.filled(column, np.datetime64("NaT"))
        if len(beyond := np.flatnonzero((values < EARLIEST) | (values > LATEST))):
            _refuse_range(raw, name, values[beyond[0]], int(beyond[0]))
        return Dates(values := values.astype("datetime64[ns]"), values)
    if kind(column) == "text":
        return _parsed(raw, name)
    return _from_arrow(raw, name, column)


def _from_arrow(raw: Raw, name: str, column: Any) -> Dates:
    import pyarrow as pa
    import pyarrow.compute as pc

    zone = getattr(column.type, "tz", None)
    try:
        column = column.cast(pa.timestamp("ns", zone))
    except pa.ArrowInvalid:
        days = _instants(column.cast(pa.timestamp("s", zone), safe=False), "s")
        beyond = int(np.flatnonzero((days < EARLIEST) | (days > LATEST))[0])
        _refuse_range(raw, name, days[beyond], beyond)
    values = _instants(column)
    if zone is None or zone == "UTC":
        return Dates(values, values, zone)
    return Dates(values, _instants(pc.call_function("local_timestamp", [column])), zone)


def _instants(column: Any, unit: str = "ns") -> np.ndarray:
    return plain(column, np.dtype(f"datetime64[{unit}]"), np.datetime64("NaT"))


def _parsed(raw: Raw, name: str) -> Dates:
    """Text as dates: what Arrow reads as ISO 8601, with or without a time zone, or months and quarters."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = raw.columns[name]
    text = pa.chunked_array([pa.array(column, pa.string())]) if isinstance(column, np.ndarray) else column.cast("string")
    text = pc.call_function("utf8_trim_whitespace", [text])
    empty = pc.call_function("equal", [text, ""])
    text = pc.call_function("if_else", [empty, pa.scalar(None, pa.string()), text])
    for zone in (None, "UTC"):
        try:
            return _from_arrow(raw, name, pc.cast(text, pa.timestamp("ns", zone)))
        except pa.ArrowInvalid:
            continue
    cells = text.to_pylist()
    months = [_month(cell) for cell in cells]
    if wrong := [k for k, cell in enumerate(cells) if cell is not None and months[k] is None]:
        worst = next((k for k in wrong if not is_date(cells[k])), wrong[0])
        raise ValueError(
            f"Times must be numbers, or dates such as {FORMS}, all of one form; got {cells[worst]!r} in column `{name}` at "
            f"{raw.where([worst])}."
        )
    values = np.array([month or "NaT" for month in months], "datetime64[M]").astype("datetime64[ns]")
    return Dates(values, values)


def is_date(cell: str) -> bool:
    """Whether a text is a date, a date with a time of day, a month or a quarter."""
    try:
        datetime.datetime.fromisoformat(cell)
    except ValueError:
        return _month(cell) is not None
    return True


def _month(cell: str | None) -> str | None:
    """2020-01, 2020M01, 2020Q1 or 2020-Q1 as the month that it begins with."""
    if cell is None:
        return None
    if found := re.fullmatch(r"(\d{4})(?:-|M)(0[1-9]|1[0-2])", cell):
        return f"{found[1]}-{found[2]}"
    if found := re.fullmatch(r"(\d{4})-?Q([1-4])", cell):
        return f"{found[1]}-{3 * int(found[2]) - 2:02d}"
    return None


def _refuse_range(raw: Raw, name: str, date: Any, record: int) -> NoReturn:
    raise ValueError(
        f"Dates must lie between the years 1678 and 2261; got {date} in column `{name}` at {raw.where([record])}. "
        "For others pass times as numbers."
    )


def spoken(time: Any) -> str:
    """A time in words: a number, or a date without zeros that say nothing."""
    if not isinstance(time, np.datetime64):
        return f"{time:.12g}"
    text = str(time).replace("T", " ")
    text = re.sub(r"\.(\d*?)0+$", lambda found: f".{found[1]}" if found[1] else "", text)
    return re.sub(r" 00:00(:00)?$|(?<=\d\d:\d\d):00$", "", text)
