"""In which order old history and passages give way: moves 2 to 5 of design.md §5."""

from __future__ import annotations

from collections.abc import Sequence

FORMS, SUMMARIES, PASSAGES, TURNS = ORDER = (2, 3, 4, 5)
"""Shorter forms of old results; runs a summary stands for; passages by value; turns and summaries, oldest first."""


def full_order(stated: Sequence[int]) -> tuple[int, ...]:
    """Return the order of all four moves: those stated first, the others behind them as by default.

    >>> full_order((4,))
    (4, 2, 3, 5)
    """
    return (*stated, *(move for move in ORDER if move not in stated))


def order_problem(stated: Sequence[int]) -> str | None:
    """Return why an order cannot be kept, None where it can.

    Turns never leave before the summaries that may stand for them: then nothing would say what they said.
    """
    if type(stated) is not tuple or len(set(stated)) != len(stated) or not set(stated) <= set(ORDER):
        return "expected moves 2 to 5, each once"
    if any(type(move) is not int for move in stated):
        return "expected moves 2 to 5, each once"
    order = full_order(stated)
    return None if order.index(SUMMARIES) < order.index(TURNS) else "turns (5) leave before their summaries come (3)"
