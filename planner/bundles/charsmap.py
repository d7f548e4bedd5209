"""The rules of a sentencepiece normaliser: how much longer they can make a text (M6).

The map is a double array over the bytes of what is replaced, and the replacements behind it. Each place of a text is
replaced by the longest rule that begins there or kept, so the whole grows at most as the worst rule does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from planner.bundles.protobuf import BYTES, Damaged, fields

_LABEL, _LEAF, _VALUE = (1 << 31) | 0xFF, 1 << 8, (1 << 31) - 1


def charsmap_of(model: bytes) -> bytes:
    """Return the map of a model, empty where it has none. Raises Damaged."""
    for field, kind, start, stop in fields(model, 0, len(model)):
        if field == 3 and kind == BYTES:
            for inner, inner_kind, begin, end in fields(model, start, stop):
                if inner == 2 and inner_kind == BYTES:
                    return model[begin:end]
    return b""


def growth(charsmap: bytes) -> int:
    """Return the most bytes that one byte of a text may become, rounded up; 1 for an empty map. Raises Damaged."""
    worst = 1
    for replaced_bytes, length in rules(charsmap):
        worst = max(worst, -(-length // replaced_bytes))
    return worst


def rules(charsmap: bytes) -> Iterator[tuple[int, int]]:
    """Yield the bytes of what each rule replaces and of what it puts there; of rules alike the shortest.

    Raises Damaged.
    """
    if not charsmap:
        return
    if len(charsmap) < 8:
        raise Damaged
    size = struct.unpack_from("<I", charsmap)[0]
    if size % 4 or size + 4 > len(charsmap):
        raise Damaged
    units = struct.unpack_from(f"<{size // 4}I", charsmap, 4)
    put = charsmap[4 + size :]
    children: dict[int, list[int]] = {}
    for place, unit in enumerate(units):
        if 0 < unit & _LABEL < 256:
            children.setdefault(place ^ (unit & _LABEL), []).append(place)
    # Endings may be shared, so a place is visited once, by the shortest way: that rule grows most.
    depth, reached, seen = 0, [0], {0}
    while reached:
        following: list[int] = []
        for at in reached:
            base = at ^ _offset(units[at])
            if depth and units[at] & _LEAF and base < len(units):
                start = units[base] & _VALUE
                end = put.find(b"\0", start)
                if start > len(put) or end < 0:
                    raise Damaged
                yield depth, end - start
            following += [place for place in children.get(base, ()) if place not in seen]
            seen.update(following)
        depth, reached = depth + 1, list(dict.fromkeys(following))


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)
