"""Numbers as a reader wants them: as many digits as mean something, thousands apart, a true minus sign."""

from __future__ import annotations

import math

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PLAIN = range(-4, 7)  # powers of ten that are written out


def number(value: float, digits: int = 3) -> str:
    """So many significant digits: 0.01235 as 0.0123, 1234567 as 1,234,567, 1.2e-9 as 1.20×10⁻⁹."""
    if (word := _not_finite(value)) is not None:
        return word
    if value == 0:
        return "0"
    power = int(f"{abs(value):.{digits - 1}e}".split("e")[1])  # after rounding: 9.999 is 10.0
    if power in PLAIN:
        return fixed(value, max(digits - 1 - power, 0))
    mantissa = fixed(value / 10.0**power if power > -300 else value * 10.0**-power, digits - 1)
    return f"{mantissa}×10{str(power).translate(SUPERSCRIPTS)}"


def short(value: float, digits: int = 4) -> str:
    """At most so many significant digits, without noughts at the end: 7, 0.25."""
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "×" not in text else text


def fixed(value: float, decimals: int) -> str:
    """So many decimals."""
    if (word := _not_finite(value)) is not None:
        return word
    text = f"{value:,.{decimals}f}"
    if text.startswith("-"):
        text = text[1:] if not text.strip("-0.,") else f"−{text[1:]}"  # no minus zero
    return text


def decimals_of(error: float, digits: int = 2) -> int | None:
    """Decimals with which an error has so many significant digits; None where figures are better written as powers."""
    if not math.isfinite(error) or error <= 0:
        return None
    power = int(f"{error:.{digits - 1}e}".split("e")[1])
    decimals = max(digits - 1 - power, 0)
    return decimals if decimals <= 7 and power <= 9 else None


def to_error(value: float, error: float) -> str:
    """A value with the digits that its error leaves it: 1.23456 with an error of 0.012 as 1.235."""
    decimals = decimals_of(error)
    return number(value, 5) if decimals is None else fixed(value, decimals)


def count(value: int) -> str:
    """A whole number: 12,345."""
    return f"{value:,}".replace("-", "−")


def percent(share: float, decimals: int = 0) -> str:
    """A share of one: 5 %."""
    return f"{fixed(100 * share, decimals)}\N{NARROW NO-BREAK SPACE}%"


def small_percent(share: float) -> str:
    """A share of one which may be small: 0.04 %, 1.2 %, 35 %, but 0 % only where it is nothing at all."""
    if 0 < share < 0.1:
        return f"{short(100 * share, 2)}\N{NARROW NO-BREAK SPACE}%"
    if 0.9995 < share < 1:
        return f"{fixed(100 * share, 3)}\N{NARROW NO-BREAK SPACE}%"
    return percent(share, 0 if share in (0.0, 1.0) else 1)


def times(factor: float) -> str:
    """A factor: 3.4, 34, 3,400."""
    if not math.isfinite(factor):
        return number(factor)
    return number(factor, 2) if factor < 100 else count(int(float(f"{factor:.1e}"))) if factor < 1e7 else number(factor, 1)


def duration(seconds: float) -> str:
    """Wall clock: 0.8 s, 12 s, 3 min 20 s, 2 h 5 min."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def listed(words: list[str], *, most: int = 6) -> str:
    """a, b and c; beyond `most` of them, how many more there are."""
    if len(words) > most:
        words = [*words[: most - 1], f"{count(len(words) - most + 1)} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def plural(value: int, word: str, many: str | None = None) -> str:
    """1 row, 2 rows."""
    return f"{count(value)} {word if value == 1 else many or word + 's'}"


def _not_finite(value: float) -> str | None:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return None
