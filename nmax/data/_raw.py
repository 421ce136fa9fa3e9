"""`Raw`: columns as a source holds them, what each of them is, and where its records stand."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

NUMPY_KINDS = {
    "i": "numbers",
    "u": "numbers",
    "f": "numbers",
    "M": "dates",
    "b": "true and false",
    "c": "complex numbers",
    "m": "lengths of time",
    "U": "text",
    "T": "text",
    "S": "bytes",
    "O": "objects",
}
ARROW_KINDS = {  # test of `pyarrow.types` -> what a column is
    "is_null": "numbers",  # nothing but gaps
    "is_integer": "numbers",
    "is_floating": "numbers",
    "is_decimal": "numbers",
    "is_timestamp": "dates",
    "is_date": "dates",
    "is_time": "times of day without a date",
    "is_duration": "lengths of time",
    "is_boolean": "true and false",
    "is_string": "text",
    "is_large_string": "text",
    "is_string_view": "text",
}
SHOWN = 5  # entries of a list that a message spells out


def listed(entries: Sequence[Any]) -> str:
    """Some of them in words: `a, b and c`, or `a, b, c, d, e and 12 more`."""
    shown = [str(entry) for entry in entries[:SHOWN]]
    if len(entries) > SHOWN:
        shown.append(f"{len(entries) - SHOWN:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def rows_named(records: Sequence[int]) -> str:
    """Where records stand in something that is held in memory."""
    return f"row{'s' if len(records) > 1 else ''} {listed(records)} (counted from 0)"


@dataclasses.dataclass(frozen=True)
class Raw:
    """Columns of one length, by name.

    Attributes:
        columns: name -> NumPy array of one dimension, or Arrow column, in the order of the source.
        where: numbers of records -> where they stand, in words: `line 7`.
        index: name of the column that labels the rows and is no observation: a frame's index, xarray's coordinate.
        inputs: names of the columns that the source itself holds to be inputs.
        notes: what was noticed, in sentences.
        ordered: whether the source has an order of columns of its own.
    """

    columns: dict[str, Any]
    where: Callable[[Sequence[int]], str] = rows_named
    index: str | None = None
    inputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ordered: bool = True

    @property
    def length(self) -> int:
        """The number of records."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def kind(column: Any) -> str:
    """What a column holds: `numbers`, `dates`, `text`, or something that is of no use here."""
    if isinstance(column, np.ndarray):
        return NUMPY_KINDS.get(column.dtype.kind, str(column.dtype))
    from pyarrow import types

    arrow = column.type.value_type if types.is_dictionary(column.type) else column.type
    return next((name for test, name in ARROW_KINDS.items() if getattr(types, test)(arrow)), str(arrow))


def numbers(column: Any) -> np.ndarray:
    """A column of numbers as float64, NaN where it has a gap; not copied where that can be avoided."""
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.filled(column.astype(np.float64), np.nan)
    if isinstance(column, np.ndarray):
        return column.astype(np.float64, copy=False)
    return plain(column.cast("float64", safe=False), np.dtype(np.float64), np.nan)


def plain(column: Any, dtype: np.dtype, missing: Any = None) -> np.ndarray:
    """An Arrow column as an array, from its buffers: Arrow's own `to_numpy` would import pandas."""
    chunks = [np.zeros(0, dtype)]
    for chunk in column.chunks:
        valid, values = chunk.buffers()
        stretch = slice(chunk.offset, chunk.offset + len(chunk))
        entries = np.frombuffer(values or b"", dtype)[stretch] if len(chunk) else chunks[0]
        if chunk.null_count:
            real = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[stretch].astype(bool)
            entries = np.where(real, entries, missing)
        chunks.append(entries)
    return chunks[1] if len(chunks) == 2 else np.concatenate(chunks)


def whole_numbers(column: Any) -> bool:
    """Whether a column holds integers, and no gaps."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "iu" and not np.ma.is_masked(column)
    from pyarrow import types

    return types.is_integer(column.type) and column.null_count == 0


def precision(column: Any) -> float:
    """To how much of themselves the numbers of a column are rounded."""
    name = str(column.dtype if isinstance(column, np.ndarray) else column.type)
    small = {"float32": np.float32, "float": np.float32, "float16": np.float16, "halffloat": np.float16}
    return float(np.finfo(small.get(name, np.float64)).eps)


def repeated(names: Sequence[str]) -> list[str]:
    """The names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def check_names(names: Sequence[str], source: str) -> None:
    """Refuse names that do not tell columns apart."""
    if twice := repeated(names):
        raise ValueError(f"The columns of {source} must have different names; {listed(twice)} occurs more than once.")


def say_why_not_numbers(column: Any, where: Callable[[Sequence[int]], str]) -> tuple[str, bool]:
    """What a column that is not of numbers holds, in words, and whether it seems to be meant as numbers."""
    what = kind(column)
    if what == "objects":
        odd = next((record for record, cell in enumerate(column) if not isinstance(cell, Number | None)), None)
        if odd is None:
            return "it holds numbers as objects; convert them with `.astype(float)`", True
        return f"it holds objects, {column[odd]!r} at {where([odd])} for one", any(
            isinstance(cell, Number) for cell in column
        )
    if what != "text":
        return f"it holds {what}", False
    cells = column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()
    texts = [(record, cell) for record, cell in enumerate(cells) if cell is not None and cell.strip()]
    for record, cell in texts:
        if (advice := _nearly_a_number(cell.strip())) is not None:
            return f"it holds text: {cell!r} at {where([record])} {advice}", True
    other = next(((record, cell) for record, cell in texts if not _is_number(cell)), None)
    if other is None:
        return "it holds numbers as text; convert them, `frame[name].astype(float)` say", True
    say = f"it holds text, {other[1]!r} at {where([other[0]])} for one"
    return say, any(_is_number(cell) for _, cell in texts)


def _nearly_a_number(cell: str) -> str | None:
    """What keeps a text from being read as a number, if only its way of writing does."""
    sign, grouped = r"[+-]?", r"\d{1,3}"
    if re.fullmatch(rf"{sign}{grouped}(,\d{{3}})+(\.\d*)?|{sign}{grouped}([ '’\u00a0\u202f]\d{{3}})+([.,]\d*)?", cell):
        return "looks like a number with thousands separators, or a decimal comma; write digits and a decimal point alone"
    if re.fullmatch(rf"{sign}\d+(\.\d{{3}})*,\d*([eE][+-]?\d+)?", cell):
        return "looks like a number with a decimal comma; write a point instead, and no thousands separators"
    if re.fullmatch(rf"{sign}\d+(\.\d*)?\s*%", cell):
        return "is a percentage; write the number alone"
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
