"""Canonical bytes and digests of values (R44, design.md §9): stable across processes, platforms and locales."""

from __future__ import annotations

import hashlib
import hmac
import json
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, cast

from planner.values.request import PlanRequest
from planner.values.turn import Turn

PLANNER_VERSION = "0.1.0"


def canonical(value: Any) -> bytes:
    """Return canonical JSON: no spaces, UTF-8, absent fields left out, keys in the order they have.

    Our own fields come in the order of their class; a caller's keys keep theirs, because templates print them.

    >>> canonical({"b": 1, "a": [True, None]})
    b'{"b":1,"a":[true,null]}'
    """
    return _ENCODER.encode(_plain(value)).encode()


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SCALARS = frozenset({str, int, float, bool, type(None)})


@cache
def _fields_of(kind: Hashable) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]] | None:
    """Return the names of a dataclass's fields and what reads all of them at once, None for any other type."""
    if not is_dataclass(kind):
        return None
    names = tuple(entry.name for entry in fields(kind))
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    known = _fields_of(cast(Hashable, kind))
    if known is not None:
        names, read = known
        return {
            name: inner if type(inner) in _SCALARS else _plain(inner)
            for name, inner in zip(names, read(value), strict=True)
            if inner is not None and inner != ()
        }
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def digest(data: bytes) -> str:
    """Return the sha256 in hex."""
    return hashlib.sha256(data).hexdigest()


def turn_digest(turn: Turn) -> bytes:
    """Return the digest of one turn, 32 bytes."""
    return hashlib.sha256(canonical(turn)).digest()


class TurnChain:
    """A running digest over turns by sequence: one more turn costs one more digest, and the value can be stored."""

    def __init__(self, value: bytes = hashlib.sha256(b"turns").digest()) -> None:
        """Go on from a value of 32 bytes; the default is the chain of no turn."""
        self._value = value

    def add(self, turn: Turn) -> None:
        """Take the next turn."""
        self._value = hashlib.sha256(self._value + turn_digest(turn)).digest()

    def copy(self) -> TurnChain:
        """Return an independent chain of the same turns."""
        return TurnChain(self._value)

    def raw(self) -> bytes:
        """Return the digest so far, 32 bytes."""
        return self._value

    def value(self) -> str:
        """Return the digest so far, in hex."""
        return self._value.hex()


def chain_of(turns: Iterable[Turn]) -> TurnChain:
    """Return the chain of turns given in order of sequence."""
    chain = TurnChain()
    for turn in turns:
        chain.add(turn)
    return chain


class FieldDigests:
    """Digests of a request's fields, remembered while a field is the very same object (a conversation's)."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[str, tuple[Any, str]] = {}

    def of(self, name: str, value: Any) -> str:
        """Return the digest of one field's canonical bytes."""
        known = self._known.get(name)
        if known is not None and known[0] is value:
            return known[1]
        found = digest(canonical(value))
        self._known[name] = (value, found)
        return found


LARGE_FIELDS = (
    "policy",
    "data_scope",
    "preferences",
    "tools",
    "output_schema",
    "summaries",
    "passages",
    "citations",
)
"""Fields of a request that its digest holds as digests of their own, beside the chain of the turns."""
SMALL_FIELDS = tuple(entry.name for entry in fields(PlanRequest) if entry.name not in (*LARGE_FIELDS, "turns"))
_small_of = attrgetter(*SMALL_FIELDS)
DEFAULTS = _small_of(PlanRequest(model_bundle_id=""))
"""Of the small fields; one that equals its default is left out."""


def withheld_digest(of_request: str, revoked: frozenset[str]) -> str:
    """Return the digest of a request from whose call its caller withholds these citation ids (X39).

    They stand in no request, and a call without them is another call: it has an id, receipt and audit of its own.
    """
    return digest(canonical((of_request, tuple(sorted(revoked))))) if revoked else of_request


def request_digest(request: PlanRequest, turns: str, known: FieldDigests | None = None) -> str:
    """Return the digest of a request: large fields by their own digest, turns by the value of their chain."""
    digests = known or FieldDigests()
    body: dict[str, Any] = {
        name: value
        for name, value, default in zip(SMALL_FIELDS, _small_of(request), DEFAULTS, strict=True)
        if value is not default and value is not None and value != default
    }
    for name in LARGE_FIELDS:
        value = getattr(request, name)
        if name == "passages" and value:  # planned by relevance and id, so their order in the request is none
            value = tuple(sorted(value, key=lambda passage: passage.citation_id))
        if value:
            body[name] = digests.of(name, value)
    return digest(canonical({**body, "turns": turns}))


_LITTLE_ENDIAN = array("i", [1]).tobytes()[0] == 1


def ids_bytes(ids: array[int]) -> bytes:
    """Return ids as little-endian int32 bytes on every platform."""
    if _LITTLE_ENDIAN:
        return ids.tobytes()
    swapped = array("i", ids)
    swapped.byteswap()
    return swapped.tobytes()


def final_input_digest(bundle_digest: str, ids: array[int]) -> str:
    """Return sha256 over the bundle digest and the ids (R185)."""
    state = hashlib.sha256(bundle_digest.encode() + b"\0")
    state.update(ids if _LITTLE_ENDIAN else ids_bytes(ids))
    return state.hexdigest()


def keyed_digest(key: bytes, text: str) -> str:
    """Return a digest of a short text that cannot be guessed without the key (X50)."""
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
