"""Where a new cut ends with lowWater."""

from __future__ import annotations

from collections.abc import Sequence


def low_water_cut(movable: Sequence[int], tokens: int, first_fit: int, room_tokens: int, low_water: float) -> int:
    """Return the number of moves made: the first fit, or on to the first rung within the low water.

    movable    sizes of the movable turns, oldest first, which leave one by one
    tokens     the whole prompt at the first fit
    History's room is the budget less everything but movable history of the rung found.

    >>> low_water_cut([10, 10, 10, 10], 30 + 5, 1, 36, 0.5)
    3
    """
    if first_fit == 0 or low_water >= 1.0:
        return first_fit
    history_room = room_tokens - (tokens - sum(movable[first_fit:]))
    for made in range(first_fit, len(movable) + 1):
        if sum(movable[made:]) <= low_water * history_room:
            return made
    return first_fit
