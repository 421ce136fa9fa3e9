"""The data of a run: kept in its folder, or, where they are too long for that, the place and the statistics of them."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from nmax._store import DamagedFileError, read_arrays, read_json, write_arrays, write_json
from nmax.data import LongSeries, Series, Source, Statistics, Table, as_table, make_series, source, source_of, statistics_of

HEAD = 20_000  # rows from the start that are looked at for oddities
DATA, SERIES, STATISTICS = "data.npz", "series.json", "statistics.npz"


def keep_table(table: Table, folder: Path) -> None:
    """Write the data; of rows that are on the disk already, where they are."""
    place = source_of(table)
    if place is not None:
        names = {"columns": place.columns, "input_columns": place.input_columns, "rows": place.rows}
        write_json(folder / SERIES, {"place": None if place.place is None else str(place.place.resolve()), **names})
        return
    arrays = {"y": np.asarray(table.y), "inputs": table.inputs, "times": table.times}
    facts = {name: getattr(table, name) for name in ("columns", "input_columns", "time_name", "notes")}
    write_arrays(folder / DATA, {name: np.asarray(array) for name, array in arrays.items() if array is not None}, facts)


def read_table(folder: Path) -> Table:
    """The data of a run."""
    if (folder / SERIES).exists():
        kept = read_json(folder / SERIES)
        if not isinstance(kept.get("place"), str):
            raise DamagedFileError(f"{folder / SERIES} must say where the series is; pass the source to `nmax.fit` again.")
        return as_table(source(kept["place"], **_options(kept)))
    arrays, facts = read_arrays(folder / DATA)
    texts = {name: tuple(facts[name]) for name in ("columns", "input_columns", "notes")}
    return Table(arrays["y"], arrays.get("inputs"), times=arrays.get("times"), time_name=facts["time_name"], **texts)


def series_of(table: Table, folder: Path | None, progress: bool) -> Series | LongSeries:
    """The series of a table; of a long one on disk after a pass over it, whose findings are kept in the folder."""
    place = source_of(table)
    if place is None:
        return make_series(table.y, table.inputs)
    kept = None if folder is None else _kept(folder / STATISTICS, place)
    return LongSeries(place, _passed_over(place, progress) if kept is None else kept)


def keep_statistics(series: Series | LongSeries, folder: Path) -> None:
    """What the pass over a long series has found; where it cannot be written, a later call passes over it again."""
    if not isinstance(series, LongSeries) or _kept(folder / STATISTICS, series.source) is not None:
        return
    found, place = series.statistics, series.source
    arrays = {name: np.asarray(value) for name, value in dataclasses.asdict(found).items() if name != "sha256"}
    with contextlib.suppress(OSError):
        write_arrays(folder / STATISTICS, arrays, {"sha256": found.sha256, "stamp": getattr(place, "stamp", None)})


def _passed_over(place: Source, progress: bool) -> Statistics:
    from tqdm import tqdm

    with tqdm(total=place.rows, unit="row", unit_scale=True, desc="look at the series", disable=not progress) as bar:
        return statistics_of(place, lambda done, rows: bar.update(done - bar.n))


def _kept(file: Path, place: Source) -> Statistics | None:
    """What the pass of an earlier call found; None if there was none, or the series may be another one by now."""
    try:
        arrays, facts = read_arrays(file)
    except (FileNotFoundError, DamagedFileError):
        return None
    stamp = getattr(place, "stamp", None)
    if stamp is None or list(stamp[:2]) != list(facts["stamp"] or [])[:2]:
        return None  # touched or changed: its checksum will tell
    return Statistics(**{name: _plain(array) for name, array in arrays.items()}, sha256=facts["sha256"])


def _plain(array: np.ndarray) -> Any:
    return array if array.ndim else array.item()


def _options(kept: dict[str, Any]) -> dict[str, Any]:
    suffix = Path(kept["place"]).suffix
    if suffix == ".npy":
        return {"inputs": len(kept["input_columns"])}
    return {"columns": kept["columns"], "inputs": kept["input_columns"]} if suffix == ".parquet" else {}


def looked_at(series: Series | LongSeries, table: Table) -> tuple[Series, Table]:
    """What checks of a model look at before any work: everything, or some rows of a series on disk."""
    if not isinstance(series, LongSeries):
        return series, table
    inputs = None if table.inputs is None else table.inputs[:HEAD]
    return series.sampled(telling_rows(series)), dataclasses.replace(table, y=table.y[:HEAD], inputs=inputs)


def telling_rows(series: LongSeries, most: int = 500) -> np.ndarray:
    """Rows at which a model's densities are tried: spread over the series, and the extremes of every column."""
    spread = np.linspace(0, series.length, min(most, series.length + 1)).astype(np.int64)
    chosen = np.unique(np.concatenate([spread, series.statistics.extremes.ravel()]))
    return np.pad(
        chosen, (0, max(0, min(most + series.statistics.extremes.size, series.length + 1) - len(chosen))), mode="edge"
    )
