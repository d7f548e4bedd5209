"""Lossless shrinking of results: JSON without its spaces, logs with repeated lines counted (options.shrinkResults).

Nothing is ever cut: `expand_log` gives a log back letter for letter, and the smaller JSON has the same keys in the
same order, the same spelling of every number and string, and parses to the same value.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any, NoReturn

_STRING_OR_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+')
_MARK = re.compile(r"\[the line above, ([1-9][0-9]{0,8}) more times?\]")


def minified(text: str) -> str | None:
    """Return a JSON object or list without the spaces between its tokens, None where it is none or has none.

    >>> minified('{"b": 1.50, "a": [ "x y" ]}')
    '{"b":1.50,"a":["x y"]}'
    """
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return None
    try:
        json.loads(text, parse_float=str, parse_int=str, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    small = _STRING_OR_SPACE.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    return small if len(small) < len(text) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity are no JSON


def same_json(first: str, second: str) -> bool:
    """Tell whether two texts have the same JSON value: order of keys, repeated keys and spelling of numbers too."""
    return bool(_exact(first) == _exact(second))


def _exact(text: str) -> Any:
    return json.loads(
        text, parse_float=lambda number: ("float", number), parse_int=lambda number: ("int", number),
        object_pairs_hook=lambda pairs: ("object", pairs),
    )  # fmt: skip


def collapsed(text: str) -> str | None:
    """Return a log with each repeated line once and how often it follows, None where nothing is gained.

    A text that has a line spelled like our own mark is left alone, so that the way back is never in doubt.

    >>> print(collapsed("pump on" + 3 * (chr(10) + "no answer, trying again")))
    pump on
    no answer, trying again
    [the line above, 2 more times]
    """
    lines = text.split("\n")
    if any(_MARK.fullmatch(line) for line in lines):
        return None
    out: list[str] = []
    for line, group in groupby(lines):
        more = sum(1 for _ in group) - 1
        mark = f"[the line above, {more} more time{'s' if more > 1 else ''}]"
        out.append(line)
        out += [mark] if more * (len(line) + 1) > len(mark) + 1 else [line] * more
    small = "\n".join(out)
    return small if len(small) < len(text) else None


def expand_log(text: str) -> str:
    """Return the log that `collapsed` was made from.

    >>> expand_log(collapsed("a line of some length" + 9 * (chr(10) + "a line of some length")) or "").count("line")
    10
    """
    out: list[str] = []
    for line in text.split("\n"):
        found = _MARK.fullmatch(line)
        out += [out[-1]] * int(found[1]) if found and out else [line]
    return "\n".join(out)
