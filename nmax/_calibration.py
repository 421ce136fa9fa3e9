"""`Calibration`: ranks of the truth among the draws, whether they are uniform, and what it means if they are not."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from nmax._uniformity import POWER, TESTS, Uniformity, bands, holm, pointwise, uniformity, visible

MOST_FAILED = 0.05  # share of failed replications above which nothing is judged
SLIGHT = 0.05  # an error of the width below this is not mentioned beside a bias, which raises the sum of squares by itself
COLUMNS = 4  # panels of a figure side by side


@dataclasses.dataclass(frozen=True)
class Calibration:
    """How the truth ranks among the draws, over replications in which it was drawn from the prior.

    Attributes:
        pit: label -> randomised rank of the truth among the draws, between 0 and 1, one a finished replication. Parameters
            have their names, entries of a vector labels such as `beta[2]`, states such as `x at 50` or `x[1] at 50`.
        failures: number of a replication -> why it failed.
        error_rate: probability, at the most, that a calibrated method fails any test at all.
        seconds: wall clock of each replication, failed ones among them.
    """

    pit: dict[str, Float[np.ndarray, " replication"]]
    failures: dict[int, str]
    error_rate: float
    seconds: Float[np.ndarray, " replication"]

    @property
    def count(self) -> int:
        """Replications that were finished."""
        return min((len(values) for values in self.pit.values()), default=0)

    @cached_property
    def tests(self) -> dict[str, Uniformity]:
        """Label -> mean and rms of the normal scores, and the p-values of the three tests."""
        return {label: uniformity(values) for label, values in self.pit.items()} if self.count else {}

    @cached_property
    def adjusted(self) -> dict[str, dict[str, float]]:
        """Label -> test -> p-value adjusted for all tests of all quantities together (Holm)."""
        p = np.array([getattr(one, test) for one in self.tests.values() for test in TESTS])
        rows = holm(p).reshape(-1, len(TESTS))
        return {label: dict(zip(TESTS, map(float, row), strict=True)) for label, row in zip(self.tests, rows, strict=True)}

    @property
    def judged(self) -> bool:
        """Whether enough replications were finished for a verdict."""
        return self.count > 0 and len(self.failures) <= MOST_FAILED * (self.count + len(self.failures))

    @property
    def passes(self) -> bool | None:
        """Whether no test fails; `None` where nothing is judged because too many replications failed."""
        return not self.faults if self.judged else None

    @cached_property
    def faults(self) -> dict[str, str]:
        """Label -> what is wrong with its posterior, for the quantities that fail a test."""
        failed = {label: [t for t in TESTS if row[t] <= self.error_rate] for label, row in self.adjusted.items()}
        return {label: _fault(label, self.tests[label], self.pit[label], which) for label, which in failed.items() if which}

    @property
    def verdict(self) -> str:
        """Sentences that say whether the method is calibrated, what is wrong if not, and what could have been seen."""
        total = self.count + len(self.failures)
        lines = []
        if not self.judged:
            share = len(self.failures) / total if total else 0.0
            lines.append(
                f"Not judged: {len(self.failures)} of {total} replications failed ({share:.1%}), where at most "
                f"{MOST_FAILED:.0%} may. Narrow the prior to where the model can be simulated, or mend what fails."
            )
        elif self.faults:
            lines.append(
                f"Not calibrated: {len(self.faults)} of {len(self.pit)} quantities do not pass, at a family-wise error rate "
                f"of {self.error_rate:g}."
            )
            lines += [f"- {text}" for text in self.faults.values()]
        else:
            lines.append(
                f"Calibrated as far as {self.count} replications show: none of {len(TESTS) * len(self.pit)} tests of "
                f"{len(self.pit)} quantities fails, at a family-wise error rate of {self.error_rate:g}."
            )
        if self.judged:
            bias, ratio = visible(self.count, self._level)
            lines.append(
                f"A bias of {bias:.2f} posterior sd, or a posterior too narrow by {1 - 1 / ratio:.0%}, of any one quantity "
                f"is found with a probability of {POWER:.0%}; smaller faults may go unseen."
            )
        if self.failures:
            first = min(self.failures)
            lines.append(f"{len(self.failures)} of {total} replications failed; number {first}: {self.failures[first]}")
        return "\n".join(lines)

    @property
    def _level(self) -> float:
        """What one test is held to, by Bonferroni."""
        return self.error_rate / (len(TESTS) * len(self.pit))

    def __str__(self) -> str:
        if not self.tests:
            return self.verdict
        width = max(len("quantity"), *map(len, self.tests))
        lines = [f"{'quantity':<{width}}{'bias':>9}{'true/own sd':>13}{'p ECDF':>11}{'p location':>12}{'p spread':>11}"]
        for label, one in self.tests.items():
            mark = "  fails" if self.judged and label in self.faults else ""
            figures = f"{-one.mean:>9.2f}{one.rms:>13.2f}{one.ecdf:>11.2g}{one.location:>12.2g}{one.spread:>11.2g}"
            lines.append(f"{label:<{width}}{figures}{mark}")
        return "\n".join([*lines, "", self.verdict])

    __repr__ = __str__

    def plot(self, file: str | Path) -> Path:
        """Draw the ECDF of every quantity's ranks less the uniform one, with simultaneous bands, into a file.

        The bands hold the curves of all quantities at once with a probability of at least 1 - `error_rate` / 3: the ECDF is
        one of three tests. A quantity can fail another one inside its band.
        """
        if not self.count:
            raise ValueError("A figure needs a finished replication; there is none. The verdict says what failed.")
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("Figures need matplotlib; `pip install nmax[figures]` brings it.") from error
        columns = min(COLUMNS, len(self.pit))
        rows = math.ceil(len(self.pit) / columns)
        figure = Figure(figsize=(2.6 * columns, 2.2 * rows + 0.3), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for k, (axis, label) in enumerate(zip(axes.flat, self.pit)):
            self._draw(axis, label)
            axis.tick_params(labelbottom=k >= len(self.pit) - columns)  # the lowest of each column
        for axis in axes.flat[len(self.pit) :]:
            axis.set_axis_off()
        figure.supxlabel("rank of the truth among the draws", fontsize=9)
        figure.supylabel("ECDF − uniform", fontsize=9)
        figure.savefig(file, dpi=150)
        return Path(file)

    def _draw(self, axis: Any, label: str) -> None:
        values, fails = np.sort(self.pit[label]), label in self.faults
        n = len(values)
        low, high = bands(n, self._level)
        z = np.unique(np.concatenate([[0.0, 1.0], low, high, np.linspace(0.0, 1.0, 201)]))
        least, most = (np.searchsorted(edge, z, side="right") / n - z for edge in (high, low))
        axis.fill_between(z, least, most, color="tab:blue", alpha=0.2, linewidth=0)
        axis.axhline(0.0, color="grey", linewidth=0.6)
        ends = np.concatenate([[0.0], np.repeat(values, 2), [1.0]])
        steps = np.repeat(np.arange(n + 1), 2) / n
        axis.plot(ends, steps - ends, color="tab:red" if fails else "black", linewidth=1.0)
        axis.set_title(f"{label}: fails" if fails else label, fontsize=8, color="tab:red" if fails else "black")
        axis.tick_params(labelsize=7)


def _fault(label: str, one: Uniformity, pit: np.ndarray, failed: list[str]) -> str:
    """A failure in plain words: its direction and its size."""
    said = []
    biased = "location" in failed
    if biased:  # the truth ranks high where the posterior lies too low
        said.append(f"biased {'low' if one.mean > 0 else 'high'} by about {abs(one.mean):.2f} posterior sd")
    if "spread" in failed:
        ratio = max(one.sd if biased else one.rms, 1e-6)
        if not biased or abs(math.log(ratio)) > SLIGHT:
            off = f"narrow by about {1 - 1 / ratio:.0%}" if ratio > 1 else f"wide by about {1 / ratio - 1:.0%}"
            said.append(f"too {off}")
    if not said:
        worst = int(np.argmin(pointwise(pit)))
        share, place = (worst + 1) / len(pit), np.sort(pit)[worst]
        said.append(f"of another shape: the truth lies below its {place:.0%} quantile in {share:.0%} of the replications")
    p = min(getattr(one, test) for test in failed)
    return f"posterior of {label} {' and '.join(said)} (p = {p:.1g})"
