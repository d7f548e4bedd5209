"""A bounds-checked walk over the tables of a flatbuffer: offsets are believed only where they lead inside.

Every table and vector is bounded by the bytes it lies in; whoever walks bounds how many are taken (threats.md §2.6).
"""

from __future__ import annotations

import struct

MAX_FIELDS = 64

_U16, _U32, _I32, _U64 = (struct.Struct("<" + code) for code in "HIiQ")


class Damaged(Exception):  # noqa: N818 - whoever walks turns it into a fault that names the file
    """An offset leads out of the buffer, or a bound is broken."""


class Buffer:
    """The bytes of one flatbuffer."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def root(self) -> Table:
        """Return the root table. Raises Damaged."""
        return self.table(self.number(_U32, 0))

    def table(self, at: int) -> Table:
        """Return the table at a position. Raises Damaged."""
        shape = at - self.number(_I32, at)
        size, inline = self.number(_U16, shape), self.number(_U16, shape + 2)
        count = size // 2 - 2
        if size < 4 or size % 2 or count > MAX_FIELDS or inline < 4 or at + inline > len(self.data):
            raise Damaged
        offsets = tuple(self.number(_U16, shape + 4 + 2 * index) for index in range(count))
        if any(not 4 <= offset < inline for offset in offsets if offset):
            raise Damaged
        return Table(self, at, inline, offsets)

    def number(self, form: struct.Struct, at: int) -> int:
        """Return a number at a position. Raises Damaged."""
        if at < 0 or at + form.size > len(self.data):
            raise Damaged
        return int(form.unpack_from(self.data, at)[0])


class Table:
    """One table: where each field's value lies, 0 where it is left out."""

    def __init__(self, buffer: Buffer, at: int, inline: int, offsets: tuple[int, ...]) -> None:
        self._buffer = buffer
        self._at = at
        self._inline = inline
        self._offsets = offsets

    def _place(self, field: int, size: int) -> int | None:
        offset = self._offsets[field] if field < len(self._offsets) else 0
        if not offset:
            return None
        if offset + size > self._inline:
            raise Damaged
        return self._at + offset

    def u8(self, field: int) -> int:
        """Return a byte, 0 where the field is left out. Raises Damaged."""
        place = self._place(field, 1)
        return 0 if place is None else self._buffer.data[place]

    def u64(self, field: int) -> int:
        """Return a 64-bit number, 0 where the field is left out. Raises Damaged."""
        place = self._place(field, 8)
        return 0 if place is None else self._buffer.number(_U64, place)

    def child(self, field: int) -> Table | None:
        """Return the table a field points to, None where it is left out. Raises Damaged."""
        place = self._target(field)
        return None if place is None else self._buffer.table(place)

    def children(self, field: int, most: int) -> list[Table]:
        """Return the tables of a vector, [] where it is left out. Raises Damaged, also beyond `most`."""
        place = self._target(field)
        if place is None:
            return []
        count = self._buffer.number(_U32, place)
        if count > most or place + 4 + 4 * count > len(self._buffer.data):
            raise Damaged
        spots = [place + 4 + 4 * index for index in range(count)]
        return [self._buffer.table(spot + self._buffer.number(_U32, spot)) for spot in spots]

    def _target(self, field: int) -> int | None:
        place = self._place(field, 4)
        return None if place is None else place + self._buffer.number(_U32, place)
