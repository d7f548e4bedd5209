"""D01, D02, D03, D09: what leaves and what never does (qwen3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from planner.values.plan import Plan, Refusal
from planner.values.request import Options, PlanRequest
from planner.values.turn import Message
from planner.wire.dump import dump_refusal, event_fields
from tests.cases.common import (
    QWEN,
    WIDE,
    case,
    chat_request,
    check,
    expect_kept,
    expect_refused,
    limits,
    planner_of,
    removed_turns,
    request_of,
    said,
    tool_of,
    variant,
)
from tests.laws.common import answer_bytes

PLANNER = planner_of(QWEN)


def _plan(request: PlanRequest) -> Plan:
    answer = PLANNER.plan(request)
    assert isinstance(answer, Plan), answer
    return answer


def _without(request: PlanRequest, *turn_ids: str) -> PlanRequest:
    return replace(request, turns=tuple(turn for turn in request.turns if turn.id not in turn_ids))


def test_D01_a_turn_leaves_with_its_call_and_its_result(shared_dir: Path) -> None:
    """A window between the sizes without m1+m2 and of everything: the whole first turn goes."""
    one = case(shared_dir, "D01")
    request = chat_request(one.input, one.budget)
    answer = _plan(request)
    assert ("policy/p1", "turn/t2", "turn/t3", "request/t3") == answer.kept
    assert one.expected["measured_qwen3"]["expected_plan"] == len(answer.ids)
    whole = _plan(replace(request, **limits(WIDE)))
    assert one.expected["measured_qwen3"]["full"] == len(whole.ids)
    prompt = said(answer)
    first = [one.input["messages"][at]["content"] for at in (1, 3, 4)]
    check("D01", "the four messages of the first turn leave together",
          not any(text in prompt for text in first) and all(text in said(whole) for text in first))  # fmt: skip
    check("D01", "no tool message in the final list without its call",
          "<tool_response>" not in prompt and "<tool_call>" not in prompt)  # fmt: skip
    gone = {entry.id for entry in answer.removed}
    least = PLANNER.plan(replace(request, max_input_tokens=len(_plan(_without(request, "t1", "t2")).ids)))
    check("D01", "m0 and m7 are never candidates",
          isinstance(least, Plan) and ("policy/p1", "turn/t3", "request/t3") == least.kept)  # fmt: skip
    check("D01", "the removal receipt names the turn",
          gone == {"turn/t1"} and {"turn/t1": "over_budget"} == removed_turns(answer))  # fmt: skip


def test_D02_six_parallel_results_leave_together(shared_dir: Path) -> None:
    """Room for half of the results of T2: none of them stays."""
    one = case(shared_dir, "D02")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    measured = one.expected["measured_qwen3"]
    assert measured["T3_only"] == len(answer.ids)
    assert measured["all"] == len(_plan(replace(request, **limits(WIDE))).ids)
    assert measured["without_T1"] == len(_plan(replace(_without(request, "T1"), **limits(WIDE))).ids)
    assert {"turn/T1..turn/T2": "over_budget"} == removed_turns(answer)
    check("D02", "either all six call/result pairs",
          not any(word in said(answer) for word in ("logs/unit", "unit 1: ", "unit 6: ")))  # fmt: skip
    _pairs_in_order(_plan(replace(request, **limits(WIDE))))


def _pairs_in_order(answer: Plan) -> None:
    body = said(answer)
    calls = [body.index(f"logs/unit{number}.txt") for number in range(1, 7)]
    results = [body.index(f"unit {number}: ") for number in range(1, 7)]
    assert sorted(calls) == calls
    assert sorted(results) == results
    assert max(calls) < min(results)


def test_D02a_all_six_pairs_stay_where_the_turn_fits(shared_dir: Path) -> None:
    """T2 fits whole, T1 does not."""
    one = variant(shared_dir, "D02", "a")
    request = request_of(case(shared_dir, "D02").input, one["budget"])
    answer = expect_kept(PLANNER.plan(request), one["expected"]["keep"], request)
    assert {"turn/T1": "over_budget"} == removed_turns(answer)
    calls = said(answer).count('"arguments": {"path"')
    check("D02", "T2 appears with six calls and six results",
          6 == calls == said(answer).count("<tool_response>"))  # fmt: skip
    turn = next(turn for turn in request.turns if turn.id == "T2")
    results = [message.words() for message in turn.messages if message.role == "tool"]
    places = [said(answer).index(text) for text in results]
    check("D02", "results keep their original order", sorted(places) == places and 6 == len(set(places)))
    _pairs_in_order(answer)


def test_D02_shorter_forms_keep_all_six_pairs(shared_dir: Path) -> None:
    """With shorter forms the turn whose results were cut in half elsewhere stays whole in the same window."""
    one = case(shared_dir, "D02")
    given = request_of(one.input, one.budget)
    turns = tuple(replace(turn, messages=tuple(map(_with_form, turn.messages))) for turn in given.turns)
    for request in (replace(given, turns=turns), replace(given, options=Options(stubs=True))):
        answer = expect_kept(PLANNER.plan(request), ["P1", "tools", "T1", "T2", "T3", "R1"], request)
        assert {} == removed_turns(answer)
        assert len(answer.ids) <= one.budget["inputLimit"]
        check("D02", "either all six call/result pairs",
              6 == said(answer).count('"arguments": {"path"') == said(answer).count("<tool_response>"))  # fmt: skip
        uses = answer.receipt.forms
        assert [f"call_r{number}" for number in range(1, len(uses) + 1)] == [use.call_id for use in uses]
        assert 0 < len(uses) < 6
        assert {"turn/T2"} == {use.id for use in uses}
        shown = next(turn for turn in request.turns if turn.id == "T2").messages[2 + len(uses) : 8]
        assert all(message.words() in said(answer) for message in shown)


def _with_form(message: Message) -> Message:
    result = message.tool_result
    if result is None:
        return message
    return replace(message, tool_result=replace(result, short_forms=(f"{result.text[:8]}normal cycle",)))


def test_D03_policy_and_request_too_large_is_a_terminal_state(shared_dir: Path) -> None:
    """The request alone would fit, policy and request do not: an overflow, nothing shortened."""
    one = case(shared_dir, "D03")
    request = request_of(one.input, one.budget)
    answer = PLANNER.plan(request)
    refused = expect_refused(answer, one.expected["code"])
    assert one.expected["measured_qwen3"]["policy_plus_request"] - 686 == refused.tokens_missing
    check("D03", "no plan and no token ids", not hasattr(refused, "ids") and b'"ids":' not in dump_refusal(refused))
    assert refused.account is not None
    lines = event_fields(refused.account)
    texts = [request.policy[0].text[:30], "quick brown", "kettle"]
    shown = dump_refusal(refused).decode() + refused.line() + repr(refused)
    check("D03", "the refusal carries per-class token numbers",
          min(lines["policyTokens"], lines["requestTokens"], lines["framingTokens"]) > 0
          and not any(text in shown for text in texts))  # fmt: skip
    check("D03", "the request is not shortened",
          one.expected["measured_qwen3"]["policy_plus_request"] == refused.account.input_tokens)  # fmt: skip
    check("D03", "the same refusal again", answer_bytes(refused) == answer_bytes(_refused(request)))


def _refused(request: PlanRequest) -> Refusal:
    answer = PLANNER.plan(request)
    assert isinstance(answer, Refusal)
    return answer


def test_D03a_history_leaves_where_policy_and_request_fit(shared_dir: Path) -> None:
    """T1 goes, P1 and R1 stay."""
    one = variant(shared_dir, "D03", "a")
    request = request_of(case(shared_dir, "D03").input, one["budget"])
    answer = expect_kept(PLANNER.plan(request), one["expected"]["keep"], request)
    assert 762 == len(answer.ids)
    assert {"turn/T1": "over_budget"} == removed_turns(answer)


def test_D03b_a_request_larger_than_the_window_is_not_cut(shared_dir: Path) -> None:
    """Without the policy it would still be too large, and the account has its whole size."""
    one = variant(shared_dir, "D03", "b")
    request = request_of(case(shared_dir, "D03").input, one["budget"])
    refused = expect_refused(PLANNER.plan(request), one["expected"]["code"])
    whole = _plan(replace(request, **limits(WIDE)))
    assert refused.account is not None
    check("D03", "request text is not cut anywhere",
          whole.account.request_tokens == refused.account.request_tokens
          and (request.request.text or "-") in said(whole))  # fmt: skip
    alone = replace(request, policy=(), turns=())
    assert case(shared_dir, "D03").expected["measured_qwen3"]["request_without_policy"] == len(
        _plan(replace(alone, **limits(WIDE))).ids
    )
    expect_refused(PLANNER.plan(alone), "context_policy_overflow")


def test_D03c_prompt_and_reserve_must_fit_together(shared_dir: Path) -> None:
    """762 tokens fit into 862, but not beside a reserve of 200."""
    one = variant(shared_dir, "D03", "c")
    request = request_of(case(shared_dir, "D03").input, one["budget"])
    refused = expect_refused(PLANNER.plan(request), one["expected"]["code"])
    fits = PLANNER.plan(replace(request, reserved_output_tokens=100))
    check("D03", "a plan that would make the runtime shift", 100 == refused.tokens_missing and fits.accepted)


def test_D09_tool_declarations_are_counted_and_stay(shared_dir: Path) -> None:
    """All five turns would fit without the tools; with them three leave."""
    one = case(shared_dir, "D09")
    request = request_of(one.input, one.budget)
    answer = expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    measured = one.expected["measured_qwen3"]
    assert measured["with_T4_T5"] == len(answer.ids)
    assert {"turn/T1..turn/T3": "over_budget"} == removed_turns(answer)
    with_tools = _plan(replace(request, **limits(WIDE)))
    bare = _plan(replace(request, tools=(), **limits(WIDE)))
    assert (measured["with_two_tools"], measured["messages_only"]) == (len(with_tools.ids), len(bare.ids))
    framing = with_tools.account.framing_tokens - bare.account.framing_tokens
    # The policy's last token and the template's "# Tools" meet in one token: it straddles, so it is framing.
    straddling = with_tools.account.policy_tokens - bare.account.policy_tokens
    check("D09", "ledger shows toolTokens greater than zero",
          with_tools.account.tool_tokens > 0 and straddling in (-1, 0)
          and measured["tool_difference"] == with_tools.account.tool_tokens + framing + straddling
          and 0 == bare.account.tool_tokens)  # fmt: skip
    figures = event_fields(answer.account)
    check("D09", "sum of all ledger classes", sum(figures.values()) == len(answer.ids) + 0)
    tight = _plan(replace(request, max_input_tokens=len(_plan(_without(request, *"T1 T2 T3 T4 T5".split())).ids)))
    check("D09", "tools are immutable", [] == [key for key in tight.kept if key.startswith("turn/T")]
          and 2 == sum(key.startswith("tool/") for key in tight.kept))  # fmt: skip


def test_D09a_a_third_tool_is_measured_anew(shared_dir: Path) -> None:
    """54 tokens more, and the earlier plan's counts are not reused."""
    one = case(shared_dir, "D09")
    request = request_of(one.input, WIDE)
    parameters = {"type": "object", "properties": {"reservation": {"type": "string"}}, "required": ["reservation"]}
    function = {"name": "cancel_room", "description": "Cancel a reservation", "parameters": parameters}
    third = tool_of({"id": "tool:cancel_room", "function": function})
    before, after = _plan(request), _plan(replace(request, tools=(*request.tools, third)))
    grown = after.account.tool_tokens - before.account.tool_tokens
    framing = after.account.framing_tokens - before.account.framing_tokens
    check("D09", "toolTokens grows by exactly 54",
          54 == len(after.ids) - len(before.ids) == grown + framing and grown > 0
          and before.receipt.plan_id != after.receipt.plan_id)  # fmt: skip


def test_D09b_tools_are_not_dropped_to_make_a_call_succeed(shared_dir: Path) -> None:
    """Below policy, tools and request: an overflow that names the fewest tools the caller could drop."""
    one = variant(shared_dir, "D09", "b")
    request = request_of(case(shared_dir, "D09").input, one["budget"])
    refused = expect_refused(PLANNER.plan(request), one["expected"]["code"])
    assert ("tool/tool:list_rooms",) == refused.advice.droppable
    lean = tuple(tool for tool in request.tools if tool.id != "tool:list_rooms")
    assert PLANNER.plan(replace(request, tools=lean)).accepted
