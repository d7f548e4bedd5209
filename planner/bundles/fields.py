"""Reading JSON fields strictly with the standard library alone: each fault names a path, never a value."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from planner.values.reasons import PlannerFault

T = TypeVar("T")


def invalid(path: str, detail: str) -> PlannerFault:
    """Return the fault for one field, named by its JSON path; its value is never shown."""
    return PlannerFault("manifest_invalid", f"{path}: {detail}")


def no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a key twice. Raises ValueError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def no_constant(_name: str) -> Any:
    """Refuse NaN and Infinity. Raises ValueError."""
    raise ValueError


_MISSING = object()


class Fields:
    """One JSON object while it is taken apart: each key once, and nothing may be left over."""

    def __init__(self, value: Any, path: str) -> None:
        """Take an object. Raises manifest_invalid where it is none."""
        if not isinstance(value, dict):
            raise invalid(path, "must be an object")
        self._value = dict(value)
        self._path = path

    def take(self, key: str, read: Callable[[Any, str], T], default: Any = _MISSING) -> T:
        """Read one key; null counts as absent. Raises manifest_invalid where a required one is."""
        path = f"{self._path}.{key}"
        value = self._value.pop(key, None)
        if value is None:
            if default is _MISSING:
                raise invalid(path, "is required")
            return default  # type: ignore[no-any-return]
        return read(value, path)

    def close(self) -> None:
        """Make sure that every key was read. Raises manifest_invalid."""
        if self._value:
            raise invalid(self._path, f"has {len(self._value)} unknown keys")


def read_list(value: Any, path: str, read: Callable[[Any, str], T]) -> list[T]:
    """Read a list, item by item. Raises manifest_invalid."""
    if not isinstance(value, list):
        raise invalid(path, "must be a list")
    return [read(item, f"{path}[{index}]") for index, item in enumerate(value)]


def read_text(value: Any, path: str) -> str:
    """Read a text on one line that is not empty. Raises manifest_invalid."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise invalid(path, "must be a text on one line")
    return value


def matching(pattern: re.Pattern[str]) -> Callable[[Any, str], str]:
    """Return a reader of texts that match a pattern as a whole."""

    def read(value: Any, path: str) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise invalid(path, "has not the form this field takes")
        return value

    return read


def one_of(allowed: Any) -> Callable[[Any, str], Any]:
    """Return a reader of one of a few words."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value not in allowed:
            raise invalid(path, f"must be one of {', '.join(sorted(allowed))}")
        return value

    return read


def read_count(value: Any, path: str) -> int:
    """Read an integer from 0 to 2**31 - 1; a boolean is none. Raises manifest_invalid."""
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise invalid(path, "must be an integer that is not negative")
    return value


def read_positive(value: Any, path: str) -> int:
    """Read an integer above 0. Raises manifest_invalid."""
    if read_count(value, path) == 0:
        raise invalid(path, "must be above 0")
    return int(value)


def between(low: float, high: float) -> Callable[[Any, str], float]:
    """Return a reader of numbers from `low` to `high`; a boolean is none."""

    def read(value: Any, path: str) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise invalid(path, f"must be a number from {low} to {high}")
        return float(value)

    return read


def read_flag(value: Any, path: str) -> bool:
    """Read true or false. Raises manifest_invalid."""
    if type(value) is not bool:
        raise invalid(path, "must be true or false")
    return value
