"""Law 1: the account's lines add up to the ids and, with reserve and margin, stay within the window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.values.plan import Plan
from planner.wire.dump import event_fields
from tests.laws.common import between, sizes, toy, with_room
from tests.oracles.account import faults
from tests.strategies import requests

OF_WHICH = {
    "schema_tokens": "policy_tokens", "constraint_tokens": "policy_tokens", "summary_tokens": "history_tokens",
    "open_turn_tokens": "history_tokens", "conflict_tokens": "retrieval_tokens",
}  # fmt: skip


@given(data=st.data())
def test_six_lines_sum_to_the_ids_and_stay_within_the_window(data: st.DataObject) -> None:
    """No line is negative or missing, and equality with the limit is reached only by margin 0."""
    planner = toy("jitter", "pair")
    request = data.draw(requests(planner.bundle_id))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1.1))))
    answer = planner.plan(request)
    if not isinstance(answer, Plan):
        return
    account = answer.account
    assert request.max_input_tokens is not None
    assert [] == faults(
        event_fields(account), answer.ids, margin_tokens=account.safety_margin_tokens,
        input_limit=request.max_input_tokens,
    )  # fmt: skip
    assert request.reserved_output_tokens == account.reserved_output_tokens
    assert request.safety_margin_tokens == account.safety_margin_tokens
    spare = account.input_limit - account.reserved_output_tokens - account.safety_margin_tokens - len(answer.ids)
    assert spare == account.headroom_tokens >= 0
    assert account.reserved_output_tokens + spare == answer.max_output_tokens
    for part, line in OF_WHICH.items():
        assert 0 <= getattr(account, part) <= getattr(account, line)
    assert sum(account.items.values()) == account.input_tokens - account.framing_tokens
    assert set(account.items) <= set(answer.kept)


@given(data=st.data())
def test_a_character_tokenizer_charges_every_text_its_length(data: st.DataObject) -> None:
    """On one token a character, each item's charge is the length of its text: nothing is shared or guessed."""
    planner = toy("plain", "char")
    request = data.draw(requests(planner.bundle_id))
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    for kind, items in (
        ("policy", request.policy), ("scope", request.data_scope), ("preference", request.preferences),
        ("parameter", request.request.required_parameters),
    ):  # fmt: skip
        for item in items:
            assert len(item.text) == answer.account.items[f"{kind}/{item.id}"]
    for passage in request.passages:
        assert len(passage.text) == answer.account.items[f"passage/{passage.citation_id}"]
    for turn in request.turns:
        if turn.state == "completed" and not any(message.tool_calls for message in turn.messages):
            texts = [message.words() for message in turn.messages if message.accepted]
            assert sum(map(len, texts)) == answer.account.items.get(f"turn/{turn.id}", 0)
