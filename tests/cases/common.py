"""Cases D01..D20 as planning requests, and the binding of their `checks` to assertions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planner.adapters.openai import request_from_chat
from planner.planner import Planner
from planner.values.passage import Claims, Passage, Source
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem, Tool
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.support.cases import Case, load

QWEN = "qwen3-0.6b"


WIDE = {"inputLimit": 30_000, "reservedOutput": 0, "safetyMargin": 0}


def check(case_id: str, claim: str, holds: bool) -> None:
    """Assert one string of a case's `checks`, named by its first words (test_bound.py reads the calls)."""
    assert holds, f"{case_id}: {claim}"


@cache
def case(shared: Path, case_id: str) -> Case:
    """Return one case with its macros expanded."""
    return load(shared, case_id)[0]


@cache
def planner_of(bundle: str | Path) -> Planner:
    """Return one planner per bundle."""
    return Planner(bundle)


def message_of(raw: Mapping[str, Any], message_id: str | None = None) -> Message:
    """Return a message as an application would hand it over."""
    if raw["role"] == "tool":
        return Message("tool", id=message_id, tool_result=ToolResult(raw["tool_call_id"], str(raw["content"])))
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in raw.get("tool_calls", ())
    )
    return Message(raw["role"], id=message_id, text=raw.get("content"), tool_calls=calls,
                   reasoning=raw.get("reasoning_content"))  # fmt: skip


def turn_of(raw: Mapping[str, Any]) -> Turn:
    """Return a turn of a structured input."""
    messages = tuple(map(message_of, raw["messages"]))
    return Turn(raw["id"], raw["sequence"], raw.get("state", "completed"), messages)


def request_of(given: Mapping[str, Any], budget: Mapping[str, int], bundle: str = QWEN, **more: Any) -> PlanRequest:
    """Map a structured input: a request of one user message is its text, any other is an open turn."""
    turns = tuple(map(turn_of, given.get("history") or ()))
    asked = given["request"]
    if [message["role"] for message in asked["messages"]] == ["user"]:
        question = CurrentRequest(id=asked["id"], text=asked["messages"][0]["content"])
    else:
        last = turns[-1].sequence if turns else 0
        turns = (*turns, turn_of({**asked, "sequence": last + 1, "state": "open"}))
        question = CurrentRequest(id=asked["id"], turn_id=asked["id"])
    return replace(
        PlanRequest(
            bundle, question, turns=turns, policy_version="pv1", **limits(budget),
            policy=tuple(TextItem(item["id"], item["text"]) for item in given.get("policy") or ()),
            tools=tuple(map(tool_of, given.get("tools") or ())),
        ),
        **more,
    )  # fmt: skip


def passages_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return passages, claims and time of a structured input; a bare date is the first moment of its day."""
    scope = given["scope"]
    passages = tuple(
        Passage(
            raw["citationId"], raw["text"], raw["score"], raw["tenant"], raw["dataset"],
            Source("shop", raw["sourceRank"]), valid_to=f"{raw['validUntil']}T00:00:00Z",
        )
        for raw in given["retrieval"]
    )  # fmt: skip
    claims = Claims(scope["tenant"], tuple(scope["datasets"]), ("shop",))
    return {"passages": passages, "claims": claims, "now": f"{scope['now']}T00:00:00Z"}


def tool_of(raw: Mapping[str, Any]) -> Tool:
    """Return a tool of a structured input."""
    return Tool(raw["id"], {"type": "function", "function": raw["function"]})


def limits(budget: Mapping[str, int]) -> dict[str, Any]:
    """Return the three figures of a budget by their field names."""
    return {
        "max_input_tokens": budget["inputLimit"], "reserved_output_tokens": budget["reservedOutput"],
        "safety_margin_tokens": budget["safetyMargin"],
    }  # fmt: skip


def chat_request(given: Mapping[str, Any], budget: Mapping[str, int], bundle: str = QWEN) -> PlanRequest:
    """Map a flat input through the OpenAI adapter."""
    messages = [{key: value for key, value in entry.items() if key != "mid"} for entry in given["messages"]]
    return request_from_chat(messages, model_bundle_id=bundle, **limits(budget))


def expect_kept(answer: Plan | Refusal, keep: list[str], request: PlanRequest) -> Plan:
    """Assert that exactly these are kept, in order; `tools` stands for all declarations."""
    assert isinstance(answer, Plan), answer
    wanted: list[str] = []
    for name in keep:
        if name == "tools":
            wanted += [f"tool/{tool.id}" for tool in request.tools]
        elif name in {item.id for item in request.policy}:
            wanted.append(f"policy/{name}")
        elif name == request.request.id:
            wanted += [f"turn/{request.request.turn_id or name}", f"request/{name}"]
        else:
            wanted.append(f"turn/{name}")
    assert wanted == list(answer.kept)
    return answer


def expect_refused(answer: Plan | Refusal, outcome: str) -> Refusal:
    """Assert a typed refusal without ids."""
    assert isinstance(answer, Refusal), answer
    assert outcome == answer.outcome == answer.receipt.outcome
    assert not hasattr(answer, "ids")
    assert not hasattr(answer, "prompt")
    return answer


def removed_turns(answer: Plan) -> dict[str, str]:
    """Return the removals as (id or first..last) -> reason."""
    return {
        entry.id if entry.last_id is None else f"{entry.id}..{entry.last_id}": entry.reason for entry in answer.removed
    }


def accepted(answer: Plan | Refusal) -> Plan:
    """Return the plan; a refusal is a failure that prints itself."""
    assert isinstance(answer, Plan), answer
    return answer


def on(bundle_dir: Path, name: str) -> Planner:
    """Return a planner of a shared folder; skip where the shared data has none of that name."""
    if not (bundle_dir / name).is_dir():
        pytest.skip(f"the shared data has no folder {name}")
    return planner_of(bundle_dir / name)


def variant(shared: Path, case_id: str, letter: str) -> dict[str, Any]:
    """Return one variant of a case."""
    return next(one for one in case(shared, case_id).variants if one["id"] == case_id + letter)


def said(answer: Plan, planner: Planner | None = None) -> str:
    """Return the prompt as its ids say it, by default those of qwen3."""
    return (planner or planner_of(QWEN)).encoder().bundle.engine.decode(answer.ids)
