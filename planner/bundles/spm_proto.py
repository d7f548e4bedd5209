"""A length-checked reader of sentencepiece's protobuf: pieces, trainer and normalizer facts, encode results.

Only what is needed is read; every length is checked against the bytes left (threats.md §2.6). The library
parses the same bytes afterwards; this walk decides first whether it may.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.bundles.loaded import MAX_TOKEN_BYTES, MAX_VOCABULARY
from planner.bundles.protobuf import BYTES, VARINT, Damaged, fields, varint
from planner.values.reasons import PlannerFault

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


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


def read_model(data: bytes) -> ModelFacts:
    """Walk a model. Raises bundle_unsafe where it is damaged or breaks a bound."""
    pieces: list[Piece] = []
    trainer: dict[int, int] = {}
    normalizer: dict[int, int] = {}
    try:
        for field, kind, start, stop in fields(data, 0, len(data)):
            if field == 1 and kind == BYTES:
                if len(pieces) >= MAX_VOCABULARY:
                    raise Damaged
                pieces.append(_piece(data, start, stop))
            elif field in (2, 3) and kind == BYTES:
                (trainer if field == 2 else normalizer).update(_scalars(data, start, stop))
    except (Damaged, UnicodeDecodeError):
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
        for field, kind, start, stop in fields(data, 0, len(data))
        if field == 2 and kind == BYTES
        for found in (_scalars(data, start, stop),)
    ]


def _piece(data: bytes, start: int, stop: int) -> Piece:
    text, kind_of, type_at = "", NORMAL, None
    for field, kind, begin, end in fields(data, start, stop):
        if field == 1 and kind == BYTES:
            if end - begin > MAX_TOKEN_BYTES:
                raise Damaged
            text = data[begin:end].decode("utf-8")
        elif field == 3 and kind == VARINT:
            kind_of, type_at = varint(data, begin, end)[0], begin
            if end - begin != 1 or not NORMAL <= kind_of <= BYTE:
                raise Damaged
    return Piece(text, kind_of, type_at)


def _scalars(data: bytes, start: int, stop: int) -> dict[int, int]:
    """Return a message's varints by field, and the length of each of its byte fields."""
    return {
        field: varint(data, begin, end)[0] if kind == VARINT else end - begin
        for field, kind, begin, end in fields(data, start, stop)
    }
