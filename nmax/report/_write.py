"""`write`: one self-contained HTML page about a fit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.random as jr
from jaxtyping import PRNGKeyArray

from nmax._check import check_key, names_its_options
from nmax._draws import Draws
from nmax._forecast import Forecast
from nmax._many import ManyPosterior
from nmax._posterior import Estimate, Posterior
from nmax.report._bands import Painter
from nmax.report._convergence_section import convergence_section
from nmax.report._details_section import details_section
from nmax.report._forecast_section import forecast_section
from nmax.report._header import header, title_of
from nmax.report._page import page
from nmax.report._parameters_section import parameters_section
from nmax.report._path_section import path_section
from nmax.report._prediction_section import prediction_section
from nmax.report._subject import Subject
from nmax.report._verdict import verdict_section

PASSES, WINDOWS = (4, 64), 2_000  # over the series, for the ELBO, at the least and at the most; and windows of all of them


@names_its_options
def write(
    posterior: Posterior | Draws,
    file: str | os.PathLike[str],
    *,
    forecast: Forecast | None = None,
    settings: Mapping[str, Any] | None = None,
    reproduce: str | Sequence[str] | None = None,
    key: PRNGKeyArray | None = None,
) -> Path:
    """Write one HTML page about a fit: the verdict, convergence, parameters, path, predictions, forecasts, details.

    It holds everything it needs, works without a network and without JavaScript, on a phone and in print. The cost is O(T)
    with a small constant: bands of a long path are those of 39 draws, and drawn on stretches of it only where there are more
    than 2 million rows.

    Args:
        posterior: what `nmax.fit` or `nmax.sample` returned. Call `posterior.check()` before to have its verdict on it.
        file: where to write it, `report.html` say. A file that is there already is replaced.
        forecast: what `posterior.forecast` returned, if it is to be shown.
        settings: name -> value of what the fit was asked for; by default what the fit itself knows.
        reproduce: commands or code by which the fit can be made again, one string or one a line.
        key: random key; fixed unless given.

    Returns:
        The path of the file.

    Raises:
        TypeError, ValueError: for arguments that cannot be right, before any work starts.
    """
    file = _check(posterior, file, forecast, settings)
    lines = reproduce if isinstance(reproduce, str) or reproduce is None else "\n".join(map(str, reproduce))
    subject = Subject(posterior, jr.key(0) if key is None else check_key(key))
    painter = Painter(subject)
    elbo = _elbo(subject)
    sections = [
        verdict_section(subject),
        convergence_section(subject, _finite(elbo)),
        parameters_section(subject),
        path_section(painter),
        prediction_section(subject),
        None if forecast is None else forecast_section(painter, forecast),
        details_section(subject, settings, lines),
    ]
    text = page(title_of(subject), header(subject, elbo), [section for section in sections if section is not None])
    partly = file.with_name(f".{file.name}.partly")
    partly.write_bytes(text.encode("utf-8"))
    partly.replace(file)  # never half a page under its name
    return file


def _elbo(subject: Subject) -> Estimate | None:
    """The bound of a fit; the fewer windows its series has, the more passes over it."""
    if (fit := subject.fit) is None:
        return None
    passes = min(max(WINDOWS // fit.windows.count, PASSES[0]), PASSES[1])
    return fit.elbo(passes=passes, key=subject.own_key(2))


def _finite(elbo: Estimate | None) -> Estimate | None:
    return elbo if elbo is not None and abs(elbo.mean) < float("inf") else None


def _check(posterior: Any, file: Any, forecast: Any, settings: Any) -> Path:
    if isinstance(posterior, ManyPosterior):
        raise TypeError(
            f"`posterior` must be of one series, since it shows a path; got a fit of {len(posterior)}. Pass `fit.one(k)`."
        )
    if not isinstance(posterior, (Posterior, Draws)):
        raise TypeError(
            f"`posterior` must be what nmax.fit, nmax.sample or nmax.load returned; got {type(posterior).__name__}."
        )
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"`file` must be the path of the page, 'report.html' say; got {type(file).__name__}.")
    path = Path(file)
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"lies in a folder that does not exist, {path.parent}"
        raise ValueError(f"`file` must be a file in a folder that exists; {path} {what}. Pass another, or make the folder.")
    if forecast is not None:
        if not isinstance(forecast, Forecast):
            raise TypeError(f"`forecast` must be what posterior.forecast returned; got {type(forecast).__name__}.")
        names, own = (*forecast.columns, *forecast.state_names), (*posterior.table.columns, *posterior.model.state_names)
        if names != own:
            raise ValueError(
                f"`forecast` must be of the same model and data, with columns and states {own}; it has {names}."
            )
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"`settings` must be a mapping, name -> value; got {type(settings).__name__}.")
    return path
