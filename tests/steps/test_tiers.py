"""R30: what would help when nothing fits, by the exact count; tiers are approved, valid and never widened."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.bundle import Tier
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, OutputSchema, PlanRequest, TextItem
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.laws.common import room_of, toy, with_room
from tests.strategies import tool_of
from tests.support.toy import ToyBundle

TIERS = (Tier("150", 150), Tier("600", 600), Tier("1k", 1_000, "2026-11-30"), Tier("4k", 4_000), Tier("9k", 9_000))
NOW = "2026-11-30T22:00:00Z"


def _planner(tiers: tuple[Tier, ...] = TIERS, context: int | None = 6_000) -> Planner:
    return Planner(ToyBundle(tiers=tiers, context_tokens=context, longest_token_bytes=None))


def _request(**fields: object) -> PlanRequest:
    return PlanRequest(**{
        "model_bundle_id": "toy-plain-char", "request": CurrentRequest(id="q", text="and now?"),
        "policy": (TextItem("p", "be brief"),), "reserved_output_tokens": 10, "safety_margin_tokens": 1, **fields,
    })  # type: ignore[arg-type]  # fmt: skip


def _refused(planner: Planner, request: PlanRequest) -> Refusal:
    answer = planner.plan(request)
    assert isinstance(answer, Refusal), answer
    return answer


def _loop(words: int) -> Turn:
    call = Message("assistant", tool_calls=(ToolCall("c", "send", {}),))
    return Turn(
        "q", 9, "open", (Message("user", text="go"), call, Message("tool", tool_result=ToolResult("c", "x" * words)))
    )


@pytest.mark.parametrize("kind", ["policy", "open turn", "protected"])
def test_R30_overflow_advice_two_ways(kind: str) -> None:
    """The refusal says how to narrow, and names the approved tiers in which this request is planned, and no other."""
    pinned = Turn("t", 1, "completed", (Message("user", text="x" * 700, protection_reason="audit-evidence"),))
    request = {
        "policy": _request(
            policy=(TextItem("p", "x" * 500),), turns=(_loop(300),), request=CurrentRequest(turn_id="q")
        ),
        "open turn": _request(turns=(_loop(800),), request=CurrentRequest(turn_id="q")),
        "protected": _request(turns=(pinned,)),
    }[kind]
    planner = _planner()
    refused = _refused(planner, replace(request, tier_id="150", now=NOW))
    assert "context_policy_overflow" == refused.outcome
    assert refused.advice.notes, "how to narrow the task"
    fitting = [tier.id for tier in TIERS if tier.max_input_tokens <= 6_000
               and planner.plan(replace(request, tier_id=tier.id, now=NOW)).accepted]  # fmt: skip
    assert tuple(fitting) == refused.advice.tiers == ("1k", "4k"), "600 is too small, 9k beyond the context"
    later = _refused(planner, replace(request, tier_id="150", now="2026-12-01T00:00:00Z"))
    assert ("4k",) == later.advice.tiers, "a tier whose validity ended is no advice"
    assert () == _refused(_planner(()), replace(request, max_input_tokens=150)).advice.tiers, "no number is made up"


def test_a_tier_is_valid_to_the_end_of_its_last_day() -> None:
    """Named after its end, or without a clock to judge it by, it is refused; the day ends in UTC."""
    planner = _planner()
    for now, reason in ((NOW, None), ("2026-12-01T00:30:00+01:00", None), ("2026-12-01T00:00:00Z", "tier_not_valid"),
                        (None, "tier_not_valid"), ("0001-01-01T00:00:00+14:00", "tier_not_valid")):  # fmt: skip
        assert reason == planner.plan(_request(tier_id="1k", now=now)).receipt.reason
    assert "invalid-input" == planner.plan(_request(tier_id="2k", now=NOW)).receipt.reason, "another bundle's tier"


def test_no_tier_is_widened_silently() -> None:
    """A named tier stays the limit; without one the largest valid tier counts, and what lies behind it never."""
    planner = _planner((Tier("150", 150, "2026-11-30"), Tier("600", 600, "2026-01-31")))
    long = _request(policy=(TextItem("p", "x" * 300),), now=NOW)
    assert "context_policy_overflow" == planner.plan(replace(long, tier_id="150")).receipt.reason
    bounded = planner.plan(_request(now=NOW)).account
    assert bounded is not None
    assert 150 == bounded.input_limit, "600 is larger and no longer approved"
    for now in ("2026-12-01T00:00:00Z", None):
        assert "tier_not_valid" == planner.plan(_request(now=now)).receipt.reason, "the context was never approved"
        assert planner.plan(_request(now=now, max_input_tokens=300)).accepted, "a limit asked for is the caller's"


def _dropped(request: PlanRequest, gone: frozenset[str]) -> PlanRequest:
    return replace(
        request, tools=tuple(tool for tool in request.tools if f"tool/{tool.id}" not in gone),
        preferences=tuple(item for item in request.preferences if f"preference/{item.id}" not in gone),
    )  # fmt: skip


@given(data=st.data())
def test_the_caller_could_drop_no_smaller_set(data: st.DataObject) -> None:
    """What the advice names fits when it is dropped, one thing less never does, and policy is not among it."""
    lengths = st.integers(1, 60)
    tools = tuple(tool_of(f"n{at}", "y" * data.draw(lengths)) for at in range(data.draw(st.integers(0, 4))))
    preferences = tuple(TextItem(f"f{at}", "z" * data.draw(lengths)) for at in range(data.draw(st.integers(0, 3))))
    question = CurrentRequest(id="q", text="so", required_parameters=(TextItem("r", "metric"),))
    schema = OutputSchema("s", {"type": "object"})
    request = _request(tools=tools, preferences=preferences, output_schema=schema, request=question)
    own = [f"tool/{tool.id}" for tool in tools] + [f"preference/{item.id}" for item in preferences]
    full = toy().plan(replace(request, max_input_tokens=50_000))
    assert isinstance(full, Plan)
    bare = toy().plan(replace(_dropped(request, frozenset(own)), max_input_tokens=50_000))
    assert isinstance(bare, Plan)
    room = data.draw(st.integers(len(bare.ids) - 5, len(full.ids)))
    request = with_room(request, room)
    answer = toy().plan(request)
    if isinstance(answer, Plan):
        assert room_of(request) >= len(full.ids)
        return
    named = answer.advice.droppable
    assert set(named) <= set(own)
    smaller = [frozenset(some) for size in range(len(named) or len(own) + 1) for some in combinations(own, size)]
    assert not any(toy().plan(_dropped(request, some)).accepted for some in smaller)
    assert not named or toy().plan(_dropped(request, frozenset(named))).accepted


def test_advice_is_measured_and_drops_nothing() -> None:
    """Counting what a smaller request would take changes neither the request's own account nor the next plan."""
    chat = toy().conversation()
    request = _request(tools=tuple(tool_of(f"n{at}", "y" * 40) for at in range(3)), max_input_tokens=450)
    before = chat.plan(request)
    assert isinstance(before, Refusal)
    assert 2 >= len(before.advice.droppable) >= 1
    assert before.account is not None
    assert {"tool/tool-n0", "tool/tool-n1", "tool/tool-n2"} <= set(before.account.items)
    wide = replace(request, max_input_tokens=5_000)
    assert toy().plan(wide).receipt == chat.plan(wide).receipt
