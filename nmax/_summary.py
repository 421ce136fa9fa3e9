"""The table that a fit prints of itself."""

from __future__ import annotations

import dataclasses

import numpy as np

QUANTILES = (0.05, 0.5, 0.95)
UNCHECKED = "not checked: fit.check() says whether to trust this"


@dataclasses.dataclass(frozen=True)
class Summary:
    """Posterior mean, standard deviation and quantiles by parameter, and how the fit went.

    Attributes:
        parameters: label -> {"mean", "sd", "5%", "50%", "95%"}; entries of a vector have labels such as `beta[2]`.
        elbo: of the whole series, in nats.
        elbo_standard_error: its Monte Carlo error.
        length: T.
        steps: steps of training.
        seconds: wall clock of the fit.
        reason: why training ended.
        skipped: steps left out because their gradient was not finite.
        notes: what the guide found and chose.
        could_change: what going on could still change.
        verdict: what a check said, if there was one.
    """

    parameters: dict[str, dict[str, float]]
    elbo: float
    elbo_standard_error: float
    length: int
    steps: int
    seconds: float
    reason: str
    skipped: int
    notes: tuple[str, ...] = ()
    could_change: str = ""
    verdict: str = ""

    def __str__(self) -> str:
        lines = table(self.parameters)
        lines += [
            "",
            f"ELBO {self.elbo:,.2f} ± {self.elbo_standard_error:.2f} nats, T = {self.length:,}",
            f"{self.steps:,} steps in {self.seconds:.1f} s; {self.reason}",
        ]
        if self.could_change:
            lines.append(self.could_change)
        if self.skipped:
            lines.append(f"{self.skipped} steps were left out: their gradient was not finite")
        return "\n".join([*lines, *self.notes, self.verdict or UNCHECKED])

    __repr__ = __str__


def table(parameters: dict[str, dict[str, float]], what: str = "parameter") -> list[str]:
    """Lines of a table with a row a label and a column a figure."""
    width = max(len(what), *(len(label) for label in parameters))
    columns = list(next(iter(parameters.values())))
    lines = [f"{what:<{width}}" + "".join(f"{c:>12}" for c in columns)]
    return lines + [f"{label:<{width}}" + "".join(f"{row[c]:>12.5g}" for c in columns) for label, row in parameters.items()]


def summarise(theta: dict[str, np.ndarray], **facts) -> Summary:
    """Summarise draws with the draw axis first."""
    return Summary({label: figures(draws) for label, draws in entries(theta).items()}, **facts)


def entries(theta: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of every single number: entries of a vector have labels such as `beta[2]`."""
    out = {}
    for name, draws in theta.items():
        flat = np.asarray(draws, np.float64).reshape(len(draws), -1)
        for k, index in enumerate(np.ndindex(draws.shape[1:])):
            out[f"{name}[{','.join(map(str, index))}]" if index else name] = flat[:, k]
    return out


def figures(draws: np.ndarray) -> dict[str, float]:
    """Mean, standard deviation and quantiles of one number."""
    low, middle, high = np.quantile(draws, QUANTILES)
    spread = {"5%": float(low), "50%": float(middle), "95%": float(high)}
    return {"mean": float(draws.mean()), "sd": float(draws.std(ddof=1)), **spread}
