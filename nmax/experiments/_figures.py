"""Figures as the paper draws them: MCMC blue, variational output black, the truth dashed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmax.experiments._declare import Result, Results
from nmax.experiments._measures import trace_of, true_theta

Figure = Callable[[Results], Any]
COLOURS = ("black", "tab:orange", "tab:green", "tab:red", "tab:purple")
SHOWN = 4_000  # draws of a density


def densities(labels: Sequence[str], *cases: str) -> Figure:
    """Marginal densities of θ: one panel a parameter, one line a case."""

    def draw(results: Results) -> Any:
        shown = {name: results[name] for name in cases if name in results}
        figure, axes = pyplot().subplots(
            1, len(labels), figsize=(2.9 * len(labels), 2.6), layout="constrained", squeeze=False
        )
        first = next(iter(shown.values()))
        exact = first.data.exact
        for k, (axis, label) in enumerate(zip(axes[0], labels, strict=True)):
            lines = {name: result.draws[:, k] for name, result in shown.items()}
            if exact is not None and k < exact.shape[1]:
                lines = {"MCMC": exact[:, k], **lines}
            middle = np.concatenate([values[:SHOWN] for values in lines.values()])
            low, high = np.quantile(middle, [0.001, 0.999])
            for n, (name, values) in enumerate(lines.items()):
                colour = "tab:blue" if name == "MCMC" else COLOURS[(n - ("MCMC" in lines)) % len(COLOURS)]
                axis.plot(*density(values, low, high), color=colour, label=name)
            if first.data.truth is not None:
                axis.axvline(true_theta(first)[k], color="black", linestyle="--", linewidth=1, label="truth")
            axis.set(xlabel=label, yticks=[], xlim=(low, high))
            axis.locator_params(axis="x", nbins=4)
        axes[0, 0].legend(frameon=False, fontsize=7)
        return figure

    return draw


def traces(*cases: str, against: str = "steps") -> Figure:
    """MMD² to the exact posterior along training, by steps or by seconds; marks for guides that take no steps."""

    def draw(results: Results) -> Any:
        figure, axis = pyplot().subplots(figsize=(5.2, 3.6), layout="constrained")
        for n, name in enumerate(name for name in cases if name in results and len(results[name].trace_steps)):
            result = results[name]
            across = result.trace_steps if against == "steps" else result.trace_seconds
            axis.plot(across, np.maximum(trace_of(result), 1e-4), label=name, color=f"C{n}")
        axis.axhspan(1e-4, 1e-3, color="grey", alpha=0.2, linewidth=0)
        axis.text(0.99, 0.03, "two halves of one posterior", transform=axis.transAxes, ha="right", fontsize=7, color="grey")
        axis.set(
            xlabel="training steps" if against == "steps" else "seconds", ylabel="MMD²", yscale="log", ylim=(1e-4, None)
        )
        axis.legend(frameon=False, fontsize=7)
        return figure

    return draw


def paths(case: str, component: int, label: str, *, dt: float = 1.0, count: int = 100, colour: str = "tab:green") -> Figure:
    """Draws of one component over the kept stretch, with the truth and the observations."""

    def draw(results: Results) -> Any:
        result = results[case]
        figure, axis = pyplot().subplots(figsize=(7.0, 3.0), layout="constrained")
        time = dt * (result.start + np.arange(result.paths.shape[1]))
        axis.plot(time, result.paths[:count, :, component].T, color=colour, alpha=0.15, linewidth=0.6)
        stop = result.start + len(time)
        if result.data.x is not None:
            axis.plot(time, result.data.x[result.start : stop, component], color="black", linewidth=1.2, label="truth")
        _observations(axis, result, time, stop, component)
        axis.plot([], [], color=colour, label=f"{min(count, len(result.paths))} draws")
        axis.set(xlabel="$t$", ylabel=label, xlim=(time[0], time[-1]))
        axis.legend(frameon=False, fontsize=8, loc="upper right")
        return figure

    return draw


def _observations(axis: Any, result: Result, time: np.ndarray, stop: int, component: int) -> None:
    if component < result.data.y.shape[1] and component not in result.data.model.exactly_observed:
        seen = result.data.y[result.start : stop, component]
        known = ~np.isnan(seen)
        if known.mean() < 0.5 and len(seen) == len(time):
            axis.plot(time[known], seen[known], "kx", markersize=5, label="observations")


def saved(draw: Figure, results: Results, file: Path) -> Path:
    """A figure drawn into a file."""
    figure = draw(results)
    figure.savefig(file, dpi=150)
    pyplot().close(figure)
    return file


def density(values: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """A kernel density estimate with Silverman's bandwidth."""
    grid, values = np.linspace(low, high, 200), np.asarray(values[:SHOWN], float)
    width = 1.06 * values.std() * len(values) ** -0.2
    kernel = np.exp(-0.5 * ((grid[:, None] - values[None]) / width) ** 2)
    return grid, kernel.mean(axis=1) / (width * np.sqrt(2 * np.pi))


def pyplot() -> Any:
    """Matplotlib's, drawing to files; an error that says what to install if it is not there."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("Figures need matplotlib; `pip install nmax[figures]` brings it.") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
