"""What others got wrong with long results, as outcomes of our own (peers.md §4: T15, T17, T23)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, TextItem
from tests.conftest import MAX_EXAMPLES
from tests.forms.common import form_requests, measured_rungs
from tests.forms.test_forms import FULL, asking, looked
from tests.laws.common import said, toy
from tests.strategies import Wanted


def test_T15_a_prompt_never_lacks_the_request() -> None:
    """In a tool loop the request and every call stay, down to the last token; below that there is no prompt."""
    turn = looked(1, *(FULL for _ in range(6)), state="open")
    turn = replace(turn, messages=(replace(turn.messages[0], text="which pump is oldest?"), *turn.messages[1:]))
    request = asking(looked(0, FULL), turn, policy=(TextItem("p1", "be brief"),))
    outcomes = set()
    for room in range(20, 2_000, 15):
        answer = toy().plan(replace(request, max_input_tokens=room))
        outcomes.add(answer.receipt.outcome)
        if isinstance(answer, Plan):
            assert "which pump is oldest?" in said(answer)
            assert "be brief" in said(answer)
            assert {"policy/p1", "turn/t1", "request/q"} <= set(answer.kept)
            assert said(answer).count("<|tool|>") == said(answer).count("<|call|>")
        else:
            assert not hasattr(answer, "ids")
    assert {"accepted", "context_policy_overflow"} == outcomes


@pytest.mark.parametrize("name", ["qwen3-0.6b", "reference"])
def test_T17_a_result_larger_than_the_window_is_named_with_its_tokens(name: str) -> None:
    """Without a form that fits, the refusal names the message of the largest result and its tokens."""
    planner = Planner(name)
    turn = looked(1, "brief note", FULL * 40, state="open")
    bare = replace(turn, messages=tuple(
        message if message.tool_result is None
        else replace(message, tool_result=replace(message.tool_result, short_forms=())) for message in turn.messages
    ))  # fmt: skip
    answer = planner.plan(asking(bare, room=1_000, model_bundle_id=name))
    assert isinstance(answer, Refusal)
    assert ("context_policy_overflow", "open_turn_overflow") == (answer.outcome, answer.reason)
    tokens = len(planner.encoder().bundle.engine.encode(FULL * 40).ids)
    assert answer.detail.endswith(f"; its largest result is t1r1 with {tokens}")
    assert answer.account is not None
    assert tokens < answer.account.open_turn_tokens
    assert planner.plan(asking(turn, room=1_000, model_bundle_id=name)).accepted
    assert planner.plan(asking(bare, room=1_000, model_bundle_id=name, options=Options(stubs=True))).accepted


@pytest.mark.parametrize("name", ["toy", "qwen3-0.6b", "reference"])
@settings(max_examples=max(5, MAX_EXAMPLES // 3))
@given(data=st.data())
def test_T23_no_move_makes_a_prompt_longer_and_none_takes_policy_or_request(name: str, data: st.DataObject) -> None:
    """Every step down the ladder has fewer tokens or as many; the last rung still has policy and request."""
    planner = toy() if name == "toy" else _real(name)
    request = data.draw(form_requests(planner.bundle_id, Wanted(late_system=False)))
    every = measured_rungs(planner.encoder(), request)
    tokens = [one.tokens for one in every]
    assert sorted(tokens, reverse=True) == tokens
    least = planner.plan(replace(request, max_input_tokens=tokens[-1] + (request.reserved_output_tokens or 0)
                                 + (request.safety_margin_tokens or 0)))  # fmt: skip
    assert isinstance(least, Plan), least
    assert {f"policy/{item.id}" for item in request.policy} <= set(least.kept)
    assert f"request/{request.request.id}" in least.kept


_REAL: dict[str, Planner] = {}


def _real(name: str) -> Planner:
    return _REAL.setdefault(name, Planner(name))
