"""LangChain #33245: the trimmed history began with a tool result whose call was cut."""

from __future__ import annotations

from planner.values.plan import Plan
from tests.peers.support import budgets, chat, loop_turn, roles


def test_T01_history_begins_with_a_user_message_and_no_result_is_an_orphan() -> None:
    """For every budget: system, then a user message, and each result stands behind a call of its own turn."""
    planned = set()
    for _, answer in budgets(chat(*(loop_turn(at, at % 4) for at in range(1, 9)))):
        if not isinstance(answer, Plan):
            continue
        found = roles(answer)
        assert ["system", "user"] == found[:2]
        waiting = 0
        for role in found:
            waiting += {"call": 1, "tool": -1}.get(role, 0)
            assert waiting >= 0
            assert role not in ("user", "system") or waiting == 0
        planned.add(len(found))
    assert len(planned) == 9
