"""Rules between fields, for the wire and for Python callers alike (R39, R47, X2, X63, D08, D18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.values.check import check_request, check_turn
from planner.values.passage import Passage
from planner.values.reasons import RefusalSignal
from planner.values.request import (
    CurrentRequest,
    Options,
    OutputSchema,
    PlanRequest,
    Previous,
    TextItem,
    Tool,
)
from planner.values.turn import Message, Part, ToolCall, ToolResult, Turn

USER = Message("user", text="Where is it?")
ANSWER = Message("assistant", text="There.")


def call(*ids: str, **fields: Any) -> Message:
    """Return an assistant message with calls of these ids."""
    return Message("assistant", tool_calls=tuple(ToolCall(one, "find", {}) for one in ids), **fields)


def result(call_id: str, **fields: Any) -> Message:
    """Return a tool message."""
    return Message("tool", tool_result=ToolResult(call_id, ""), **fields)


def turn(*messages: Message, state: Any = "completed", **fields: Any) -> Turn:
    """Return a turn t1."""
    return Turn(**{"id": "t1", "sequence": 1, "state": state, "messages": messages, **fields})


BASE = PlanRequest("b", CurrentRequest(text="Go on."), turns=(turn(USER, ANSWER),))


def detail(request: Any, reason: str = "invalid-input") -> str:
    """Return the detail of the refusal."""
    with pytest.raises(RefusalSignal) as caught:
        check_request(request)
    assert caught.value.reason == reason
    return caught.value.detail


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"max_input_tokens": True}, "$.maxInputTokens"),
        ({"max_input_tokens": 0}, "$.maxInputTokens"),
        ({"max_input_tokens": 1.5}, "$.maxInputTokens"),
        ({"max_input_tokens": 10**18}, "$.maxInputTokens"),
        ({"reserved_output_tokens": -1}, "$.reservedOutputTokens"),
        ({"reserved_output_tokens": True}, "$.reservedOutputTokens"),
        ({"reserved_output_tokens": 1.5}, "$.reservedOutputTokens"),
        ({"max_input_tokens": 331, "reserved_output_tokens": 331}, "$.reservedOutputTokens"),
        ({"max_input_tokens": 331, "reserved_output_tokens": 332}, "$.reservedOutputTokens"),
        ({"safety_margin_tokens": -1}, "$.safetyMarginTokens"),
        ({"safety_margin_tokens": False}, "$.safetyMarginTokens"),
        ({"device_window": -1}, "$.deviceWindow"),
        ({"generation": True}, "$.generation"),
        ({"revision": -1}, "$.revision"),
    ],
)
def test_R39_limits_must_be_valid(fields: dict[str, Any], path: str) -> None:
    """Integers, no booleans, positive limit greater than the reserve (D18d)."""
    assert detail(replace(BASE, **fields)).startswith(f"{path}: ")


def test_R39_the_nearest_legal_limits_pass() -> None:
    """Reserve 0 and margin 0 are allowed by name; the limit needs one token more than the reserve."""
    check_request(replace(BASE, max_input_tokens=332, reserved_output_tokens=331, safety_margin_tokens=0))
    check_request(replace(BASE, max_input_tokens=1, reserved_output_tokens=0))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model_bundle_id": ""}, "$.modelBundleId"),
        ({"model_bundle_id": None}, "$.modelBundleId"),
        ({"conversation_id": "a\nb"}, "$.conversationId"),
        ({"candidate_id": "é"}, "$.candidateId"),
        ({"tier_id": "a" * 129}, "$.tierId"),
        ({"policy_version": "a b"}, "$.policyVersion"),
        ({"app_version": ""}, "$.appVersion"),
        ({"now": "2026-11-30"}, "$.now"),
        ({"now": "2026-11-30T08:00:00"}, "$.now"),
        ({"policy": [TextItem("p", "x")]}, "$.policy"),
        ({"policy": (TextItem("p", "x"), TextItem("p", "y"))}, "$.policy[1].id"),
        ({"data_scope": (TextItem("p", "\ud800"),)}, "$.dataScope[0].text"),
        ({"preferences": (TextItem("p", None),)}, "$.preferences[0].text"),
        ({"tools": (Tool("f", {"type": "function"}),)}, "$.tools[0].declaration.function"),
        ({"tools": (Tool("f", {"function": {"name": "f"}}),)}, "$.tools[0].declaration.type"),
        ({"tools": (Tool("f", {"type": "function", "function": {"name": "a b"}}),)},
         "$.tools[0].declaration.function.name"),
        ({"tools": (Tool("f", {"type": "function", "function": {"name": "f", "x": float("nan")}}),)},
         "$.tools[0].declaration"),
        ({"tools": tuple(Tool(one, {"type": "function", "function": {"name": "f"}}) for one in "ab")},
         "$.tools[1].declaration.function.name"),
        ({"output_schema": OutputSchema("o", [])}, "$.outputSchema.schema"),
        ({"passages": (Passage("c", "x", float("nan")),)}, "$.passages[0].relevance"),
        ({"passages": (Passage("c", "x", 1.01),)}, "$.passages[0].relevance"),
        ({"passages": (Passage("c", "x", True),)}, "$.passages[0].relevance"),
        ({"passages": (Passage("c", "x"), Passage("c", "y"))}, "$.passages[1].citationId"),
        ({"previous": Previous(ids=(1, -1))}, "$.previous.ids"),
        ({"previous": Previous(ids=(True,))}, "$.previous.ids"),
        ({"previous": Previous(first_kept_turn_id="a b")}, "$.previous.firstKeptTurnId"),
        ({"template_options": {"f": {1, 2}}}, "$.templateOptions"),
        ({"options": Options(low_water=0)}, "$.options.lowWater"),
        ({"options": Options(low_water=1.5)}, "$.options.lowWater"),
        ({"options": Options(low_value_line=float("inf"))}, "$.options.lowValueLine"),
        ({"options": Options(mode="tokens")}, "$.options.mode"),
        ({"options": Options(concessions=("join_same_role", "join_same_role"))}, "$.options.concessions"),
        ({"options": Options(concessions=("shorten",))}, "$.options.concessions"),
        ({"options": None}, "$.options"),
        ({"turns": [turn(USER)]}, "$.turns"),
        ({"request": CurrentRequest(text="")}, "$.request.text"),
        ({"request": CurrentRequest(text="x", required_parameters=(TextItem("a b", "x"),))},
         "$.request.requiredParameters[0].id"),
    ],
)  # fmt: skip
def test_a_broken_part_is_refused_at_its_path(fields: dict[str, Any], path: str) -> None:
    """Python callers get the same refusals as the wire, and never an exception of ours."""
    assert detail(replace(BASE, **fields)).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (turn(result("c")), ".messages[0].toolResult.callId"),
        (turn(USER, call("c"), result("c"), result("c")), ".messages[3].toolResult.callId"),
        (turn(USER, result("c"), call("c")), ".messages[1].toolResult.callId"),
        (turn(USER, call("c", "c"), result("c")), ".messages[1].toolCalls[1].id"),
        (turn(USER, call("c"), call("c")), ".messages[2].toolCalls[0].id"),
        (turn(USER, call("c", "d"), result("c")), ".messages[1].toolCalls[1]"),
        (turn(USER, call("c", accepted=False), result("c")), ".messages[2].toolResult.callId"),
        (turn(USER, replace(ANSWER, accepted=False)), ""),
        (turn(USER, Message("tool", text="x")), ".messages[1].toolResult"),
        (turn(replace(USER, tool_result=ToolResult("c", ""))), ".messages[0].toolResult"),
        (turn(USER, call("c"), replace(result("c"), text="x")), ".messages[2].text"),
        (turn(replace(USER, tool_calls=(ToolCall("c", "f", {}),))), ".messages[0].toolCalls"),
        (turn(USER, Message("assistant", tool_calls=(ToolCall("c", "f", None),))),
         ".messages[1].toolCalls[0].arguments"),
        (turn(USER, Message("assistant", tool_calls=(ToolCall("c", "f g", {}),))),
         ".messages[1].toolCalls[0].name"),
        (turn(USER, Message("assistant", tool_calls=(ToolCall("c", "f", {"a": [float("inf")]}),))),
         ".messages[1].toolCalls[0].arguments"),
        (turn(replace(USER, parts=(Part("text", "y"),))), ".messages[0].parts"),
        (turn(Message("user", parts=(Part("video", "y"),))), ".messages[0].parts[0].type"),
        (turn(Message("user", parts=(Part(["text"], "y"),))), ".messages[0].parts[0].type"),
        (turn(Message("user", parts=(Part("text"),))), ".messages[0].parts[0].text"),
        (turn(Message("user", parts=(Part("text", "y", id="p"),))), ".messages[0].parts[0].text"),
        (turn(Message("user", parts=(Part("text", "y", width_px=3, height_px=3),))), ".messages[0].parts[0].heightPx"),
        (turn(Message("user", parts=(Part("image", "y", "p"),))), ".messages[0].parts[0].text"),
        (turn(Message("user", parts=(Part("image"),))), ".messages[0].parts[0].id"),
        (turn(Message("user", parts=(Part("image", id="p"), Part("audio", id="p")))), ".messages[0].parts[1].id"),
        (turn(Message("user", parts=(Part("image", id="p", width_px=3),))), ".messages[0].parts[0]"),
        (turn(Message("user", parts=(Part("image", id="p", width_px=0, height_px=3),))),
         ".messages[0].parts[0].widthPx"),
        (turn(Message("user", parts=(Part("image", id="p", duration_ms=3),))), ".messages[0].parts[0].durationMs"),
        (turn(Message("user", parts=(Part("audio", id="p", duration_ms=1.5),))), ".messages[0].parts[0].durationMs"),
        (turn(USER, Message("assistant", parts=(Part("image", id="p"),))), ".messages[1].parts[0].type"),
        (turn(Message("user", text="\x00")), ".messages[0].text"),
        (turn(Message("user", text=7)), ".messages[0].text"),
        (turn(replace(USER, reasoning="x")), ".messages[0].reasoning"),
        (turn(replace(USER, accepted=False)), ".messages[0].accepted"),
        (turn(replace(USER, protection_reason="audit")), ".messages[0].protectionReason"),
        (turn(replace(USER, constraint_ids=("a b",))), ".messages[0].constraintIds"),
        (turn(replace(USER, id="m"), replace(ANSWER, id="m")), ".messages[1].id"),
        (turn(Message("im_end", text="x")), ".messages[0].role"),
        (turn({"role": "user"}), ".messages[0]"),
        (turn(USER, state="done"), ".state"),
        (turn(USER, state=[]), ".state"),
        (turn(USER, sequence=True), ".sequence"),
        (turn(USER, sequence=-1), ".sequence"),
        (turn(USER, id="t 1"), ".id"),
        (turn(), ".messages"),
    ],
)  # fmt: skip
def test_a_broken_turn_is_refused_at_its_path(broken: Turn, path: str) -> None:
    """Calls and results pair up inside one turn, in order; every message has the shape of its role (R47)."""
    assert detail(replace(BASE, turns=(broken,))).startswith(f"$.turns[0]{path}: ")


@pytest.mark.parametrize(
    "good",
    [
        turn(USER),
        turn(USER, call("c", "d"), result("d"), result("c"), ANSWER),
        turn(USER, call("c"), result("c"), call("c"), result("c"), ANSWER),
        turn(USER, call("c", accepted=False), result("c", accepted=False), call("c"), result("c")),
        turn(ANSWER),
        turn(Message("system", text="Hook ran."), USER, ANSWER),
        turn(USER, call("c"), state="cancelled"),
        turn(state="cancelled"),
        turn(USER, call("c"), state="open"),
        turn(Message("user"), Message("assistant", parts=(Part("text", ""),)), sequence=0),
        turn(Message("user", parts=(Part("image", id="p"), Part("audio", id="q", duration_ms=1)))),
    ],
)
def test_the_nearest_legal_turns_pass(good: Turn) -> None:
    """Results in any order, an answered id again, unchosen candidates, unanswered and cancelled turns."""
    check_request(replace(BASE, turns=(good,)))


def test_sequences_and_ids_occur_once_in_any_order() -> None:
    """Shuffled turns with gaps pass; a sequence, turn id or message id used twice does not (R13)."""
    one, two = turn(replace(USER, id="m1")), turn(replace(USER, id="m2"), id="t2", sequence=900)
    check_request(replace(BASE, turns=(two, one)))
    assert detail(replace(BASE, turns=(one, replace(two, sequence=1)))).startswith("$.turns[1].sequence: ")
    assert detail(replace(BASE, turns=(one, replace(two, id="t1")))).startswith("$.turns[1].id: ")
    assert detail(replace(BASE, turns=(one, replace(two, messages=one.messages)))) == (
        "$.turns[1].messages[0].id: is used by another message"
    )


def test_a_refused_turn_leaves_no_message_ids_behind() -> None:
    """A conversation may offer the corrected turn again."""
    seen: set[str] = set()
    message = replace(USER, id="m1")
    with pytest.raises(RefusalSignal):
        check_turn(turn(message, result("c")), "$.turns[0]", seen)
    check_turn(turn(message), "$.turns[0]", seen)
    assert seen == {"m1"}


OPEN = turn(USER, call("c"), result("c"), state="open", id="t9", sequence=9)


@pytest.mark.parametrize(
    ("question", "turns", "refused"),
    [
        (CurrentRequest(text="x"), (OPEN,), None),
        (CurrentRequest(text="x", turn_id="t10"), (OPEN,), None),
        (CurrentRequest(text="x", turn_id="t10"), (turn(state="open", id="t10", sequence=10), OPEN), None),
        (CurrentRequest(), (OPEN,), None),
        (CurrentRequest(turn_id="t9"), (OPEN, replace(OPEN, id="t8", sequence=8)), None),
        (CurrentRequest(), (turn(Message("system", text="s"), USER, state="open"),), None),
        (CurrentRequest(text="x", turn_id="t9"), (OPEN,), "invalid-input: $.request.turnId"),
        (CurrentRequest(text="x", turn_id="t1"), (turn(USER),), "invalid-input: $.request.turnId"),
        (CurrentRequest(text="x"), (turn(state="open"),), "invalid-input: $.turns[0].messages"),
        (CurrentRequest(text="x", turn_id="t1"), (turn(state="open"), OPEN),
         "invalid-input: $.request.turnId"),
        (CurrentRequest(turn_id="t7"), (OPEN,), "invalid-input: $.request.turnId"),
        (CurrentRequest(turn_id="t8"), (OPEN, replace(OPEN, id="t8", sequence=8)),
         "invalid-input: $.request.turnId"),
        (CurrentRequest(turn_id="t1"), (turn(USER, ANSWER),), "invalid-input: $.request.turnId"),
        (CurrentRequest(), (turn(Message("user", text=""), state="open"),), "invalid-input: $.request"),
        (CurrentRequest(), (turn(ANSWER, USER, state="open"),), "invalid-input: $.request"),
        (CurrentRequest(), (turn(ANSWER, state="open"),), "nothing_to_answer: $.request"),
        (CurrentRequest(), (turn(USER, ANSWER, state="open"),), "nothing_to_answer: $.request"),
        (CurrentRequest(), (turn(USER, ANSWER),), "nothing_to_answer: $.request"),
        (CurrentRequest(), (), "nothing_to_answer: $.request"),
    ],
)  # fmt: skip
def test_the_request_says_exactly_one_thing_to_answer(
    question: CurrentRequest, turns: tuple[Turn, ...], refused: str | None
) -> None:
    """`text` asks anew, its absence continues the newest open turn; all between is refused (design.md §2)."""
    request = replace(BASE, request=question, turns=turns)
    if refused is None:
        check_request(request)
        return
    with pytest.raises(RefusalSignal) as caught:
        check_request(request)
    assert str(caught.value).startswith(f"{refused}: ")
