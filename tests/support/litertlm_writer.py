"""A tiny LiteRT-LM writer: header, metadata and tokenizer sections, and any other bytes as further sections.

Written from the layout alone; nothing here is shared with the reader under test.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

NONE, BINARY, DEPRECATED, MODEL, SENTENCEPIECE, METADATA, TOKENIZER_JSON, WEIGHTS = range(8)
BLOCK = 16_384
GENERIC, GEMMA3, QWEN3 = 1, 4, 5


def number(value: int) -> bytes:
    """Return a protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def field(tag: int, value: int | str | bytes) -> bytes:
    """Return one protobuf field: a number, or a length and bytes."""
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    raw = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(raw)) + raw


def token(value: str | Sequence[int]) -> bytes:
    """Return a token: its text, or packed ids."""
    if isinstance(value, str):
        return field(2, value)
    return field(1, field(1, b"".join(map(number, value))))


def metadata(
    *,
    start: str | Sequence[int] | None = None,
    stops: Iterable[str | Sequence[int]] = (),
    affixes: Mapping[int, tuple[str, str]] | None = None,
    context: int = 0,
    kind: int = 0,
    template: str = "",
) -> bytes:
    """Return a metadata section; `affixes` by role: 1 user, 2 model, 3 system."""
    out = b"" if start is None else field(1, token(start))
    out += b"".join(field(2, token(stop)) for stop in stops)
    if affixes is not None:
        rows = (field(role, field(1, before) + field(2, behind)) for role, (before, behind) in affixes.items())
        out += field(3, b"".join(rows))
    out += field(4, field(1, 2)) + (field(5, context) if context else b"")
    out += field(6, field(kind, b"")) if kind else b""
    return out + (field(7, template) if template else b"")


def packed(tokenizer: bytes) -> bytes:
    """Return a tokenizer.json as its section has it."""
    return struct.pack("<Q", len(tokenizer)) + zlib.compress(tokenizer)


def header(rows: Sequence[tuple[int, int, int]]) -> bytes:
    """Return the flatbuffer: each section as (kind, begin, end), tables written front to back.

    A table is a signed offset back to its shape, then its fields in the order of their sizes.
    """
    root_shape = struct.pack("<HHHH", 8, 8, 0, 4)
    list_shape = struct.pack("<HHH", 6, 8, 4)
    row_shape = struct.pack("<HHHHHH", 12, 28, 0, 8, 16, 24)
    shapes = root_shape + list_shape + row_shape
    at_root = 4 + len(shapes) + -(4 + len(shapes)) % 8
    at_list = at_root + 8
    at_vector = at_list + 8
    at_rows = at_vector + 4 + 4 * len(rows)
    at_rows += -at_rows % 8
    out = bytearray(struct.pack("<I", at_root) + shapes)
    out += bytes(at_root - len(out)) + struct.pack("<iI", at_root - 4, at_list - (at_root + 4))
    out += struct.pack("<iI", at_list - (4 + len(root_shape)), at_vector - (at_list + 4))
    out += struct.pack("<I", len(rows))
    for place in range(len(rows)):
        spot = at_vector + 4 + 4 * place
        out += struct.pack("<I", at_rows + 32 * place - spot)
    out += bytes(at_rows - len(out))
    for place, (kind, begin, end) in enumerate(rows):
        at = at_rows + 32 * place
        out += struct.pack("<iIQQB7x", at - (4 + len(root_shape) + len(list_shape)), 0, begin, end, kind)
    return bytes(out)


def litertlm_bytes(sections: Sequence[tuple[int, bytes]], *, version: tuple[int, int, int] = (1, 7, 0)) -> bytes:
    """Return a whole file with these sections, each at the beginning of a block."""
    room = 32 + len(header([(NONE, 0, 0)] * len(sections)))
    rows, at = [], room + -room % BLOCK
    for kind, data in sections:
        rows.append((kind, at, at + len(data)))
        at += len(data) + -len(data) % BLOCK
    top = header(rows)
    out = bytearray(b"LITERTLM" + struct.pack("<IIIIQ", *version, 0, 32 + len(top)) + top)
    for (_, begin, _), (_, data) in zip(rows, sections, strict=True):
        out += bytes(begin - len(out)) + data
    return bytes(out)
