"""LiteLLM #3329: trimming looped for ever on some text, or raised on list content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest
from planner.values.turn import Message, Turn
from tests.laws.common import toy, with_room
from tests.peers.support import chat, plan

ODD = ("", " ", "\n" * 300, "x" * 4_000, "é" * 900, "<|" * 200, "\U0001f469‍\U0001f4bb" * 90, "a\u0301" * 400)


@pytest.mark.parametrize("count", [20, 80])
def test_T04_planning_ends_within_steps_linear_in_turns(count: int) -> None:
    """Whatever the texts, in every window the renders of a plan stay below a few and the number of turns."""
    turns = tuple(
        Turn(
            f"t{at}", at, "completed", (Message("user", text=ODD[at % 8]), Message("assistant", text=ODD[at // 8 % 8]))
        )
        for at in range(1, count + 1)
    )
    full = len(plan(chat(*turns)).ids)
    for share in (0, 0.1, 0.5, 0.9, 1):
        answer = toy().plan(with_room(chat(*turns), int(full * share)))
        steps = sum(int(answer.diagnostics[name]) for name in ("renders", "mini_renders", "probe_renders"))
        assert steps <= 12 + count


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([{"type": "text", "text": "How "}, {"type": "text", "text": "many?"}], None),
        ([{"type": "image_url", "image_url": {"url": "x"}}], "unmeasured_part"), ([], "invalid-input"),
        (7, "invalid-input"),
        ([7], "invalid-input"), ({"text": "x"}, "invalid-input"), ([{"type": "text"}], "invalid-input"),
        (None, "invalid-input"),
    ],
)  # fmt: skip
def test_T04_list_content_is_counted_or_refused_by_name(content: Any, reason: str | None) -> None:
    """Text parts count as the text they are; anything else is a typed refusal, never an exception."""
    answer = planner.plan([{"role": "user", "content": content}], bundle="reference")
    assert reason == answer.receipt.reason
    if isinstance(answer, Plan):
        assert planner.plan([{"role": "user", "content": "How many?"}], bundle="reference").ids == answer.ids  # type: ignore[union-attr]
    else:
        assert isinstance(answer, Refusal)
        assert answer.detail.startswith("$" if reason == "invalid-input" else "turn ")


def test_T04_the_same_request_ends_the_same() -> None:
    """A question that cannot fit ends as a refusal at once, not in another round."""
    request = chat(request=CurrentRequest(id="q", text="x" * 500))
    answers = [toy().plan(with_room(replace(request), 300)) for _ in range(2)]
    assert ["context_policy_overflow"] * 2 == [answer.receipt.reason for answer in answers]
