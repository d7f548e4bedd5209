"""Damaging a binary file as many formats suffer it, and how much memory reading it took."""

from __future__ import annotations

import random
import struct
import sys

import pytest

NUMBERS = (0, 1, 255, 1 << 14, 1 << 16, 1 << 22, 1 << 31, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)
"""Borders of lengths and offsets."""


def damage(data: bytearray, at: int, draw: random.Random) -> None:
    """Flip a bit, replace a number, or cut, drop or double a stretch, at one place of the data."""
    how = draw.randrange(6)
    if how == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif how == 1:
        data[at : at + 8] = struct.pack("<Q", draw.choice(NUMBERS))
    elif how == 2:
        data[at : at + 4] = struct.pack("<I", draw.choice(NUMBERS) & 0xFFFFFFFF)
    elif how == 3:
        del data[at:]
    elif how == 4:
        del data[at : at + draw.randint(1, 64)]
    else:
        data[at:at] = data[at : at + draw.randint(1, 64)]


def most_bytes() -> int:
    """Return the most memory this process ever had, in bytes; skips where no system says it."""
    resource = pytest.importorskip("resource", reason="this system has no resource limits to read")
    scale = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * scale
