"""LangChain #38352: of mixed results, one call inside and one outside the cut, the orphan stayed."""

from __future__ import annotations

import pytest

import planner
from planner.ledger.ledger import Ledger
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.turn import Message, ToolCall, ToolResult
from tests.laws.common import said
from tests.peers.support import budgets, chat, loop_turn


def test_T05_parallel_calls_and_their_results_are_one_unit() -> None:
    """Three calls answered in three messages are all there or none, at every budget."""
    request = chat(loop_turn(1, 3, "one "), loop_turn(2, 3, "two "))
    counts = set()
    for _, answer in budgets(request, step=3):
        if isinstance(answer, Plan):
            for word in ("one ", "two "):
                counts.add((said(answer).count("<|tool|>" + word * 5), said(answer).count(f'"{word}"')))
    assert {(3, 3), (0, 0)} == counts


ORPHAN = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "send", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c2", "content": "done"}, {"role": "user", "content": "and?"},
]  # fmt: skip


def test_T05_an_orphan_is_refused_where_it_comes_in(tmp_path: object) -> None:
    """A result without its call is invalid input for a list and for a ledger, which then holds nothing of it."""
    answer = planner.plan(ORPHAN, bundle="reference")
    assert isinstance(answer, Refusal)
    assert "invalid-input" == answer.reason
    with Ledger.open(f"{tmp_path}/chat.db") as ledger:
        ledger.append("c", "t1", [Message("user", "u1", "go")])
        before = list(ledger.turns("c"))
        call = Message("assistant", "a1", tool_calls=(ToolCall("c1", "send", {}),))
        orphan = Message("tool", "r1", tool_result=ToolResult("c2", "done"))
        with pytest.raises(RefusalSignal, match="invalid-input"):
            ledger.append("c", "t1", [call, orphan])
        assert before == list(ledger.turns("c"))
