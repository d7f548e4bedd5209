"""A length-checked reader of sentencepiece's protobuf: pieces, trainer and normalizer facts, encode results.

Only what is needed is read; every length is checked against the bytes left (threats.md §2.6). The library
parses the same bytes afterwards; this walk decides first whether it may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.bundles.loaded import MAX_TOKEN_BYTES, MAX_VOCABULARY
from planner.values.reasons import PlannerFault

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Piece:
    """One vocabulary entry; `type_at` is where its type byte stands in the model, None where unwritten."""

    text: str
    type: int
    type_at: int | None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a sentencepiece model says about itself."""

    pieces: tuple[Piece, ...]
    normalizer_rules: bool
    adds_prefix: bool
    prefix_is_suffix: bool
    removes_spaces: bool
    byte_fallback: bool


class _Damaged(Exception):  # noqa: N818
    """The bytes break the wire format."""


def read_model(data: bytes) -> ModelFacts:
    """Walk a model. Raises bundle_unsafe where it is damaged or breaks a bound."""
    pieces: list[Piece] = []
    trainer: dict[int, int] = {}
    normalizer: dict[int, int] = {}
    try:
        for field, kind, start, stop in _fields(data, 0, len(data)):
            if field == 1 and kind == _BYTES:
                if len(pieces) >= MAX_VOCABULARY:
                    raise _Damaged
                pieces.append(_piece(data, start, stop))
            elif field in (2, 3) and kind == _BYTES:
                (trainer if field == 2 else normalizer).update(_scalars(data, start, stop))
    except (_Damaged, UnicodeDecodeError):
        raise PlannerFault("bundle_unsafe", "the sentencepiece model is damaged or breaks a bound") from None
    if not pieces:
        raise PlannerFault("bundle_unsafe", "the sentencepiece model has no pieces")
    return ModelFacts(
        pieces=tuple(pieces),
        normalizer_rules=normalizer.get(2, 0) > 0,
        adds_prefix=bool(normalizer.get(3, 1)),
        removes_spaces=bool(normalizer.get(4, 1)),
        byte_fallback=bool(trainer.get(35, 0)),
        prefix_is_suffix=bool(trainer.get(24, 0)),
    )


def read_offsets(data: bytes) -> list[tuple[int, int]]:
    """Return (begin, end) in UTF-8 bytes of each piece of a serialized encode result."""
    return [
        (found.get(4, 0), found.get(5, 0))
        for field, kind, start, stop in _fields(data, 0, len(data))
        if field == 2 and kind == _BYTES
        for found in (_scalars(data, start, stop),)
    ]


def _piece(data: bytes, start: int, stop: int) -> Piece:
    text, kind_of, type_at = "", NORMAL, None
    for field, kind, begin, end in _fields(data, start, stop):
        if field == 1 and kind == _BYTES:
            if end - begin > MAX_TOKEN_BYTES:
                raise _Damaged
            text = data[begin:end].decode("utf-8")
        elif field == 3 and kind == _VARINT:
            kind_of, type_at = _varint(data, begin, end)[0], begin
            if end - begin != 1 or not NORMAL <= kind_of <= BYTE:
                raise _Damaged
    return Piece(text, kind_of, type_at)


def _scalars(data: bytes, start: int, stop: int) -> dict[int, int]:
    """Return a message's varints by field, and the length of each of its byte fields."""
    return {
        field: _varint(data, begin, end)[0] if kind == _VARINT else end - begin
        for field, kind, begin, end in _fields(data, start, stop)
    }


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= stop or shift > 63:
            raise _Damaged
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field, kind, begin, end) of each field between two positions."""
    while at < stop:
        tag, at = _varint(data, at, stop)
        field, kind = tag >> 3, tag & 7
        begin = at
        if kind == _VARINT:
            _, end = _varint(data, at, stop)
        elif kind == _BYTES:
            length, begin = _varint(data, at, stop)
            end = begin + length
        elif kind in (_FIXED64, _FIXED32):
            end = at + (8 if kind == _FIXED64 else 4)
        else:
            raise _Damaged
        if field == 0 or end > stop:
            raise _Damaged
        yield field, kind, begin, end
        at = end
