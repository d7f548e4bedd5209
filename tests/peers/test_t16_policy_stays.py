"""Ollama #8531: a large user message pushed the system prompt out."""

from __future__ import annotations

import pytest

from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest
from tests.laws.common import said
from tests.peers.support import budgets, chat, loop_turn


@pytest.mark.parametrize("length", [10, 900, 5_000])
def test_T16_policy_is_all_there_or_there_is_no_plan(length: int) -> None:
    """For every feasible budget the policy ids are the required ones, in the prompt; below it the call is refused."""
    request = chat(loop_turn(1), loop_turn(2), request=CurrentRequest(id="q", text="x" * length))
    plans = refusals = 0
    for room, answer in budgets(request, step=29):
        if isinstance(answer, Refusal):
            refusals += 1
            assert "context_policy_overflow" == answer.reason
            assert room < length + 400
            continue
        assert isinstance(answer, Plan)
        plans += 1
        assert ("policy/p1", "policy/p2") == answer.plan_file.required_policy_ids == answer.kept[:2]
        assert "<|system|>be brief\n\nbe kind<|end|>" in said(answer)
    assert plans
    assert refusals
