"""Chats with tool loops on the toy bundle, one token a character, and every budget from the least to everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.laws.common import said, toy, with_room
from tests.strategies import tool_of


def loop_turn(number: int, calls: int = 2, words: str = "sea ") -> Turn:
    """Return a completed turn: a question, `calls` parallel calls with their results, an answer."""
    made = tuple(ToolCall(f"c{number}-{at}", "send", {"q": words}) for at in range(calls))
    results = [Message("tool", id=f"r{number}-{at}", tool_result=ToolResult(call.id, words * 5))
               for at, call in enumerate(made)]  # fmt: skip
    asked = [Message("assistant", id=f"a{number}", tool_calls=made)] if made else []
    messages = (Message("user", id=f"u{number}", text=f"question {number}"), *asked, *results,
                Message("assistant", id=f"z{number}", text=words * 8))  # fmt: skip
    return Turn(f"t{number}", number, "completed", messages)


def chat(*turns: Turn, **fields: Any) -> PlanRequest:
    """Return a request over turns, with policy and one tool, room for everything."""
    return PlanRequest(**{
        "model_bundle_id": "toy-plain-char", "request": CurrentRequest(id="q", text="and now?"), "turns": turns,
        "policy": (TextItem("p1", "be brief"), TextItem("p2", "be kind")), "tools": (tool_of("send", "send it"),),
        "max_input_tokens": 60_000, "reserved_output_tokens": 0, "safety_margin_tokens": 0, **fields,
    })  # fmt: skip


def plan(request: PlanRequest) -> Plan:
    """Plan; a refusal fails."""
    answer = toy().plan(request)
    assert isinstance(answer, Plan), answer
    return answer


def budgets(request: PlanRequest, step: int = 7) -> Iterator[tuple[int, Plan | Refusal]]:
    """Yield the answer for every so many tokens, from nothing to everything."""
    full = len(plan(request).ids)
    for room in (*range(1, full, step), full):
        yield room, toy().plan(with_room(request, room))


def alone(request: PlanRequest, *turn_ids: str) -> int:
    """Return the exact tokens of the prompt that holds these turns of a request."""
    return len(plan(replace(request, turns=tuple(turn for turn in request.turns if turn.id in turn_ids))).ids)


def roles(answer: Plan) -> list[str]:
    """Return the roles of the prompt's messages in order, calls among them, without the header of the answer."""
    found = [piece.partition("|>")[0] for piece in said(answer).split("<|")[1:]]
    return [name for name in found if name not in ("end", "tools")][:-1]
