"""Law 12: immutable items are in every rung; where the last rung overflows there is no plan, never less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.steps.ladder import ladder, rung
from planner.steps.layer import blocks, layer
from planner.steps.recall import recall
from planner.values.plan import Plan, Refusal
from tests.laws.common import between, sizes, toy, with_room
from tests.strategies import requests


@given(data=st.data())
def test_no_move_takes_an_immutable_or_a_pinned_block(data: st.DataObject) -> None:
    """Every move of every ladder names only completed unprotected turns and passages."""
    planner = toy()
    request = data.draw(requests(planner.bundle_id))
    layered = layer(request, recall(request))
    steps = ladder(layered, request.options, lambda _: 1)
    fixed = {block.key for block in blocks(layered) if block.kind not in ("summarizable", "evictable")}
    assert fixed.isdisjoint(key for move in steps.moves for key in move.leaves)
    last = rung(steps, layered, layered.passages, len(steps.moves))
    pinned = {layered.history.turns[at].id for at in layered.history.pinned}
    assert pinned == {entry.id for entry in last.history}
    assert () == last.passages


@given(data=st.data())
def test_a_last_rung_that_overflows_is_refused_and_never_shortened(data: st.DataObject) -> None:
    """One token too little for what cannot move: an overflow, with the tokens that are missing, without ids."""
    planner = toy("jitter", "pair")
    request = data.draw(requests(planner.bundle_id))
    least = sizes(planner, request)[-1]
    short = data.draw(st.integers(1, 30))
    answer = planner.plan(with_room(request, max(1, least - short)))
    assert isinstance(answer, Refusal)
    assert "context_policy_overflow" == answer.outcome == answer.receipt.outcome
    assert answer.tokens_missing > 0
    assert not hasattr(answer, "ids")
    assert answer.account is not None
    fitting = planner.plan(with_room(request, least))
    assert isinstance(fitting, Plan)
    immutable = {block.key for block in blocks(layer(request, recall(request))) if block.layer == "immutable"}
    assert immutable <= set(fitting.kept)


@given(data=st.data())
def test_an_accepted_plan_holds_every_immutable_block(data: st.DataObject) -> None:
    """Whatever the window, policy, scope, schema, tools, parameters and the request are in the plan."""
    planner = toy("plain", "pair")
    request = data.draw(requests(planner.bundle_id))
    measured = sizes(planner, request)
    room = between(measured[-1], measured[0], data.draw(st.floats(-0.2, 1)))
    answer = planner.plan(with_room(request, max(1, room)))
    immutable = {block.key for block in blocks(layer(request, recall(request))) if block.layer == "immutable"}
    if isinstance(answer, Plan):
        assert immutable <= set(answer.kept)
        assert {entry.id for entry in answer.removed}.isdisjoint(immutable)
