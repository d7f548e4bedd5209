"""The header of a LiteRT-LM file: where its sections lie and what each holds. No section is read here.

Layout as measured (facts-runtimes.md §4): magic, three version numbers, the end of the header at byte 24, a
flatbuffer from byte 32. Bounds follow threats.md §2.6.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from planner.bundles.flatbuffer import Buffer, Damaged
from planner.values.reasons import PlannerFault

MAGIC = b"LITERTLM"
FIXED_BYTES = 32
MAX_HEADER_BYTES = 1 << 20
MAX_SECTIONS = 1_024
MAJOR = 1

SENTENCEPIECE, METADATA, TOKENIZER_JSON = 4, 5, 6


@dataclass(frozen=True, slots=True)
class Section:
    """One section: what its bytes are, and where they begin and end in the file."""

    kind: int
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Header:
    """`version` as the file states it; `sections` in the file's order; `length` in bytes."""

    version: tuple[int, int, int]
    sections: tuple[Section, ...]
    length: int

    def of_kind(self, *kinds: int) -> tuple[Section, ...]:
        """Return the sections that hold one of these."""
        return tuple(section for section in self.sections if section.kind in kinds)


def unsafe(detail: str) -> PlannerFault:
    """Return the fault of a file that breaks a bound or is damaged."""
    return PlannerFault("bundle_unsafe", f"LiteRT-LM: {detail}")


def header_length(start: bytes) -> int:
    """Return how many bytes the header has, from its first 32.

    Raises bundle_unsafe, and format_not_supported for a major version other than 1.
    """
    if len(start) < FIXED_BYTES or not start.startswith(MAGIC):
        raise unsafe("the file does not begin as one")
    major = struct.unpack_from("<I", start, 8)[0]
    if major != MAJOR:
        raise PlannerFault("format_not_supported", f"LiteRT-LM file of version {major}")
    end: int = struct.unpack_from("<Q", start, 24)[0]
    if not FIXED_BYTES < end <= MAX_HEADER_BYTES:
        raise unsafe(f"the header ends before it begins or beyond {MAX_HEADER_BYTES} bytes")
    return end


def parse_header(data: bytes) -> Header:
    """Parse the whole header. Raises bundle_unsafe for anything damaged, what `header_length` raises."""
    length = header_length(data)
    if len(data) < length:
        raise unsafe("the file ends before its header does")
    try:
        listed = Buffer(data[FIXED_BYTES:length]).root().child(1)
        rows = [] if listed is None else listed.children(0, MAX_SECTIONS)
        sections = tuple(Section(row.u8(3), row.u64(1), row.u64(2)) for row in rows)
    except Damaged:
        raise unsafe("the header is damaged or breaks a bound") from None
    if any(section.end < section.begin or section.begin < length for section in sections):
        raise unsafe("a section ends before it begins, or lies in the header")
    first, second, third = struct.unpack_from("<III", data, 8)
    return Header((first, second, third), sections, length)
