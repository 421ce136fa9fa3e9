"""What the numbers of a series show by themselves: empty columns, codes for missing values, lost digits."""

from __future__ import annotations

import numpy as np

from nmax.checks._finding import DO_NOT_TRUST, TRUST, TRUST_MEANS, Finding
from nmax.data import Table

CODES = (-9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, -32768.0, 1e20, -1e30, 1e30)
ALONE = 10.0  # spreads between a code and the nearest other value
DIGITS = 1e-3  # of the movement from row to row that rounding to single precision may be
ROWS, STRETCHES = 100_000, 50  # looked at of a longer series, in so many stretches spread over it


def some_rows(y: np.ndarray) -> np.ndarray:
    """All rows of a short series; of a long one stretches spread over it, end to end, the first and last rows among them."""
    if len(y) <= ROWS:
        return np.asarray(y, np.float64)
    each = ROWS // STRETCHES
    starts = np.linspace(0, len(y) - each, STRETCHES).astype(np.int64)
    return np.concatenate([np.asarray(y[start : start + each], np.float64) for start in starts])


def by_numbers(table: Table, some: np.ndarray) -> list[Finding]:
    """All of these, from some rows of the table."""
    findings = []
    for k, (name, column) in enumerate(zip(table.columns, some.T)):
        known = column[np.isfinite(column)]
        if len(known):
            findings += [_coded(name, known), _digits(name, known)]
        elif len(some) == len(table.y) or not np.isfinite(np.asarray(table.y[:])[:, k]).any():
            findings.append(_empty(name))
    return [finding for finding in findings if finding is not None]


def roughness(column: np.ndarray) -> float:
    """The typical size of the movement from one observation of a column to the next; its spread, if most do not move."""
    known = column[np.isfinite(column)]
    moves = np.abs(np.diff(known))
    typical = float(np.median(moves)) if len(moves) else 0.0
    return typical or (float(np.std(known)) if len(known) else 0.0)


def _empty(name: str) -> Finding:
    text = f"nothing was observed in column {name}: it holds NaN alone"
    return Finding("empty column", TRUST, text, "Leave it out of `y` and of `observation`, or look for its data elsewhere")


def _coded(name: str, known: np.ndarray) -> Finding | None:
    """A number such as −999, met more than once and far from all others, stands for a missing value."""
    for code in CODES:
        hit, others = known == code, known[known != code]
        if hit.sum() < 2 or len(others) < 3:
            continue
        low, high = np.quantile(others, [0.25, 0.75])
        if np.min(np.abs(others - code)) > ALONE * max(high - low, float(np.std(others)), 1e-300):
            text = f"{hit.sum()} values of column {name} are {code:g}, far from all others: the code for a missing value?"
            return Finding("missing values", DO_NOT_TRUST, text, f"Replace them: `y[y == {code:g}] = numpy.nan`")
    return None


def _digits(name: str, known: np.ndarray) -> Finding | None:
    """Single precision keeps some seven digits of a number, which must reach down to what moves."""
    moves, largest = roughness(known), float(np.max(np.abs(known)))
    coarse = float(np.spacing(np.float32(largest))) if largest < 3e38 else np.inf
    if moves <= 0 or coarse < DIGITS * moves:
        return None
    centre, spread = float(np.median(known)), float(np.std(known)) or 1.0
    text = (
        f"column {name} loses digits: its values are near {centre:.7g} and move by {moves:.2g} from row to row, while "
        f"single precision tells numbers of that size apart by {coarse:.2g}"
    )
    remedy = f"Centre and scale it, `(y - {centre:.6g}) / {spread:.2g}` say, and write priors and `initial` for that"
    return Finding("digits", TRUST_MEANS, text, remedy)
