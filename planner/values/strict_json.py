"""JSON from outside, before anybody looks at its meaning (threats.md §2.2, §2.8; facts-tooling.md §7).

The standard parser takes NaN, repeated keys and lone surrogates silently and dies of depth; here each is a
refusal with the place and never the words. Refusals are raised outside `except`, so that no foreign
exception with a piece of the input hangs on them.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from planner.values.field_rules import FORBIDDEN_RULE, MAX_DEPTH, holds_forbidden, invalid
from planner.values.wire_names import KNOWN_NAMES

MAX_WHOLE_DIGITS = 18
_ID_LISTS = frozenset({"ids", "generatedIds"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most bytes of a document and of one string, most items of a list or object (token ids apart).

    `any_text` leaves strings as they are, of whatever characters: a model's answer is its own affair.
    """

    total_bytes: int
    field_bytes: int
    list_items: int
    any_text: bool = False


REQUEST_BOUNDS = Bounds(total_bytes=4 * 1024 * 1024, field_bytes=1024 * 1024, list_items=20_000)
"""A request or chat from outside: 4 MiB, 1 MiB a string, 20,000 messages or items."""


class _Flaw:
    """Stands in the parsed tree where the parser's hooks saw something; the walk finds its path."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what


class _Hooks:
    """The hooks of one parse; `seen` spares the walk where nothing was found."""

    def __init__(self) -> None:
        self.seen = False

    def flaw(self, what: str) -> _Flaw:
        self.seen = True
        return _Flaw(what)

    def pairs(self, pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        return found if len(found) == len(pairs) else self.flaw("repeats a key")

    def constant(self, _: str) -> _Flaw:
        return self.flaw("NaN and Infinity are no JSON numbers")

    def whole(self, digits: str) -> Any:
        if len(digits.removeprefix("-")) > MAX_WHOLE_DIGITS:
            return self.flaw(f"is a whole number of more than {MAX_WHOLE_DIGITS} digits")
        return int(digits)

    def fraction(self, digits: str) -> Any:
        number = float(digits)
        return number if math.isfinite(number) else self.flaw("is a number too large for a double")


def load_strict(data: bytes, bounds: Bounds = REQUEST_BOUNDS) -> Any:
    """Return the value of one strict JSON document.

    Beside `bounds`: 32 levels, 18 digits a whole number, no repeated key, NaN, surrogate, NUL, noncharacter.
    Raises RefusalSignal `invalid-input`; the detail is `<JSON path>: <what>` in our own words only.

    >>> load_strict(b'{"text": "fine"}')
    {'text': 'fine'}
    """
    text = _decoded(data, bounds.total_bytes)
    hooks = _Hooks()
    value: Any = None
    position = -1
    too_deep = False
    try:
        value = json.loads(
            text,
            object_pairs_hook=hooks.pairs,
            parse_constant=hooks.constant,
            parse_int=hooks.whole,
            parse_float=hooks.fraction,
        )
    except json.JSONDecodeError as error:
        position = error.pos
    except RecursionError:
        too_deep = True
    if too_deep:
        invalid("$", f"is nested deeper than {MAX_DEPTH} levels")
    if position >= 0:
        invalid("$", f"is not JSON at character {position}")
    # An escape can hide a surrogate or NUL, and only a long document can hold a long string.
    escaped = b"\\u" in data
    suspect = hooks.seen or (not bounds.any_text and holds_forbidden(text))
    if not suspect and not bounds.any_text and (escaped or len(data) > bounds.field_bytes):
        suspect = _any_bad_string(value, bounds.field_bytes, escaped)
    if suspect:
        _refuse_flaws(value, bounds.field_bytes)
    _refuse_depth_and_length(value, bounds.list_items)
    return value


def _decoded(data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:
        invalid("$", f"is larger than {max_bytes} bytes")
    if data.startswith(b"\xef\xbb\xbf"):
        invalid("$", "begins with a byte order mark")
    text: str | None = None
    with suppress(UnicodeDecodeError):
        text = data.decode("utf-8")
    if text is None:
        invalid("$", "is not UTF-8")
    return text


def _any_bad_string(root: Any, field_bytes: int, escaped: bool) -> bool:
    """Look at every string without building its path, which is what makes the walk slow."""
    level: list[Any] = [[root]]
    while level:
        inner: list[Any] = []
        for one in level:
            for item in (*one, *one.values()) if type(one) is dict else one:
                if type(item) is str:
                    if len(item) * 4 > field_bytes and len(item.encode("utf-8", "replace")) > field_bytes:
                        return True
                    if escaped and not (item.isascii() and "\x00" not in item) and holds_forbidden(item):
                        return True
                elif type(item) is dict or type(item) is list:
                    inner.append(item)
        level = inner
    return False


def _refuse_depth_and_length(root: Any, most: int) -> None:
    """Look at containers level by level; the paths are only walked when something is wrong."""
    level = [root] if type(root) in (dict, list) else []
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            invalid("$", f"is nested deeper than {MAX_DEPTH} levels")
        inner: list[Any] = []
        for one in level:
            if len(one) > most:
                _refuse_long(root, most)
            elif type(one) is dict:
                inner += [
                    item
                    for key, item in one.items()
                    if type(item) is dict or (type(item) is list and not _is_token_list(key, item))
                ]
            else:
                inner += [item for item in one if type(item) is dict or type(item) is list]
        level = inner


def _is_token_list(key: str, items: list[Any]) -> bool:
    return key in _ID_LISTS and all(type(one) is int for one in items)


def _refuse_long(root: Any, most: int) -> None:
    for path, one in _walk(root):
        key = path.rpartition(".")[2]
        if type(one) is dict and len(one) > most:
            invalid(path, f"has more than {most} fields")
        if type(one) is list and len(one) > most and not _is_token_list(key, one):
            invalid(path, f"has more than {most} items")


def _refuse_flaws(root: Any, field_bytes: int) -> None:
    """Find the first flaw in document order and refuse it by its path."""
    for path, one in _walk(root):
        if type(one) is _Flaw:
            invalid(path, one.what)
        if type(one) is str:
            _refuse_string(path, one, field_bytes)
        elif type(one) is dict:
            for key in one:
                _refuse_string(f"{path}.*", key, field_bytes)


def _refuse_string(path: str, text: str, field_bytes: int) -> None:
    if holds_forbidden(text):
        invalid(path, FORBIDDEN_RULE)
    if len(text) * 4 > field_bytes and len(text.encode()) > field_bytes:
        invalid(path, f"is a string of more than {field_bytes} bytes")


def _walk(root: Any) -> Any:
    """Yield every value with its path, parents first, without recursion; unknown keys are written `*`."""
    stack: list[tuple[str, Any]] = [("$", root)]
    while stack:
        path, one = stack.pop()
        yield path, one
        if type(one) is dict:
            stack += [(f"{path}.{key if key in KNOWN_NAMES else '*'}", one[key]) for key in reversed(one)]
        elif type(one) is list:
            stack += [(f"{path}[{index}]", one[index]) for index in range(len(one) - 1, -1, -1)]
