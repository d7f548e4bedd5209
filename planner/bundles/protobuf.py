"""A length-checked walk over protobuf's wire format, for the few messages that model files hold.

Every length is checked against the bytes left before it is believed (threats.md §2.6).
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Damaged(Exception):  # noqa: N818 - whoever walks turns it into a fault that names the file
    """The bytes break the wire format or a bound."""


def varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the number at a position and the position behind it. Raises Damaged."""
    value = shift = 0
    while True:
        if at >= stop or shift > 63:
            raise Damaged
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field, kind, begin, end) of each field between two positions. Raises Damaged."""
    while at < stop:
        tag, at = varint(data, at, stop)
        field, kind = tag >> 3, tag & 7
        begin = at
        if kind == VARINT:
            _, end = varint(data, at, stop)
        elif kind == BYTES:
            length, begin = varint(data, at, stop)
            end = begin + length
        elif kind in (FIXED64, FIXED32):
            end = at + (8 if kind == FIXED64 else 4)
        else:
            raise Damaged
        if field == 0 or end > stop:
            raise Damaged
        yield field, kind, begin, end
        at = end
