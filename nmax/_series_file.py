"""The data of a run: kept in its folder, or, where they are too long for that, the place and the statistics of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmax._store import DamagedFileError, read_arrays, read_json, write_arrays, write_json
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
        write_arrays(folder / DATA, arrays, {"series": [facts for _, facts in each]})
        return
    arrays, facts = _kept(table)
    if "place" in facts:
        write_json(folder / SERIES, facts)
    else:
        write_arrays(folder / DATA, arrays, facts)


def read_table(folder: Path) -> Table | Tables:
    """The data of a run."""
    if (folder / SERIES).exists():
        return _table({}, read_json(folder / SERIES), folder / SERIES)
    arrays, facts = read_arrays(folder / DATA)
    if "series" not in facts:
        return _table(arrays, facts, folder / DATA)
    each = enumerate(facts["series"])
    return Tables(tuple(_table(_of(arrays, k), own, folder / DATA) for k, own in each))


def _kept(table: Table) -> tuple[Arrays, dict[str, Any]]:
    """A table as arrays and facts; of rows that are on the disk, facts alone."""
    place = source_of(table)
    if place is not None:
        names = {"columns": place.columns, "input_columns": place.input_columns, "rows": place.rows}
        return {}, {"place": None if place.place is None else str(place.place.resolve()), **names}
    arrays = {"y": np.asarray(table.y), "inputs": table.inputs, "times": table.times}
    present = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    return present, {name: getattr(table, name) for name in FACTS}


def _table(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], file: Path) -> Table:
    """The table of `_kept`."""
    if "place" in facts or file.name == SERIES:
        if not isinstance(facts.get("place"), str):
            raise DamagedFileError(f"{file} must say where the series is; pass the source to `nmax.fit` again.")
        return as_table(source(facts["place"], **_options(facts)))
    texts = {name: tuple(facts[name]) for name in ("columns", "input_columns", "notes")}
    return Table(arrays["y"], arrays.get("inputs"), times=arrays.get("times"), time_name=facts["time_name"], **texts)


def _of(arrays: Mapping[str, np.ndarray], number: int) -> Arrays:
    """Those of one of several series."""
    begin = f"{number}."
    return {name.removeprefix(begin): array for name, array in arrays.items() if name.startswith(begin)}


def series_of(table: Table | Tables, folder: Path | None, progress: bool) -> Series | LongSeries | ManySeries:
    """The series of a table; of a long one on disk after a pass over it, whose findings are kept in the folder."""
    file = None if folder is None else folder / STATISTICS
    if isinstance(table, Tables):
        return _several(table, file, progress)
    place = source_of(table)
    if place is None:
        return make_series(table.y, table.inputs)
    if file is not None and file.exists():
        return LongSeries(place, _statistics(*read_arrays(file), place))
    found = _passed_over(place, progress)
    if file is not None and file.parent.is_dir():
        write_arrays(file, *_written(found, place))
    return LongSeries(place, found)


def _several(table: Tables, file: Path | None, progress: bool) -> ManySeries:
    """Several series, one by one; what passes over those on disk found is kept in one file."""
    arrays, facts = read_arrays(file) if file is not None and file.exists() else ({}, {})
    members, found = [], {}
    for k, one in enumerate(table.each):
        place, told = source_of(one), facts.get(str(k))
        try:
            if place is None:
                members.append(make_series(one.y, one.inputs))
                continue
            found[k] = _passed_over(place, progress) if told is None else _statistics(_of(arrays, k), told, place)
        except ValueError as error:
            raise ValueError(f"Series {k} of the list: {error}") from error
        members.append(LongSeries(place, found[k]))
    if file is not None and file.parent.is_dir() and not facts and found:
        each = {k: _written(own, members[k].source) for k, own in found.items()}
        kept = {f"{k}.{name}": array for k, (own, _) in each.items() for name, array in own.items()}
        write_arrays(file, kept, {str(k): told for k, (_, told) in each.items()})
    return ManySeries(members)


def _passed_over(place: Source, progress: bool) -> Statistics:
    from tqdm import tqdm

    with tqdm(total=place.rows, unit="row", unit_scale=True, desc="look at the series", disable=not progress) as bar:
        return statistics_of(place, lambda done, rows: bar.update(done - bar.n))


def _written(found: Statistics, place: Source) -> tuple[Arrays, dict[str, Any]]:
    """Statistics as arrays and facts."""
    arrays = {name: np.asarray(value) for name, value in dataclasses.asdict(found).items() if name != "sha256"}
    return arrays, {"sha256": found.sha256, "stamp": getattr(place, "stamp", None)}


def _statistics(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any], place: Source) -> Statistics:
    """What the pass of an earlier call found, if the file is still the same."""
    stamp = getattr(place, "stamp", None)
    if "sha256" not in facts or (stamp is not None and list(stamp[:2]) != list(facts["stamp"] or [])[:2]):
        return statistics_of(place)  # touched, changed, or of several series: its checksum will tell
    return Statistics(**{name: _plain(array) for name, array in arrays.items()}, sha256=facts["sha256"])


def _plain(array: np.ndarray) -> Any:
    return array if array.ndim else array.item()


def _options(kept: Mapping[str, Any]) -> dict[str, Any]:
    suffix = Path(kept["place"]).suffix
    if suffix == ".npy":
        return {"inputs": len(kept["input_columns"])}
    return {"columns": kept["columns"], "inputs": kept["input_columns"]} if suffix == ".parquet" else {}


def looked_at(series: Series | LongSeries | ManySeries, table: Table | Tables) -> tuple[Series, Table]:
    """What checks of a model look at before any work: everything, or some rows of a series on disk, or of several."""
    if isinstance(series, Series):
        assert isinstance(table, Table)
        return series, table
    if isinstance(table, Tables):
        return series.sampled(telling_rows(series)), table.joined(HEAD)
    inputs = None if table.inputs is None else table.inputs[:HEAD]
    return series.sampled(telling_rows(series)), dataclasses.replace(table, y=table.y[:HEAD], inputs=inputs)


def telling_rows(series: LongSeries | ManySeries, most: int = 500) -> np.ndarray:
    """Rows at which a model's densities are tried: spread over the series, and the extremes of every column."""
    extremes = series.extremes
    spread = np.linspace(0, series.rows - 1, min(most, series.rows)).astype(np.int64)
    chosen = np.unique(np.concatenate([spread, extremes.ravel()]))
    return np.pad(chosen, (0, max(0, min(most + extremes.size, series.rows) - len(chosen))), mode="edge")
