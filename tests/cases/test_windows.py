"""D16, D18: the open turn, and where the window ends to the token (qwen3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.request import PlanRequest
from planner.values.turn import Message, ToolCall, ToolResult
from planner.wire.dump import dump_receipt, event_fields
from tests.cases.common import (
    QWEN,
    WIDE,
    case,
    check,
    expect_kept,
    expect_refused,
    limits,
    planner_of,
    removed_turns,
    request_of,
    said,
    variant,
)
from tests.laws.common import answer_bytes
from tests.support.toy import ToyBundle

PLANNER = planner_of(QWEN)


def _plan(request: PlanRequest) -> Plan:
    answer = PLANNER.plan(request)
    assert isinstance(answer, Plan), answer
    return answer


def _without(request: PlanRequest, *turn_ids: str) -> PlanRequest:
    return replace(request, turns=tuple(turn for turn in request.turns if turn.id not in turn_ids))


def test_D16_a_result_larger_than_the_window_leaves_with_its_turn(shared_dir: Path) -> None:
    """T1 alone is larger than the window: it leaves whole, in one pass."""
    one = case(shared_dir, "D16")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    assert one.expected["measured_qwen3"]["without_T1"] == len(answer.ids)
    assert one.expected["measured_qwen3"]["all"] == len(_plan(replace(request, **limits(WIDE))).ids)
    check("D16", "T1 leaves whole",
          {"turn/T1": "over_budget"} == removed_turns(answer) and "frame;steel" not in said(answer))  # fmt: skip
    renders = int(answer.diagnostics["renders"]) + int(answer.diagnostics["mini_renders"])
    check("D16", "one pass", renders <= 4)


def test_D16a_the_open_turn_is_never_shortened(shared_dir: Path) -> None:
    """The same result in the turn still being answered: a typed end state, twice the same."""
    one = case(shared_dir, "D16")
    given = dict(one.input)
    given["history"], given["request"] = [], {"id": "R1", "messages": one.input["history"][0]["messages"][:3]}
    request = request_of(given, one.budget)
    refused = expect_refused(PLANNER.plan(request), "context_policy_overflow")
    need = refused.tokens_missing + 1024 - 128
    check("D16", "about 4091 tokens", abs(need - 4091) <= 8)
    check("D16", "the refusal names the class that is too big",
          "open_turn_overflow" == refused.reason and refused.line().startswith("context plan rejected: ")
          and answer_bytes(refused) == answer_bytes(PLANNER.plan(request)))  # fmt: skip


def test_D16b_six_small_results_overflow_together(shared_dir: Path) -> None:
    """Each result is small, the open turn is not."""
    request = request_of(case(shared_dir, "D16").input, {**WIDE, "inputLimit": 1024, "reservedOutput": 128})
    calls = tuple(ToolCall(f"call_{number}", "export_stock", {"shelf": "A"}) for number in range(6))
    results = [Message("tool", tool_result=ToolResult(call.id, "frame;ok\n" * 75)) for call in calls]
    own = replace(request.turns[0], id="R1", sequence=3, state="open",
                  messages=(Message("user", text="go"), Message("assistant", tool_calls=calls), *results))  # fmt: skip
    request = replace(
        request, turns=(*request.turns[1:], own), request=replace(request.request, text=None, turn_id="R1")
    )
    refused = expect_refused(PLANNER.plan(request), "context_policy_overflow")
    assert "open_turn_overflow" == refused.reason
    five = replace(own, messages=(own.messages[0], replace(own.messages[1], tool_calls=calls[:2]), *results[:2]))
    assert PLANNER.plan(replace(request, turns=(five,))).accepted


def test_D18_exactly_full_is_accepted(shared_dir: Path) -> None:
    """231 ids, 100 reserved, 331 in all, margin 0 by name."""
    one = case(shared_dir, "D18")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    check("D18", "input ids 231", (231, 100, 331) == (
        len(answer.ids), answer.account.reserved_output_tokens, answer.account.input_limit))  # fmt: skip
    check("D18", "equality is accepted", 0 == answer.account.headroom_tokens and 100 == answer.max_output_tokens)
    check("D18", "ledger classes add up", 331 == sum(event_fields(answer.account).values()))


@pytest.mark.parametrize("letter", ["a", "c"])
def test_D18a_one_token_over_is_refused(shared_dir: Path, letter: str) -> None:
    """A limit one lower, or a margin of 1 on the full limit: one token is missing."""
    one = variant(shared_dir, "D18", letter)
    refused = expect_refused(
        PLANNER.plan(request_of(case(shared_dir, "D18").input, one["budget"])), "context_policy_overflow"
    )
    assert 1 == refused.tokens_missing


def test_D18c_a_margin_of_one_needs_one_token_more(shared_dir: Path) -> None:
    """331 with margin 1 is refused; 332 with margin 1 is accepted; an absent margin is 1."""
    base = case(shared_dir, "D18").input
    expect_refused(PLANNER.plan(request_of(base, variant(shared_dir, "D18", "c")["budget"])), "context_policy_overflow")
    assert PLANNER.plan(request_of(base, {"inputLimit": 332, "reservedOutput": 100, "safetyMargin": 1})).accepted
    absent = replace(request_of(base, case(shared_dir, "D18").budget), safety_margin_tokens=None)
    expect_refused(PLANNER.plan(absent), "context_policy_overflow")


def test_D18b_one_token_to_spare_is_accepted(shared_dir: Path) -> None:
    """A limit one higher."""
    one = variant(shared_dir, "D18", "b")
    answer = PLANNER.plan(request_of(case(shared_dir, "D18").input, one["budget"]))
    assert isinstance(answer, Plan)
    assert (1, 101) == (answer.account.headroom_tokens, answer.max_output_tokens)


@pytest.mark.parametrize(("reserve", "code"), [
    (100, "invalid-input"), (101, "invalid-input"), (-1, "invalid-input"), (True, "invalid-input"),
    (1.5, "invalid-input"), (0, "context_policy_overflow"),
])  # fmt: skip
def test_D18d_a_budget_that_cannot_be_is_typed(shared_dir: Path, reserve: Any, code: str) -> None:
    """A reserve of 0 is a value (then 231 tokens overflow 100); what is no whole number below the limit is not."""
    request = request_of(case(shared_dir, "D18").input, {"inputLimit": 100, "reservedOutput": 1, "safetyMargin": 0})
    expect_refused(PLANNER.plan(replace(request, reserved_output_tokens=reserve)), code)


def test_D18e_the_smaller_of_limit_and_context_counts(shared_dir: Path) -> None:
    """A bundle of 1,024 asked for 2,048: the smaller one is used and shown, never the larger."""
    small = Planner(ToyBundle(context_tokens=1_024))
    request = request_of(case(shared_dir, "D18").input, {**WIDE, "inputLimit": 2_048}, small.bundle_id)
    refused = expect_refused(small.plan(request), "context_policy_overflow")
    assert refused.account is not None
    assert 1_024 == refused.account.input_limit
    shorter = small.plan(replace(request, request=replace(request.request, text="spoke " * 20)))
    assert isinstance(shorter, Plan)
    assert (1_024, {"maxInputTokens": 1_024}) == (shorter.account.input_limit, dict(shorter.receipt.defaults))
    assert b'"inputLimit":1024' in dump_receipt(shorter.receipt)
