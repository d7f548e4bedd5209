"""LiteLLM #10696: the assistant's call stayed and its results went."""

from __future__ import annotations

from planner.values.plan import Plan
from tests.laws.common import kept
from tests.peers.support import budgets, chat, loop_turn, roles


def test_T02_a_turn_with_n_calls_keeps_n_results_or_leaves_whole() -> None:
    """Calls and results of the prompt are those of the kept turns; a removed turn is named once, with its reason."""
    calls = {f"t{at}": at % 4 for at in range(1, 8)}
    request = chat(*(loop_turn(int(name[1:]), count) for name, count in calls.items()))
    for _, answer in budgets(request):
        if not isinstance(answer, Plan):
            continue
        stays = [name for name in kept(answer, "turn") if name in calls]
        assert sum(calls[name] for name in stays) == roles(answer).count("call") == roles(answer).count("tool")
        gone = list(calls)[: len(calls) - len(stays)]
        named = [(entry.id, entry.last_id or entry.id, entry.count, entry.reason) for entry in answer.removed]
        right = [(f"turn/{gone[0]}", f"turn/{gone[-1]}", len(gone), "over_budget")] if gone else []
        assert right == named
