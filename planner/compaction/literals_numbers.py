"""Numbers in words and numerals, English and Chinese, as one plain decimal spelling (R93).

A value is text, not a number: a hundred thousand digits are compared like three, and nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SMALL = {
    name: value
    for value, name in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
}
_TENS = {
    name: value * 10 for value, name in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NAMES = (*_SMALL, *_TENS, *_SCALES, "hundred")
_NAME = "(?:" + "|".join(sorted(_NAMES, key=len, reverse=True)) + ")"
WORDS = (
    rf"(?<![a-z0-9'])(?:(?:an?)\s+(?=hundred|thousand|million|billion))?{_NAME}"
    rf"(?:(?:\s+and\s+|\s*-\s*|\s+){_NAME})*(?![a-z0-9])"
)
"""Pattern of a stretch of number words, in lower case."""

_DIGITS = {**{char: value for value, char in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2, "兩": 2}
_DIGITS |= {char: value for value, char in enumerate("壹贰叁肆伍陆柒捌玖", 1)}
_PLACES = {"十": 1, "百": 2, "千": 3, "拾": 1, "佰": 2, "仟": 3}
_GROUPS = {"万": 4, "亿": 8, "萬": 4, "億": 8}
NUMERALS = "".join((*_DIGITS, *_PLACES, *_GROUPS))
_LONGEST_NUMERAL = 24

POWERS = {"万亿": 12, "亿": 8, "千万": 7, "百万": 6, "十万": 5, "万": 4, "千": 3, "百": 2, **_SCALES, "hundred": 2}
"""What may stand behind digits and multiplies them by a power of ten."""


def plain(digits: str, power: int = 0) -> str:
    """Return the one spelling of a decimal number: no thousands marks, no leading and trailing zeros.

    >>> plain("1,240.50"), plain("089.00"), plain("1.85", 4), plain("0.3")
    ('1240.5', '89', '18500', '0.3')
    """
    whole, _, part = digits.replace(",", "").partition(".")
    part += "0" * max(0, power - len(part))
    whole, part = whole + part[:power], part[power:]
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    return f"{whole}.{part}" if part else whole


def words(text: str) -> Iterator[str]:
    """Yield the numbers of a stretch of number words; where the grammar breaks, the next number begins.

    >>> list(words("one thousand two hundred and fifty")), list(words("ten and twenty")), list(words("ninety-five"))
    (['1250'], ['10', '20'], ['95'])
    """
    total = group = 0
    scale, last = 99, ""
    for name in re.split(r"[\s-]+", text):
        if name in ("a", "an"):
            group, last = 1, "small"
            continue
        if name == "and":
            last = last if last in ("hundred", "scale") else "end"
            continue
        kind, fits = _fits(name, group, scale, last)
        if not fits:
            if last:
                yield str(total + group)
            total, group, scale = 0, 0, 99
        if kind == "hundred":
            group = max(1, group) * 100
        elif kind == "scale":
            total += max(1, group) * 10 ** _SCALES[name]
            group, scale = 0, _SCALES[name]
        else:
            group += _SMALL.get(name, _TENS.get(name, 0))
        last = kind
    if last:
        yield str(total + group)


def _fits(name: str, group: int, scale: int, last: str) -> tuple[str, bool]:
    """Return what a name is, and whether it goes on with the number begun."""
    if name in _SCALES:
        return "scale", group > 0 and _SCALES[name] < scale and last != "end"
    if name == "hundred":
        return "hundred", 0 < group < 100 and last in ("small", "tens")
    if name in _TENS:
        return "tens", last in ("hundred", "scale")
    follows = last in ("hundred", "scale") or (last == "tens" and 0 < _SMALL[name] < 10)
    return "small", follows


def numeral(text: str) -> str | None:
    """Return the value of a Chinese numeral with an optional fraction behind 点, or None where it is none.

    >>> numeral("一百三十"), numeral("十二万"), numeral("两万五"), numeral("零点三"), numeral("二〇二六")
    ('130', '120000', '25000', '0.3', '2026')
    """
    whole, _, part = text.partition("点")
    if len(whole) > _LONGEST_NUMERAL or not whole or any(char not in _DIGITS for char in part):
        return None
    if all(char in _DIGITS for char in whole):
        found: str | None = plain("".join(str(_DIGITS[char]) for char in whole))
    else:
        found = _counted(whole)
    if found is None or not part:
        return found
    return plain(f"{found}." + "".join(str(_DIGITS[char]) for char in part))


def _counted(text: str) -> str | None:
    """Return the value of a numeral with places: 三千五百, 一万八千; a last bare digit stands one place lower."""
    total = section = 0
    digit: int | None = None
    lowest, zero = 0, False
    for char in text:
        if char in _DIGITS:
            digit, zero = _DIGITS[char], _DIGITS[char] == 0 or zero
        elif char in _PLACES:
            section += (1 if digit is None else digit) * 10 ** _PLACES[char]
            digit, lowest, zero = None, _PLACES[char], False
        else:
            section = (section + (digit or 0)) or 1
            total = (total + section) * 10 ** _GROUPS[char] if _GROUPS[char] == 8 else total + section * 10**4
            section, digit, lowest, zero = 0, None, _GROUPS[char], False
    if digit is not None:
        section += digit * 10 ** (lowest - 1) if lowest > 1 and not zero else digit
    return str(total + section)
