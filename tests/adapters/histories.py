"""Histories to import: plain turns, and turns as the lines of a file."""

from __future__ import annotations

import io
from collections.abc import Sequence

from planner.values.turn import Message, Turn
from planner.wire.dump import dump_record


def lines(turns: Sequence[Turn]) -> io.BytesIO:
    """Return turns as a file of lines."""
    return io.BytesIO(b"".join(dump_record(turn) + b"\n" for turn in turns))


def plain(count: int, first: int = 1) -> list[Turn]:
    """Return completed turns, the sequence of each twice its number."""
    return [
        Turn(f"t{at}", 2 * at, "completed", (
            Message("user", f"u{at}", f"Question {at}?", sequence=2 * at),
            Message("assistant", f"a{at}", f"Answer {at}.", sequence=2 * at + 1),
        ))
        for at in range(first, first + count)
    ]  # fmt: skip
