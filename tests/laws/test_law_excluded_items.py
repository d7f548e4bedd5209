"""Law 13: what never takes part leaves the ids exactly as if it had never been sent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.passage import Passage
from planner.values.plan import Plan
from planner.values.request import PlanRequest
from planner.values.turn import TurnState
from tests.laws.common import between, sizes, toy, with_room
from tests.strategies import ALL, Wanted, requests, turn_of
from tests.support.toy import ToyBundle

NEVER_SHOWN: tuple[TurnState, ...] = ("cancelled", "superseded")
BOUNDED = Planner(ToyBundle("jitter", "char", longest_token_bytes=4))


def _squeezed(request: PlanRequest, data: st.DataObject) -> PlanRequest:
    measured = sizes(toy("jitter", "char"), replace(request, model_bundle_id="toy-jitter-char"))
    return with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1))))


@given(data=st.data())
def test_a_too_large_passage_leaves_the_ids_alone(data: st.DataObject) -> None:
    """A passage of more bytes than the window has tokens is listed as too_large, and that is all it does."""
    request = _squeezed(data.draw(requests(BOUNDED.bundle_id)), data)
    assert request.max_input_tokens is not None
    huge = Passage("huge", "x" * (4 * request.max_input_tokens + 1), data.draw(st.sampled_from((0.0, 0.5, 1.0))))
    without, beside = BOUNDED.plan(request), BOUNDED.plan(replace(request, passages=(*request.passages, huge)))
    assert isinstance(without, Plan), without
    assert isinstance(beside, Plan), beside
    assert without.ids == beside.ids
    assert {"too_large"} == {entry.reason for entry in beside.removed if entry.id == "passage/huge"}


@given(data=st.data())
def test_cancelled_and_superseded_turns_leave_the_ids_alone(data: st.DataObject) -> None:
    """A turn that is never rendered changes neither the ids nor what else is kept."""
    request = _squeezed(data.draw(requests(BOUNDED.bundle_id)), data)
    state: TurnState = data.draw(st.sampled_from(NEVER_SHOWN))
    place = data.draw(st.integers(0, len(request.turns)))
    spread = tuple(replace(turn, sequence=2 * turn.sequence + 1) for turn in request.turns)
    gone = data.draw(turn_of("gone", 2 * spread[place - 1].sequence if place else 0, state, Wanted()))
    gone = replace(gone, sequence=spread[place - 1].sequence + 1 if place else 0)
    asked = spread and spread[-1].state == "open"
    if asked and place == len(spread):
        place -= 1
        gone = replace(gone, sequence=spread[place].sequence - 1)
    base = replace(request, turns=spread)
    without = BOUNDED.plan(base)
    beside = BOUNDED.plan(replace(base, turns=(*spread[:place], gone, *spread[place:])))
    assert isinstance(without, Plan), without
    assert isinstance(beside, Plan), beside
    assert without.ids == beside.ids
    assert without.kept == beside.kept
    assert [state] == [entry.reason for entry in beside.removed if entry.id == "turn/gone"]


@given(data=st.data())
def test_a_candidate_that_was_not_accepted_leaves_the_ids_alone(data: st.DataObject) -> None:
    """Taking every unaccepted candidate out of the request changes no id."""
    request = _squeezed(data.draw(requests(BOUNDED.bundle_id, ALL)), data)
    spoken = tuple(
        replace(turn, messages=tuple(message for message in turn.messages if message.accepted))
        for turn in request.turns
    )
    with_candidates, without = BOUNDED.plan(request), BOUNDED.plan(replace(request, turns=spoken))
    assert isinstance(with_candidates, Plan), with_candidates
    assert isinstance(without, Plan)
    assert without.ids == with_candidates.ids
