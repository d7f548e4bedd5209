"""Small conversations whose summaries are current, on the toy bundle: one token a character."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest
from planner.values.turn import Message, Turn
from tests.laws.common import toy, with_room
from tests.support.records import CONVERSATION, live, record_of

WORDS = "note rain " * 12


def talk(number: int, words: str = WORDS, **fields: Any) -> Turn:
    """Return a completed turn of a question and an answer; its id is t<number>, its sequence ten times that."""
    messages = (Message("user", id=f"u{number}", text=words), Message("assistant", id=f"a{number}", text=words))
    return Turn(**{"id": f"t{number}", "sequence": 10 * number, "state": "completed", "messages": messages, **fields})


def protected(turn: Turn, reason: Any = "audit-evidence") -> Turn:
    """Return the turn with its first message protected."""
    return replace(turn, messages=(replace(turn.messages[0], protection_reason=reason), *turn.messages[1:]))


def asking(*turns: Turn, **fields: Any) -> PlanRequest:
    """Return a request over these turns."""
    return PlanRequest(**{
        "model_bundle_id": "toy-plain-char", "request": CurrentRequest(id="q", text="and now?"),
        "conversation_id": CONVERSATION, "turns": turns, "reserved_output_tokens": 0, "safety_margin_tokens": 0,
        "max_input_tokens": 100_000, **fields,
    })  # fmt: skip


def summed(request: PlanRequest, *spans: tuple[int, int], text: str = "sea", **fields: Any) -> PlanRequest:
    """Return the request with a current summary s1, s2, .. of each run of turns, given by first and last number."""
    constraints = live(request.turns)
    records = []
    for number, (low, high) in enumerate(spans, len(request.summaries) + 1):
        inside = [turn for turn in request.turns if 10 * low <= turn.sequence <= 10 * high]
        records.append(record_of(f"s{number}", inside, text, constraints, **fields))
    return replace(request, summaries=(*request.summaries, *records))


def ask(request: PlanRequest, room: int) -> Plan | Refusal:
    """Plan within so many tokens."""
    return toy().plan(with_room(request, room))


def plan(request: PlanRequest, room: int) -> Plan:
    """Plan within so many tokens; a refusal fails."""
    answer = ask(request, room)
    assert isinstance(answer, Plan), answer
    return answer


def turns_of(answer: Plan) -> list[str]:
    """Return the history as kept, without the request's own turn."""
    return [key for key in answer.kept if key.startswith(("turn/", "summary/")) and key != "turn/q"]
