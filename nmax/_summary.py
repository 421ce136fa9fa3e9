"""The table that a fit prints of itself."""

from __future__ import annotations

import dataclasses

import numpy as np

QUANTILES = (0.05, 0.5, 0.95)


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

    def __str__(self) -> str:
        width = max(len("parameter"), *(len(label) for label in self.parameters))
        columns = ("mean", "sd", "5%", "50%", "95%")
        lines = [f"{'parameter':<{width}}" + "".join(f"{c:>12}" for c in columns)]
        lines += [
            f"{label:<{width}}" + "".join(f"{row[c]:>12.5g}" for c in columns) for label, row in self.parameters.items()
        ]
        lines += [
            "",
            f"ELBO {self.elbo:,.2f} ± {self.elbo_standard_error:.2f} nats, T = {self.length:,}",
            f"{self.steps:,} steps in {self.seconds:.1f} s; {self.reason}",
        ]
        if self.skipped:
            lines.append(f"{self.skipped} steps were left out: their gradient was not finite")
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__


def summarise(theta: dict[str, np.ndarray], **facts) -> Summary:
    """Summarise draws with the draw axis first."""
    table = {}
    for name, draws in theta.items():
        flat = np.asarray(draws, np.float64).reshape(len(draws), -1)
        for k, index in enumerate(np.ndindex(draws.shape[1:])):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            low, middle, high = np.quantile(flat[:, k], QUANTILES)
            table[label] = {
                "mean": float(flat[:, k].mean()),
                "sd": float(flat[:, k].std(ddof=1)),
                "5%": float(low),
                "50%": float(middle),
                "95%": float(high),
            }
    return Summary(table, **facts)
