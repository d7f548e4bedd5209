"""Frozen values as one line of JSON in the spelling of the wire, and back; what equals its default is left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import MISSING, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from planner.ledger.faults import corrupt
from planner.values.wire_names import wire_fields

_Record = TypeVar("_Record")
_SCALARS = (str, int, float, bool)


def encode(value: Any) -> str:
    """Return a value as JSON.

    >>> from planner.values.turn import OpenItem
    >>> encode(OpenItem("i1", "done"))
    '{"id":"i1","status":"done"}'
    """
    return json.dumps(_tree(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def decode(kind: type[_Record], text: str, where: str) -> _Record:
    """Return the value of JSON that `encode` wrote. Raises PlannerFault `ledger_corrupt` naming `where`."""
    try:
        found: _Record = _reader(cast(Hashable, kind))(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        corrupt(where)
    return found


def _tree(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_tree(item) for item in value]
    if not is_dataclass(value):
        return value
    pairs = ((one, getattr(value, one.name)) for one in wire_fields(cast(Hashable, type(value))))
    return {one.alias: _tree(found) for one, found in pairs if one.default is MISSING or found != one.default}


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return what makes a value of one type out of parsed JSON; it raises TypeError for another shape."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(frozenset(inner))
    if origin in (Union, UnionType):
        (wanted,) = (one for one in inner if one is not NoneType)
        read = _reader(wanted)
        return lambda found: None if found is None else read(found)
    if origin is tuple:
        read = _reader(inner[0])
        return lambda found: tuple(read(item) for item in found)
    if hint in _SCALARS:
        return _scalar(hint)
    return _record(hint)


def _scalar(kind: type) -> Callable[[Any], Any]:
    def read(found: Any) -> Any:
        if type(found) is not kind:
            raise TypeError
        return found

    return read


def _literal(values: frozenset[Any]) -> Callable[[Any], Any]:
    def read(found: Any) -> Any:
        if found not in values:
            raise ValueError
        return found

    return read


def _record(kind: Any) -> Callable[[Any], Any]:
    hints = get_type_hints(kind)
    readers = {one.alias: (one.name, _reader(hints[one.name])) for one in wire_fields(kind)}

    def read(found: Any) -> Any:
        given = {}
        for alias, value in found.items():
            name, inner = readers[alias]
            given[name] = inner(value)
        return kind(**given)

    return read
