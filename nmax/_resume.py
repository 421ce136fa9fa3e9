"""`resume`: go on with a fit that was stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from nmax._convergence import Converged
from nmax._fit import fit
from nmax._posterior import Posterior
from nmax._run_folder import EVERY, read_run
from nmax._series_file import read_table
from nmax._settings import settings_from
from nmax.models import AbstractModel


def resume(
    folder: str | os.PathLike[str],
    model: AbstractModel,
    data: Any = None,
    *,
    progress: bool = True,
    checkpoint_every: float = EVERY,
) -> Posterior:
    """Go on with a fit from its last checkpoint, to the same end as if it had never been stopped.

    Args:
        folder: the `out` of the fit that was stopped. A finished one is read.
        model: the model that it fits; nothing in the folder is run.
        data: the data that it fits, where they stay on disk and are not where they were, as for `nmax.load`. The folder then
            says where they are now.
        progress: whether to show a progress bar.
        checkpoint_every: seconds between two checkpoints, at the least.
    """
    folder = Path(folder)
    asked = settings_from(read_run(folder)["settings"])
    goal: dict[str, Any] = {"until": asked.goal} if isinstance(asked.goal, Converged) else {"steps": asked.goal}
    return fit(
        model,
        read_table(folder) if data is None else data,
        key=asked.key,
        guide=asked.guide,
        window=asked.window,
        draws=asked.draws,
        optimiser=asked.optimiser,
        pretrain=asked.pretrain,
        pretrain_at=asked.pretrain_at,
        progress=progress,
        out=folder,
        checkpoint_every=checkpoint_every,
        **goal,
    )
