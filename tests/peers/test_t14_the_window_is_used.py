"""Ollama #17427: over the window only half of it was used."""

from __future__ import annotations

from itertools import pairwise

from planner.values.plan import Plan
from tests.laws.common import kept
from tests.peers.support import alone, budgets, chat, loop_turn


def test_T14_the_newest_removed_turn_would_overflow() -> None:
    """In every trimmed plan, the kept turns and the newest removed one together are more than the room."""
    turns = tuple(loop_turn(at, at % 3, "ab " * (at % 5 + 1)) for at in range(1, 11))
    request = chat(*turns)
    names = [turn.id for turn in turns]
    trimmed = 0
    for room, answer in budgets(request):
        if not isinstance(answer, Plan) or not answer.removed:
            continue
        stays = [name for name in kept(answer, "turn") if name in names]
        newest = names[len(names) - len(stays) - 1]
        assert alone(request, newest, *stays) > room >= len(answer.ids)
        trimmed += 1
    assert trimmed > 50


def test_T14_a_larger_window_never_holds_less() -> None:
    """Tokens used never shrink as the window grows."""
    request = chat(*(loop_turn(at, 1) for at in range(1, 9)))
    used = [len(answer.ids) for _, answer in budgets(request) if isinstance(answer, Plan)]
    assert all(small <= large for small, large in pairwise(used))
