"""Longest whole-turn suffix that fits, by brute force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence


def longest_suffix(
    total: int, pinned: Collection[int], tokens: Callable[[Sequence[int]], int], room_tokens: int
) -> list[int] | None:
    """Return the positions of the turns that stay: pinned ones, and the longest suffix that fits with them.

    total   turns, oldest first
    pinned  positions that always stay (protected and open turns)
    tokens  kept positions -> tokens of the whole prompt
    Returns None if not even the pinned turns fit.

    >>> longest_suffix(4, {3}, lambda kept: 10 * len(kept), 25)
    [2, 3]
    """
    for start in range(total + 1):
        kept = sorted(set(range(start, total)) | set(pinned))
        if tokens(kept) <= room_tokens:
            return kept
    return None
