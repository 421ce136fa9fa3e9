"""`load`: a posterior from the folder that a fit was kept in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nmax._guide_file import guide_from
from nmax._identity import data_identity, model_identity
from nmax._many import posterior_of
from nmax._posterior import Posterior
from nmax._run_folder import CHECK, FINISHED, FITTED, check_same, read_run
from nmax._series_file import read_table, series_of
from nmax._settings import settings_from
from nmax._stages import convergence_read, history_read, modes_read
from nmax._store import DamagedFileError, read_arrays, read_json
from nmax._train import Outcome
from nmax.checks import Check, Finding
from nmax.data import tables_of, windows_over
from nmax.models import AbstractModel


def load(folder: str | os.PathLike[str], model: AbstractModel, data: Any = None) -> Posterior:
    """The posterior of a finished run.

    Nothing in the folder is run: the model is yours to pass, and must be the one that was fitted.

    Args:
        folder: what `fit(..., out=...)`, `Posterior.save` or the command `nmax fit` has written.
        model: the model that was fitted.
        data: the data that were fitted, where they stayed on disk and are not where they were: `nmax.source(...)` of their
            new place, or whatever else `nmax.fit` was given as `y`. By default those that the folder holds or names.
    """
    folder = Path(folder)
    run = read_run(folder)
    if run["status"] != FINISHED:
        raise ValueError(f"{folder} must hold a finished run; it is {run['status']}. Go on with `nmax.resume` first.")
    settings = settings_from(run["settings"])
    table = read_table(folder) if data is None else tables_of(data, step=getattr(model, "dt", None))
    series: Any = series_of(table, folder, progress=False)
    check_same(folder, run, {"model": model_identity(model, series), "data": data_identity(series)})
    arrays, facts = read_arrays(folder / FITTED)
    own = {name: array for name, array in arrays.items() if name.startswith("guide")}
    guide = guide_from(settings.guide, model, series, facts["recipe"], own, "guide")
    rest = convergence_read(facts["convergence"])
    outcome = Outcome(guide, history_read(arrays), facts["reason"], rest, facts["steps"], facts["skipped"])
    windows, named = windows_over(series, facts["width"]), (tuple(facts["notes"]), modes_read(arrays, facts["modes"]))
    posterior = posterior_of(model, table, series, windows, outcome, settings, facts["seconds"], *named)
    posterior.checked = _check(folder / CHECK)
    return posterior


def _check(file: Path) -> Check | None:
    """The check that was kept with a run, if there was one."""
    if not file.exists():
        return None
    kept = read_json(file)
    try:
        return Check(tuple(Finding(**finding) for finding in kept["findings"]), kept["figures"], kept["seconds"])
    except (KeyError, TypeError) as error:
        raise DamagedFileError(f"{file} must hold a check; it does not: {error}.") from error
