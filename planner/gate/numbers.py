"""Numbers that not every JSON reader keeps: a template prints them, so a port that changes one changes the ids (M7)."""

from __future__ import annotations

from typing import Any

LARGEST_EXACT = 2**53
"""Whole numbers beyond it are no longer exact where every number is a double."""
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Between them every language prints a double without an exponent."""


def fragile_numbers(root: Any) -> list[dict[str, str]]:
    """Return path, kind and our spelling of each such number in a JSON tree, in document order.

    Kinds: `integral` (1.0, printed as 1 elsewhere), `exponent` (1e-07, spelled otherwise elsewhere),
    `beyond_double` (a whole number above 2^53), `negative_zero`.

    >>> fragile_numbers({"a": [1, 1.0, 0.5, 1e-7]})
    [{'path': '$.a[1]', 'kind': 'integral', 'text': '1.0'}, {'path': '$.a[3]', 'kind': 'exponent', 'text': '1e-07'}]
    """
    found: list[dict[str, str]] = []
    stack: list[tuple[str, Any]] = [("$", root)]
    while stack:
        path, one = stack.pop()
        if isinstance(one, dict):
            stack += [(f"{path}.{key}", one[key]) for key in reversed(one)]
        elif isinstance(one, list):
            stack += [(f"{path}[{index}]", one[index]) for index in range(len(one) - 1, -1, -1)]
        elif (kind := _kind(one)) is not None:
            found.append({"path": path, "kind": kind, "text": repr(one)})
    return found


def _kind(number: Any) -> str | None:
    if type(number) is int:
        return "beyond_double" if abs(number) > LARGEST_EXACT else None
    if type(number) is not float:
        return None
    if number == 0:
        return "negative_zero" if repr(number).startswith("-") else "integral"
    if not _PLAIN_FROM <= abs(number) < _PLAIN_TO:
        return "exponent"
    return "integral" if number.is_integer() else None
