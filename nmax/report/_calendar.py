"""Dates on an axis: which instants get a tick, and what is written there.

Times are milliseconds since 1970 in UTC. The page's script does the same: `dateTicks` there and `date_ticks` here must
agree.
"""

from __future__ import annotations

import datetime
import math

import numpy as np

from nmax.report._scale import Tick, round_step

SECOND, MINUTE, HOUR, DAY = 1e3, 6e4, 3.6e6, 8.64e7
MONDAY = 4 * DAY  # 5 January 1970
MONTH, YEAR = 30.436875 * DAY, 365.2425 * DAY
FIXED = tuple(n * unit for unit, ns in ((SECOND, (1, 2, 5, 10, 15, 30)), (MINUTE, (1, 2, 5, 10, 15, 30))) for n in ns)
FIXED += tuple(n * HOUR for n in (1, 2, 3, 6, 12)) + tuple(n * DAY for n in (1, 2, 7, 14))
MONTHS = (1, 2, 3, 6)
NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Some `most` ticks at whole years, months, days, hours, minutes, seconds, or parts of a second; two at least."""
    while len(ticks := _ticks(low, high, most)) < 2:
        most += 1
    return ticks


def _ticks(low: float, high: float, most: int) -> list[Tick]:
    least = (high - low) / most
    if least < SECOND:
        return _labelled(_multiples(low, high, round_step(least), 0.0), round_step(least))
    for step in FIXED:
        if step >= least:
            places = _multiples(low, high, step, MONDAY if step >= 7 * DAY else 0.0)
            return _labelled(places, step)
    for months in MONTHS:
        if months * MONTH >= least:
            places = _calendar(low, high, months)
            if len(places) <= most + 1:
                return _labelled(places, months * MONTH)
    years = max(1, int(round(round_step(least / YEAR))))
    return _labelled(_calendar(low, high, 12 * years), years * YEAR)


def said_date(instant: float, step: float) -> str:
    """An instant in words, as exactly as rows `step` apart need it."""
    year, month, day, clock = _parts(instant, step)
    date = f"{day} {NAMES[month]} {year}"
    return date if step >= DAY and instant % DAY == 0 else f"{date} {clock}"


def _multiples(low: float, high: float, step: float, offset: float) -> list[float]:
    first, last = math.ceil((low - offset) / step - 1e-9), math.floor((high - offset) / step + 1e-9)
    return [offset + k * step for k in range(first, last + 1)]


def _calendar(low: float, high: float, months: int) -> list[float]:
    """First instants of every so many months."""
    first = int(np.datetime64(int(math.floor(low)), "ms").astype("datetime64[M]").astype(np.int64))
    last = int(np.datetime64(int(math.floor(high)), "ms").astype("datetime64[M]").astype(np.int64))
    counted = range(-(-first // months) * months, last + 1, months) if months < 12 else _years(first, last, months // 12)
    instants = [float(np.datetime64(k, "M").astype("datetime64[ms]").astype(np.int64)) for k in counted]
    return [instant for instant in instants if low <= instant <= high]


def _years(first: int, last: int, every: int) -> list[int]:
    """Months since 1970 at which years divisible by `every` begin."""
    low, high = 1970 + first // 12, 1970 + last // 12
    return [12 * (year - 1970) for year in range(-(-low // every) * every, high + 1, every)]


def _labelled(places: list[float], step: float) -> list[Tick]:
    """What is the same as at the tick before, the year or the day, is not said again."""
    ticks, before = [], None
    for instant in places:
        year, month, day, clock = _parts(instant, step)
        if step >= YEAR * 0.99:
            label, context = str(year), None
        elif step >= MONTH * 0.99:
            label, context = NAMES[month], year
        elif step >= DAY:
            label, context = f"{day} {NAMES[month]}", year
        else:
            label, context = clock, (year, month, day)
        if context is not None and context != before:
            label = f"{label} {year}" if step >= DAY else f"{day} {NAMES[month]} {clock}"
        before = context
        ticks.append(Tick(instant, label))
    return ticks


def _parts(instant: float, step: float) -> tuple[int, int, int, str]:
    """Year, month from 0, day, and the clock as exactly as needed."""
    days, rest = divmod(instant, DAY)
    date = np.datetime64(int(days), "D")
    month = date.astype("datetime64[M]")
    number = int(month.astype(np.int64))
    day = int((date - month.astype("datetime64[D]")).astype(np.int64)) + 1
    seconds = rest / SECOND
    clock = f"{int(seconds // 3600):02d}:{int(seconds // 60 % 60):02d}"
    if step < MINUTE:
        clock += f":{int(seconds % 60):02d}"
    if step < SECOND:
        digits = max(1, -math.floor(math.log10(step / SECOND) + 1e-9))
        clock += f"{seconds % 1:.{digits}f}"[1:]
    return 1970 + number // 12, number % 12, day, clock


def today() -> str:
    """The day of writing."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now.day} {NAMES[now.month - 1]} {now.year}"
