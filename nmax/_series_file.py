"""The data of a run: kept in its folder, or, where they are too long for that, the place and the statistics of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmax._store import DamagedFileError, plain, read_arrays, read_json, write_arrays, write_json
from nmax.data import (
    LongSeries,
    ManySeries,
    Series,
    Source,
    Statistics,
    Table,
    Tables,
    as_table,
    make_series,
    source,
    source_of,
    statistics_of,
)

HEAD = 20_000  # rows from the start that are looked at for oddities
DATA, SERIES, STATISTICS = "data.npz", "series.json", "statistics.npz"
FACTS = ("columns", "input_columns", "time_name", "notes")

Arrays = dict[str, np.ndarray]


def keep_table(table: Table | Tables, folder: Path) -> None:
    """Write the data; of rows that are on the disk already, where they are."""
    if isinstance(table, Tables):
        each = [_kept(one) for one in table.each]
        arrays = {f"{k}.{name}": array for k, (own, _) in enumerate(each) for name, array in own.items()}
        facts: dict[str, Any] = {"series": [own for _, own in each]}
    else:
        arrays, facts = _kept(table)
    if "place" in facts:
        write_json(folder / SERIES, facts)
    else:
        write_arrays(folder / DATA, arrays, facts)
        (folder / SERIES).unlink(missing_ok=True)  # of a call that was stopped before it had begun


def read_table(folder: Path) -> Table | Tables:
    """The data of a run."""
    arrays, facts = _read(folder)
    if "series" not in facts:
        return _table(arrays, facts, folder)
    return Tables(tuple(_table(_of(arrays, k), own, folder) for k, own in enumerate(facts["series"])))


def kept_facts(folder: Path) -> list[dict[str, Any]]:
    """What a run says of each of its series, `columns` for one and `place` for one on disk, which need not be there."""
    _, facts = _read(folder)
    return facts.get("series", [facts])


def moved(table: Table | Tables, folder: Path) -> bool:
    """Whether rows on the disk lie elsewhere than the run folder says."""
    each = table.each if isinstance(table, Tables) else (table,)
    if all(source_of(one) is None for one in each):
        return False
    try:
        return [_place(one) for one in each] != [own.get("place") for own in kept_facts(folder)]
    except (FileNotFoundError, DamagedFileError):
        return True


def _read(folder: Path) -> tuple[Arrays, dict[str, Any]]:
    """What `keep_table` has written."""
    if (folder / SERIES).exists():
        return {}, {"place": None, **read_json(folder / SERIES)}
    return read_arrays(folder / DATA)


def _place(table: Table) -> str | None:
    """Where rows on the disk lie, if they are in a file."""
    place = source_of(table)
    return None if place is None or place.place is None else os.path.abspath(place.place)


def _kept(table: Table) -> tuple[Arrays, dict[str, Any]]:
    """A table as arrays and facts; of rows that are on the disk, facts alone."""
    place = source_of(table)
    if place is not None:
        names = {"columns": place.columns, "input_columns": place.input_columns, "rows": place.rows}
        return {}, {"place": _place(table), **names}
    arrays = {"y": np.asarray(table.y), "inputs": table.inputs, "times": table.times}
    present = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    return present, {name: getattr(table, name) for name in FACTS}


def _table(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], folder: Path) -> Table:
    """The table of `_kept`."""
    if "place" in facts:
        return as_table(_source(facts, folder))
    texts = {name: tuple(facts[name]) for name in ("columns", "input_columns", "notes")}
    return Table(arrays["y"], arrays.get("inputs"), times=arrays.get("times"), time_name=facts["time_name"], **texts)


def _source(facts: Mapping[str, Any], folder: Path) -> Source:
    if not isinstance(facts["place"], str):
        raise DamagedFileError(f"{folder} must say where the series is; it does not. Pass the source to `nmax.fit` again.")
    try:
        return source(facts["place"], **_options(facts))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The series of {folder} must be where it was, in {facts['place']}; it is gone. Put it back, or pass it from "
            "its new place: `nmax.load(folder, model, nmax.source(...))`. `nmax.resume` with the same, or the call or "
            "command that fitted it with the new place, also writes down where it is now."
        ) from error


def _of(arrays: Mapping[str, np.ndarray], number: int) -> Arrays:
    """Those of one of several series."""
    begin = f"{number}."
    return {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}


def series_of(table: Table | Tables, folder: Path | None, progress: bool) -> Series | LongSeries | ManySeries:
    """The series of a table; of one on disk after a pass over it, unless the folder has what an earlier one found."""
    arrays, facts = _findings(folder)
    if not isinstance(table, Tables):
        return _series(table, arrays, facts, progress)
    members = []
    for k, one in enumerate(table.each):
        try:
            members.append(_series(one, _of(arrays, k), facts.get(str(k)), progress))
        except ValueError as error:
            raise ValueError(f"Series {k} of the list: {error}") from error
    return ManySeries(members)


def keep_statistics(series: Series | LongSeries | ManySeries, folder: Path) -> None:
    """What the passes over series on disk have found; where it cannot be written, a later call passes over them again."""
    if isinstance(series, ManySeries):
        each = {k: _written(one) for k, one in enumerate(series.own) if isinstance(one, LongSeries)}
        arrays = {f"{k}.{name}": array for k, (own, _) in each.items() for name, array in own.items()}
        facts = {str(k): told for k, (_, told) in each.items()}
    else:
        arrays, facts = _written(series) if isinstance(series, LongSeries) else ({}, {})
    if facts and _findings(folder)[1] != plain(facts):
        with contextlib.suppress(OSError):
            write_arrays(folder / STATISTICS, arrays, facts)


def check_unchanged(series: Series | LongSeries | ManySeries) -> None:
    """Refuse to go on with rows on the disk that are not those that were there at first."""
    for one in series.members if isinstance(series, ManySeries) else (series,):
        if isinstance(one, LongSeries):
            one.source.check_unchanged()


def _findings(folder: Path | None) -> tuple[Arrays, dict[str, Any]]:
    """What passes of an earlier call found; nothing if there was none, or its file cannot be read."""
    try:
        return ({}, {}) if folder is None else read_arrays(folder / STATISTICS)
    except (OSError, DamagedFileError):
        return {}, {}


def _series(table: Table, arrays: Arrays, facts: dict[str, Any] | None, progress: bool) -> Series | LongSeries:
    place = source_of(table)
    if place is None:
        return make_series(table.y, table.inputs)
    about = _about(place)
    if facts and about["stamp"] is not None and all(facts.get(name) == fact for name, fact in about.items()):
        return LongSeries(place, Statistics(**{k: _plain(array) for k, array in arrays.items()}, sha256=facts["sha256"]))
    return LongSeries(place, _passed_over(place, progress))  # touched or changed since: its checksum will tell


def _passed_over(place: Source, progress: bool) -> Statistics:
    from tqdm import tqdm

    with tqdm(total=place.rows, unit="row", unit_scale=True, desc="look at the series", disable=not progress) as bar:
        return statistics_of(place, lambda done, rows: bar.update(done - bar.n))


def _written(series: LongSeries) -> tuple[Arrays, dict[str, Any]]:
    """What the pass over a series has found, as arrays and facts."""
    found = dataclasses.asdict(series.statistics)
    arrays = {name: np.asarray(value) for name, value in found.items() if name != "sha256"}
    return arrays, {"sha256": found["sha256"], **_about(series.source)}


def _about(place: Source) -> dict[str, Any]:
    """What a pass was over: the file as it was then, and which of its columns; of the columns alone no checksum is known."""
    stamp = getattr(place, "stamp", None)
    return plain(
        {
            "place": None if place.place is None else os.path.abspath(place.place),
            "columns": place.columns,
            "input_columns": place.input_columns,
            "stamp": None if stamp is None else stamp[:2],
        }
    )


def _plain(array: np.ndarray) -> Any:
    return array if array.ndim else array.item()


def _options(kept: Mapping[str, Any]) -> dict[str, Any]:
    suffix = Path(kept["place"]).suffix
    if suffix == ".npy":
        return {"inputs": len(kept["input_columns"])}
    return {"columns": kept["columns"], "inputs": kept["input_columns"]} if suffix == ".parquet" else {}


def looked_at(series: Series | LongSeries | ManySeries, table: Table | Tables) -> tuple[Series, Table, tuple[str, ...]]:
    """What checks of a model look at before any work: everything, or some rows of a series on disk, or of several.

    Those are numbered anew; what to call them is returned beside them.
    """
    if isinstance(series, Series):
        assert isinstance(table, Table)
        return series, table, ()
    rows = telling_rows(series)
    if isinstance(series, ManySeries):
        assert isinstance(table, Tables)
        names = tuple(f"row {row} of series {k}" for k, row in series.places(rows))
        return series.sampled(rows), table.joined(HEAD), names
    assert isinstance(table, Table)
    inputs = None if table.inputs is None else table.inputs[:HEAD]
    head = dataclasses.replace(table, y=table.y[:HEAD], inputs=inputs)
    return series.sampled(rows), head, tuple(f"row {row}" for row in rows)


def telling_rows(series: LongSeries | ManySeries, most: int = 500) -> np.ndarray:
    """Rows at which a model's densities are tried: spread over the series, and the extremes of every column."""
    extremes = series.extremes
    spread = np.linspace(0, series.rows - 1, min(most, series.rows)).astype(np.int64)
    chosen = np.unique(np.concatenate([spread, extremes.ravel()]))
    return np.pad(chosen, (0, max(0, min(most + extremes.size, series.rows) - len(chosen))), mode="edge")
