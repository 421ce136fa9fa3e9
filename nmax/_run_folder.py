"""The run folder: settings, data, checkpoints and results of a fit in plain files; see docs/run-folder.md."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nmax._checkpoint import FolderKeeper
from nmax._claim import FINISHED, RUN, RUNNING, Claim, RunInUseError
from nmax._guide_file import guide_arrays, guide_recipe
from nmax._identity import data_identity, differences, model_identity, versions
from nmax._processes import processes, writes
from nmax._series_file import DATA, SERIES, STATISTICS, check_unchanged, keep_statistics, keep_table, moved
from nmax._settings import FitSettings
from nmax._stages import history_written, modes_written
from nmax._step import History
from nmax._store import (
    DamagedFileError,
    plain,
    read_arrays,
    read_json,
    remove_partials,
    whole_file,
    write_arrays,
    write_bytes,
    write_json,
)
from nmax.data import LongSeries, ManySeries, Series, Table, Tables
from nmax.models import AbstractModel

AnySeries = Series | LongSeries | ManySeries

FORMAT = 1
FITTED, CHECKPOINTS = "fitted.npz", "checkpoints"
HISTORY, SUMMARY, CHECK, RESULTS = "history.csv", "summary.json", "check.json", "posterior.nc"
OWN = (RUN, FITTED, HISTORY, SUMMARY, DATA, SERIES, STATISTICS, "source.json", "model.txt")  # what nothing but a fit writes
EVERY = 30.0  # seconds between two checkpoints
SHORT, PATHS = 100_000, 100  # numbers of a path up to which the results hold paths, and how many


def begin(
    claim: Claim, model: AbstractModel, table: Table | Tables, series: AnySeries, settings: FitSettings, every: float
) -> tuple[FolderKeeper, bool]:
    """Make a run folder ready, or take up one that is there; refused if it is of something else, or somebody else's.

    Returns:
        Where checkpoints are kept, and whether the run is finished already.
    """
    folder: Any = claim.folder
    described = {
        "model": model_identity(model, series),
        "data": data_identity(series),
        "settings": settings.described(),
    }
    together, failure = processes(), None
    if together is None or together.first:
        try:
            _begun(claim, folder, table, series, described)
        except (RunInUseError, OSError) as error:
            failure = error
    fine = failure is None if together is None else together.agreed(failure is None)  # the first one has written by now
    if failure is not None:
        raise failure
    if not fine:
        raise OSError(f"`out` must be a folder that the first process can use; {folder} is not. See what that one says.")
    kept = read_run(folder)
    check_same(folder, kept, described)
    if together is None or together.first:
        elsewhere = moved(table, folder)
        if elsewhere:
            with contextlib.suppress(OSError):  # the old place stays, and the new one is passed again
                keep_table(table, folder)
        if elsewhere or kept["status"] != FINISHED:
            keep_statistics(series, folder)
    return FolderKeeper(folder / CHECKPOINTS, every, lambda: check_unchanged(series)), kept["status"] == FINISHED


def _begun(claim: Claim, folder: Path, table: Table | Tables, series: AnySeries, described: Mapping[str, Any]) -> None:
    """Write what a run is of, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        claim.take()
        if claim.held:
            remove_partials(folder, OWN)
            remove_partials(folder / CHECKPOINTS)
        if not (folder / RUN).exists():
            _check_free(folder)
            if list((folder / CHECKPOINTS).glob("*.npz")):
                raise _not_free(folder, f"{CHECKPOINTS}/ of a run that it no longer says anything of")
            keep_table(table, folder)
            facts = {"format": FORMAT, "status": RUNNING, "created": now(), "versions": versions(), **described}
            write_json(folder / RUN, facts)
    except FileExistsError as error:
        if error.errno is None:  # ours
            raise
        raise FileExistsError(f"`out` must be a folder; {folder} is a file. Choose another one.") from error
    except OSError as error:
        raise OSError(
            f"`out` must be a folder that can be written to; {folder} cannot: {error.strerror or error}. Nothing was done; "
            "choose another one."
        ) from error


def _check_free(folder: Path) -> None:
    """Refuse a folder without `run.json` that has files of the names of a run's which no run has written."""
    own = set()
    for name in (DATA, FITTED, STATISTICS):
        if (folder / name).exists():
            try:
                read_arrays(folder / name)
            except DamagedFileError as error:
                raise _not_free(folder, f"another {name}") from error
            own.add(name)
    others = [name for name in (SERIES, HISTORY, SUMMARY, CHECK, RESULTS) if (folder / name).exists()]
    if FITTED not in own:  # they are written after it; where the series lies, before anything else
        others = [name for name in others if name != SERIES or "place" not in _content(folder / name)]
        if others:
            raise _not_free(folder, f"another {others[0]}")


def _content(file: Path) -> Any:
    try:
        return read_json(file)
    except DamagedFileError:
        return {}


def _not_free(folder: Path, what: str) -> FileExistsError:
    return FileExistsError(
        f"The folder of a run must be new, or one that nmax has made; {folder} has no {RUN}, but {what}. Nothing was "
        "touched; choose another folder, or move what is in this one away."
    )


def read_run(folder: Path) -> dict[str, Any]:
    """What a run folder says of itself."""
    if not (folder / RUN).is_file():
        raise FileNotFoundError(f"{folder} must be a run folder, with a {RUN} in it; there is none.")
    run = read_json(folder / RUN)
    if run.get("format") != FORMAT:
        raise DamagedFileError(f"{folder / RUN} must have format {FORMAT}; it has {run.get('format')!r}.")
    if missing := {"status", "model", "data", "settings", "versions"} - run.keys():
        raise DamagedFileError(f"{folder / RUN} must say {sorted(missing)}, too.")
    return run


def save(posterior: Any, folder: Path) -> None:
    """Write an `nmax.Posterior`; `run.json` says that it is finished only when all else is there.

    Of several processes that have fitted together only the first one writes.
    """
    if not writes():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with Claim(folder) as claim:
        claim.take()
        _save(posterior, folder)


def _save(posterior: Any, folder: Path) -> None:
    described = {
        "model": model_identity(posterior.model, posterior.series),
        "data": data_identity(posterior.series),
        "settings": posterior.settings.described(),
    }
    kept = read_run(folder) if (folder / RUN).exists() else {}
    if kept:
        check_same(folder, kept, described)
    else:
        _check_free(folder)
    if not ((folder / DATA).exists() or (folder / SERIES).exists()):
        keep_table(posterior.table, folder)
    arrays = guide_arrays(posterior.guide, "guide") | modes_written(posterior.modes) | history_written(posterior.history)
    facts = {
        "recipe": guide_recipe(posterior.guide),
        "width": posterior.windows.width,
        "modes": len(posterior.modes),
        "convergence": dataclasses.asdict(posterior.convergence),
        **{name: getattr(posterior, name) for name in ("reason", "steps", "skipped", "seconds", "notes")},
    }
    write_arrays(folder / FITTED, arrays, facts)
    if posterior.checked is not None:
        save_check(posterior.checked, folder)
    write_bytes(folder / HISTORY, _history(posterior.history).encode())
    summary = posterior.summary()
    write_json(folder / SUMMARY, dataclasses.asdict(summary) | {"converged": posterior.converged})
    times = {"created": kept.get("created", now()), "finished": now()}
    write_json(folder / RUN, {"format": FORMAT, "status": FINISHED, **times, "versions": versions(), **described})


def save_check(check: Any, folder: Path) -> None:
    """Keep an `nmax.Check` with the run, and what it says with its summary."""
    write_json(folder / CHECK, {"verdict": check.verdict, **dataclasses.asdict(check)})
    if (folder / SUMMARY).exists():
        write_json(folder / SUMMARY, read_json(folder / SUMMARY) | {"verdict": str(check)})


def save_results(posterior: Any, folder: Path, *, draws: int = 1_000) -> None:
    """Draws of θ and, of one series that is short, of the path, with the data, by the ArviZ schema as netCDF."""
    from nmax.export import small_tree  # only here, since xarray takes a while to import

    if isinstance(posterior.series, ManySeries) or posterior.series.length * posterior.model.state_size > SHORT:
        tree = small_tree(posterior, draws=draws)
    else:
        tree = posterior.to_datatree(draws=draws, paths=PATHS)
    with whole_file(folder / RESULTS) as partial:
        tree.to_netcdf(partial, engine="h5netcdf")


def now() -> str:
    """The time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_same(folder: Path, kept: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse another model, other data or other settings, and name the difference."""
    lines = differences({name: kept[name] for name in here}, plain(here))
    functions = tuple(f"model.{name} " for name in ("initial", "transition", "observation"))
    traced = [line for line in lines if line.startswith(functions)]
    if traced and len(traced) == len(lines) and (others := differences(kept["versions"], versions())):
        warnings.warn(
            f"{folder} was written with other versions ({'; '.join(others)}), under which the model's functions are traced "
            "to other programs. Whether it is the same model cannot be told; it is taken to be.",
            stacklevel=4,
        )
        return
    if lines:
        raise ValueError(
            f"{folder} must be a run of the same model, data and settings; it is not: {'; '.join(lines)}. Choose another "
            "folder, or go back to what it was made with."
        )


def _history(history: History) -> str:
    """As CSV, a row a step."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *History._fields, "total"])
    rows = zip(*history, history.total, strict=True)
    writer.writerows([k + 1, *(repr(float(value)) for value in row)] for k, row in enumerate(rows))
    return text.getvalue()
