"""Linear scan of a ladder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Rung = TypeVar("Rung")


def first_fit(ladder: Sequence[Rung], tokens: Callable[[Rung], int], room_tokens: int) -> int | None:
    """Return the position of the first rung within the room, measuring each in order; None if none fits.

    >>> first_fit(["full", "lean"], {"full": 9, "lean": 4}.__getitem__, 5)
    1
    """
    for position, rung in enumerate(ladder):
        if tokens(rung) <= room_tokens:
            return position
    return None
