"""What one field may hold: ids, text, whole numbers, JSON. Predicates: a path is only built on failure."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn, TypeGuard

from planner.values.reasons import RefusalSignal

ID_PATTERN = r"[A-Za-z0-9._:-]{1,128}"
ID_RULE = "expected 1 to 128 characters out of A-Z a-z 0-9 . _ : -"
VERSION_PATTERN = r"[A-Za-z0-9._:+-]{1,128}"
VERSION_RULE = "expected 1 to 128 characters out of A-Z a-z 0-9 . _ : + -"
STRING_RULE = "expected a string"
MAX_SHORT_FORMS = 16
MAX_DEPTH = 32
MAX_WHOLE = 10**18 - 1

_is_id = re.compile(ID_PATTERN).fullmatch
_is_version = re.compile(VERSION_PATTERN).fullmatch
_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")
# Surrogates have no UTF-8 form; NUL and noncharacters are cut or rewritten by one runtime or another
# (threats.md §2.8).
_FORBIDDEN = re.compile(
    "[\x00\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
FORBIDDEN_RULE = "holds a NUL, a lone surrogate or a noncharacter"


def invalid(path: str, what: str) -> NoReturn:
    """Raise the refusal `invalid-input`; `path` and `what` are ours, never words of the input (R188)."""
    raise RefusalSignal("invalid-input", f"{path}: {what}")


def is_id(value: object) -> TypeGuard[str]:
    """Tell whether `value` is an id (threats.md §2.1).

    >>> is_id("call_1"), is_id("two words"), is_id("")
    (True, False, False)
    """
    return type(value) is str and _is_id(value) is not None


def is_version(value: object) -> bool:
    """Tell whether `value` is a version label: an id that may hold a plus sign.

    >>> is_version("2.1.0+build7")
    True
    """
    return type(value) is str and _is_version(value) is not None


def is_whole(value: object, least: int = 0) -> bool:
    """Tell whether `value` is an integer of at most 18 digits and not below `least`; a boolean is none (R39).

    >>> is_whole(0), is_whole(True), is_whole(0, 1), is_whole(10**18)
    (True, False, False, False)
    """
    return type(value) is int and least <= value <= MAX_WHOLE


def is_share(value: object) -> bool:
    """Tell whether `value` is a finite number in 0..1; a boolean is none.

    >>> is_share(0.5), is_share(1), is_share(float("nan")), is_share(True)
    (True, True, False, False)
    """
    # A NaN fails both comparisons.
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]


def is_instant(value: object) -> bool:
    """Tell whether `value` is an RFC 3339 instant with its zone, as `now` needs (X57).

    >>> is_instant("2026-11-30T08:00:00Z"), is_instant("2026-11-30"), is_instant("2026-13-01T08:00:00Z")
    (True, False, False)
    """
    if type(value) is not str or _RFC3339.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def instant(value: str) -> datetime:
    """Return the moment an RFC 3339 instant names: two spellings of one moment are equal (X57).

    >>> instant("2026-11-30T08:00:00Z") == instant("2026-11-30T09:00:00.0+01:00")
    True
    """
    return datetime.fromisoformat(value)


def text_problem(value: object) -> str | None:
    """Say what is wrong with a text, or None. The empty text is a text.

    >>> text_problem("fine"), text_problem(None)
    (None, 'expected a string')
    """
    if type(value) is not str:
        return STRING_RULE
    if value.isascii():
        return FORBIDDEN_RULE if "\x00" in value else None
    return FORBIDDEN_RULE if holds_forbidden(value) else None


def check_forms(forms: object, path: str) -> None:
    """Check the shorter forms of a text, longest first. Raises RefusalSignal `invalid-input`."""
    if type(forms) is not tuple or len(forms) > MAX_SHORT_FORMS:
        invalid(f"{path}.shortForms", f"expected a tuple of at most {MAX_SHORT_FORMS} texts")
    for index, text in enumerate(forms):
        problem = text_problem(text) or (None if text.strip() else "is blank")
        if problem:
            invalid(f"{path}.shortForms[{index}]", problem)


def holds_forbidden(text: str) -> bool:
    """Tell whether a text holds a NUL, a surrogate or a noncharacter.

    >>> holds_forbidden("fine"), holds_forbidden("\\ud800"), holds_forbidden("\\uffff")
    (False, True, True)
    """
    encoded: bytes | None = None
    with suppress(UnicodeEncodeError):
        encoded = text.encode()
    if encoded is None or b"\x00" in encoded:
        return True
    # Every noncharacter has one of these byte pairs; asking for them is 20 times as fast as the pattern.
    if b"\xbf\xbe" in encoded or b"\xbf\xbf" in encoded or b"\xef\xb7" in encoded:
        return _FORBIDDEN.search(text) is not None
    return False


def json_problem(value: object, depth: int = 1) -> str | None:
    """Say what keeps `value` from being a JSON value, or None.

    depth  levels of nesting around and including `value`; more than 32 are refused.

    >>> json_problem({"limit": [1, 2.5, None]}), json_problem([float("inf")])
    (None, 'holds a number that is not finite')
    """
    kind = type(value)
    if kind is str:
        return text_problem(value)
    if kind is bool or value is None:
        return None
    if kind is int:
        return None if -MAX_WHOLE <= value <= MAX_WHOLE else "holds a whole number of more than 18 digits"  # type: ignore[operator]
    if kind is float:
        return None if math.isfinite(value) else "holds a number that is not finite"  # type: ignore[arg-type]
    if depth > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if kind is dict:
        return _object_problem(value, depth)  # type: ignore[arg-type]
    if kind is list:
        for item in value:  # type: ignore[attr-defined]
            problem = json_problem(item, depth + 1)
            if problem:
                return problem
        return None
    return "holds something JSON does not know"


def _object_problem(value: dict[Any, Any], depth: int) -> str | None:
    for key, item in value.items():
        problem = text_problem(key) or json_problem(item, depth + 1)
        if problem:
            return problem
    return None
