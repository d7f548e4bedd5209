"""Dates and times of day, English, Chinese and ISO, as numbers (R93)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from planner.compaction.literals_numbers import NUMERALS, numeral, plain

GAP = " \x1f "
"""Stands where something was read, so that its neighbours do not grow together."""

Date = tuple[int | None, int, int | None]
"""Year, month and day; absent parts are None."""

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH_OF = {name: place for place, name in enumerate(_MONTHS, 1)}
_MONTH_OF |= {name[:3]: place for name, place in _MONTH_OF.items()} | {"sept": 9}
_MONTH = "(?:" + "|".join(sorted(_MONTH_OF, key=len, reverse=True)) + r")(?![a-z])\.?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?(?![a-z0-9])"
_YEAR = r"(?:,?\s+(\d{4})(?![\d:]))?"
_N = rf"(\d{{1,4}}|[{NUMERALS}]{{1,4}})"
_TO = r"\s*(?:-|~|to|and|until|至|到|和)\s*"

_ISO = re.compile(r"(?<![\d.])(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d|[-/.]\d)")
_NUMERIC = re.compile(r"(?<![\d./-])(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?!\d|[./-]\d)")
_CHINESE = re.compile(rf"(?:{_N}\s*年\s*)?{_N}\s*月(?:\s*{_N}(?:\s*(?:-|~|至|到)\s*{_N})?\s*[日号])?")
_DAY_FIRST = re.compile(rf"(?<![\d.,:])(?:{_DAY}{_TO})?{_DAY}(?:\s+of)?\s+(?P<month>{_MONTH}){_YEAR}")
_MONTH_FIRST = re.compile(rf"(?<![a-z])(?P<month>{_MONTH})\s+{_DAY}(?:{_TO}{_DAY})?(?![:.]\d){_YEAR}")
_MONTH_ALONE = re.compile(
    rf"(?<![a-z])(?:(?P<month>{'|'.join(name for name in _MONTHS if name not in ('may', 'march'))})(?![a-z]){_YEAR}"
    rf"|(?P<short>{_MONTH})\s+(?P<year>\d{{4}})(?![\d:])|(?:in|since|until|by|of)\s+(?P<verb>may|march)(?![a-z]))"
)

_PERIODS = {
    "am": "凌晨 清晨 早上 早晨 上午 今早 明早 一早",
    "noon": "中午 正午",
    "pm": "下午 午后 傍晚",
    "evening": "晚上 今晚 明晚 晚间 晚",
    "night": "夜里 半夜 深夜 夜间",
}
_PERIOD_OF = {word: period for period, all_of in _PERIODS.items() for word in all_of.split()}
_PERIOD = "(?:" + "|".join(sorted(_PERIOD_OF, key=len, reverse=True)) + ")"
_HALF = "am|pm|a\\.m\\.?|p\\.m\\.?"
_HOURS = {
    name: place
    for place, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
}
_COLON = re.compile(
    rf"(?:(?P<period>{_PERIOD})\s*)?(?<![\d:.])(?P<hour>\d{{1,2}}):(?P<minute>\d{{2}})(?::\d{{2}})?(?![\d:])"
    rf"(?:\s?(?P<half>{_HALF})(?![a-z])|\s+in\s+the\s+(?P<part>morning|afternoon|evening))?"
)
_ENGLISH = re.compile(
    rf"(?<![a-z0-9.:,])(?P<hour>\d{{1,2}}|{'|'.join(_HOURS)})"
    rf"(?:\s?(?P<half>{_HALF})(?![a-z])|\s?(?P<clock>o'clock)|\s+in\s+the\s+(?P<part>morning|afternoon|evening))"
)
_DOT = re.compile(
    rf"(?:(?P<period>{_PERIOD})\s*)?(?<![\d.])(?P<hour>\d{{1,2}}|[{NUMERALS}]{{1,3}})\s*点"
    rf"(?:(?P<half>半)|(?P<quarter>[一三]刻)|(?:整|钟)|(?P<minute>\d{{1,2}}|[{NUMERALS}]{{1,3}})(?P<unit>分?))?"
)
_NAMED = re.compile(r"(?<![a-z])(noon|midnight)(?![a-z])")


@dataclass(slots=True)
class Moments:
    """Dates and times of a text. A time is every minute of the day it may mean; `weak` ones need not be times.

    `either` holds dates such as 5/11/2026, whose day and month may stand in either order.
    `bare` holds the numbers that dates and times are made of, so that "the 5th" is found in "5 November".
    """

    dates: set[Date] = field(default_factory=set)
    either: list[frozenset[Date]] = field(default_factory=list)
    times: list[frozenset[int]] = field(default_factory=list)
    weak: list[frozenset[int]] = field(default_factory=list)
    bare: set[str] = field(default_factory=set)


def take_moments(text: str, found: Moments) -> str:
    """Record the dates and times of a text in lower case; return the text with a gap in the place of each."""
    for pattern, read in (
        (_ISO, _iso), (_NUMERIC, _numeric), (_CHINESE, _chinese), (_DAY_FIRST, _english_date),
        (_MONTH_FIRST, _english_date),
        (_COLON, _colon), (_ENGLISH, _english_time), (_DOT, _dotted), (_MONTH_ALONE, _month_alone), (_NAMED, _named),
    ):  # fmt: skip
        text = _take(text, pattern, found, read)
    return text


def _take(text: str, pattern: re.Pattern[str], found: Moments, read: Callable[[re.Match[str], Moments], bool]) -> str:
    return pattern.sub(lambda match: GAP if read(match, found) else match[0], text)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    value = plain(text) if text.isdigit() else numeral(text)
    return int(value) if value is not None and value.isdigit() and len(value) < 5 else None


def _add_date(found: Moments, year: int | None, month: int | None, days: tuple[int | None, ...]) -> bool:
    """Record a date for each day, or the month alone; tell whether it is one."""
    stated = [day for day in days if day is not None]
    if month is None or not 1 <= month <= 12 or any(not 1 <= day <= 31 for day in stated):
        return False
    found.dates |= {(year, month, day) for day in stated} or {(year, month, None)}
    found.bare |= {str(number) for number in (year, *stated) if number is not None}
    return True


def _iso(match: re.Match[str], found: Moments) -> bool:
    year, month, day = (int(part) for part in match.groups())
    return _add_date(found, year, month, (day,))


def _numeric(match: re.Match[str], found: Moments) -> bool:
    first, second, year = int(match[1]), int(match[3]), int(match[4])
    orders = ((first, second), (second, first))
    fits: set[Date] = {(year, month, day) for day, month in orders if 1 <= month <= 12 and 1 <= day <= 31}
    if not fits:
        return False
    found.either.append(frozenset(fits))
    found.bare |= {str(number) for number in (first, second, year)}
    return True


def _chinese(match: re.Match[str], found: Moments) -> bool:
    year, month, first, last = (_number(part) for part in match.groups())
    if match[3] is not None and first is None:
        return False
    return _add_date(found, year, month, (first, last))


def _english_date(match: re.Match[str], found: Moments) -> bool:
    first, second, year = (int(match[place]) if match[place] else None for place in _places(match))
    return _add_date(found, year, _MONTH_OF[match["month"].rstrip(".")], (first, second))


def _places(match: re.Match[str]) -> tuple[int, int, int]:
    """Return the groups of both days and the year: the month stands third or first."""
    return (1, 2, 4) if match.re is _DAY_FIRST else (2, 3, 4)


def _month_alone(match: re.Match[str], found: Moments) -> bool:
    name = match["month"] or match["short"] or match["verb"]
    year = match["year"] or match[2]
    return _add_date(found, int(year) if year else None, _MONTH_OF[name.rstrip(".")], ())


def _add_time(found: Moments, hour: int | None, minute: int, *, spread: bool, weak: bool = False) -> bool:
    """Record a time; `spread` where morning and evening are both meant. Tell whether it is one."""
    if hour is None or hour > 24 or minute > 59:
        return False
    hours = {hour % 24}
    if spread and hour <= 12:
        hours = {hour % 12, hour % 12 + 12}
    (found.weak if weak else found.times).append(frozenset(one * 60 + minute for one in hours))
    return True


def _shifted(hour: int, half: str) -> int:
    if half in ("am", "morning"):
        return hour % 12
    return hour % 12 + 12


def _in_period(hour: int, period: str) -> int:
    """Return the hour of 24 that a Chinese part of the day makes of it."""
    if hour > 12:
        return hour
    if period == "am":
        return hour
    if period == "noon":
        return hour if hour >= 10 else hour + 12
    if period == "pm":
        return hour % 12 + 12
    late = 5 if period == "evening" else 8
    return hour % 12 + 12 if late <= hour < 12 else hour % 12


def _colon(match: re.Match[str], found: Moments) -> bool:
    hour, minute = int(match["hour"]), int(match["minute"])
    found.bare |= {str(number) for number in (hour, minute) if number}
    half = (match["half"] or "").replace(".", "") or match["part"]
    if half and hour <= 12:
        return _add_time(found, _shifted(hour, half), minute, spread=False)
    if match["period"]:
        hour = _in_period(hour, _PERIOD_OF[match["period"]])
    return _add_time(found, hour, minute, spread=False)


def _english_time(match: re.Match[str], found: Moments) -> bool:
    written = match["hour"]
    hour = _HOURS[written] if written in _HOURS else int(written)
    if not 1 <= hour <= 12:
        return False
    half = (match["half"] or "").replace(".", "") or match["part"]
    found.bare.add(str(hour))
    return _add_time(found, _shifted(hour, half) if half else hour, 0, spread=not half)


def _dotted(match: re.Match[str], found: Moments) -> bool:
    """Read 三点半; 一点五 is a decimal number, and 一点 alone mostly means a little."""
    written = match["minute"]
    if written and not written.isdigit() and not match["unit"] and len(written) == 1 and written not in "十拾":
        return False
    hour = _number(match["hour"])
    minute = _number(written)
    if hour is None or (written and minute is None):
        return False
    found.bare |= {str(number) for number in (hour, minute) if number}
    minutes = 30 if match["half"] else {"一": 15, "三": 45}[match["quarter"][0]] if match["quarter"] else minute or 0
    weak = match[0] == "一点"
    if match["period"]:
        return _add_time(found, _in_period(hour, _PERIOD_OF[match["period"]]), minutes, spread=False)
    return _add_time(found, hour, minutes, spread=True, weak=weak)


def _named(match: re.Match[str], found: Moments) -> bool:
    return _add_time(found, 12 if match[1] == "noon" else 0, 0, spread=False)
