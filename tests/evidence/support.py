"""Requests with passages of known rights, dates and facts, on a toy bundle of one token a character."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from planner.planner import Planner
from planner.values.passage import Claims, Passage, Source
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, Turn
from tests.support.toy import ToyBundle

NOW = "2030-06-01T12:00:00Z"
CLAIMS = Claims("acme", ("manuals", "prices"), ("press", "wiki"))


@cache
def toy(template: str = "plain") -> Planner:
    """Return a planner whose sizes add up letter by letter."""
    return Planner(ToyBundle(template, "char", longest_token_bytes=None))


def passage(name: str, text: str | None = None, **more: Any) -> Passage:
    """Return a passage that the claims cover; its text is its own."""
    known: dict[str, Any] = {"tenant": "acme", "dataset": "manuals", "source": Source("press", 2), "relevance": 0.5}
    return Passage(name, f"{name} tells of {name}." if text is None else text, **(known | more))


def asking(*passages: Passage, room: int | None = 4_000, **more: Any) -> PlanRequest:
    """Return a request with these passages, the claims and a time."""
    known: dict[str, Any] = {
        "request": CurrentRequest(id="q", text="What holds?"), "policy": (TextItem("p", "Be brief."),),
        "claims": CLAIMS, "now": NOW, "max_input_tokens": None if room is None else room + 1,
        "reserved_output_tokens": 0, "safety_margin_tokens": 1,
    }  # fmt: skip
    return PlanRequest(toy().bundle_id, passages=passages, **(known | more))


def talk(number: int, *, cites: tuple[str, ...] = (), **marks: Any) -> Turn:
    """Return a completed turn; its answer may cite sources."""
    return Turn(
        f"t{number}", number, "completed",
        (Message("user", f"u{number}", f"Question {number}?"),
         Message("assistant", f"a{number}", f"Answer {number}.", citation_ids=cites)), **marks,
    )  # fmt: skip


def plan(request: PlanRequest) -> Plan:
    """Plan on the toy bundle; a refusal fails the test and prints itself."""
    answer = toy().plan(request)
    assert isinstance(answer, Plan), answer
    return answer


def refusal(request: PlanRequest) -> Refusal:
    """Plan on the toy bundle; a plan fails the test."""
    answer = toy().plan(request)
    assert isinstance(answer, Refusal), answer
    return answer


def kept(answer: Plan, kind: str = "passage") -> list[str]:
    """Return the kept ids of a kind, in order."""
    return [entry.partition("/")[2] for entry in answer.kept if entry.startswith(f"{kind}/")]


def gone(answer: Plan) -> dict[str, str]:
    """Return removed id -> reason."""
    return {entry.id: entry.reason for entry in answer.removed}


def short_of(request: PlanRequest, tokens: int) -> PlanRequest:
    """Return the request with so many tokens less than all of it needs."""
    whole = plan(replace(request, max_input_tokens=100_000))
    return replace(request, max_input_tokens=len(whole.ids) + 1 - tokens)
