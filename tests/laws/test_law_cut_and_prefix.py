"""lowWater and sticky (design.md §5), and what the receipt says broke the common prefix."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.values.passage import Passage
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, Options, PlanRequest, Previous, TextItem
from planner.values.turn import Message, Turn
from tests.laws.common import between, kept, plan_with, room_of, sizes, toy, with_room
from tests.oracles.low_water import low_water_cut
from tests.oracles.rungs import rungs
from tests.oracles.scan import first_fit
from tests.strategies import Wanted, requests, summary_of, tool_of

PLANNER = toy("plain", "char")
WANTED = Wanted(passages=False, late_system=False, max_turns=9)


def _turn_sizes(request: PlanRequest) -> list[int]:
    """Sizes of the movable turns, oldest first: the differences of neighbouring rungs of the plain toy."""
    measured = sizes(PLANNER, request)
    return [high - low for high, low in pairwise(measured)]


def _plan(request: PlanRequest) -> Plan:
    answer = PLANNER.plan(request)
    assert isinstance(answer, Plan), answer
    return answer


@given(data=st.data())
def test_a_new_cut_goes_down_to_low_water(data: st.DataObject) -> None:
    """Without a previous plan a cut goes on to the first rung whose movable history is within the fraction."""
    request = data.draw(requests(PLANNER.bundle_id, WANTED))
    measured = sizes(PLANNER, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1.05))))
    share = data.draw(st.sampled_from((0.2, 0.5, 0.8, 1.0)))
    at = first_fit(measured, int, room_of(request))
    assert at is not None
    movable = _turn_sizes(request)
    right = low_water_cut(movable, measured[at], at, room_of(request), share)
    event("lower" if right > at else "first fit")
    answer = _plan(replace(request, options=Options(low_water=share)))
    assert rungs(request)[right][0] == kept(answer, "turn")[:-1]


@given(data=st.data())
def test_a_cut_that_still_fits_is_kept_and_never_moved_back(data: st.DataObject) -> None:
    """The next plan keeps the previous cut while it fits, though older turns would fit again."""
    request = data.draw(requests(PLANNER.bundle_id, replace(WANTED, pins=False)))
    measured = sizes(PLANNER, request)
    if len(measured) < 3:
        return
    tight = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 0.9))))
    share = data.draw(st.sampled_from((0.5, 1.0)))
    options = Options(low_water=share, sticky=share == 1.0 or data.draw(st.booleans()))
    first = _plan(replace(tight, options=options))
    turns = kept(first, "turn")
    if len(turns) < 2:
        return
    previous = Previous(first.receipt.plan_id, turns[0], ids=tuple(first.ids))
    roomy = replace(with_room(request, measured[0]), options=options, previous=previous)
    assert turns == kept(_plan(roomy), "turn"), "with room for everything the cut stays where it was"
    free = _plan(replace(roomy, options=Options()))
    assert len(rungs(request)[0][0]) == len(kept(free, "turn")) - 1, "without sticky everything comes back"


@given(data=st.data())
def test_a_cut_that_no_longer_fits_moves_down_to_low_water(data: st.DataObject) -> None:
    """Where the previous cut is too large, the plan is the one a new cut gives."""
    request = data.draw(requests(PLANNER.bundle_id, replace(WANTED, pins=False)))
    measured = sizes(PLANNER, request)
    if len(measured) < 3:
        return
    first_turn = rungs(request)[0][0][0]
    tight = with_room(request, between(measured[-1], measured[0] - 1, data.draw(st.floats(0, 1))))
    tight = replace(tight, options=Options(low_water=0.5))
    moved = _plan(replace(tight, previous=Previous("p-1", first_turn)))
    assert kept(_plan(tight), "turn") == kept(moved, "turn")


def _chat(count: int = 8) -> PlanRequest:
    turns = tuple(
        Turn(f"t{number}", number, "completed",
             (Message("user", text=f"note {number} " * 4), Message("assistant", text="rain " * 8)))
        for number in range(1, count + 1)
    )  # fmt: skip
    return PlanRequest(
        PLANNER.bundle_id, CurrentRequest(id="q", text="and now"), turns=turns, max_input_tokens=4_000,
        policy=(TextItem("p", "be brief"),), tools=(tool_of("send", "send it"),),
        passages=(Passage("c1", "sea", 0.5), Passage("c2", "land", 0.4)),
        reserved_output_tokens=0, safety_margin_tokens=0,
    )  # fmt: skip


def _second(request: PlanRequest, **changes: Any) -> Plan:
    first = _plan(request)
    turns = kept(first, "turn")
    previous = Previous(first.receipt.plan_id, turns[0], ids=tuple(first.ids))
    return _plan(replace(request, previous=previous, **changes))


@pytest.mark.parametrize(
    ("broken_by", "changes"),
    [
        ("appended", {}),
        ("policy_changed", {"policy": (TextItem("p", "be long"),)}),
        ("tools_changed", {"tools": (tool_of("send", "sent it"),)}),
        ("passages_changed", {"passages": (Passage("c1", "sky", 0.5),)}),
    ],
)
def test_the_receipt_names_what_broke_the_prefix(broken_by: str, changes: dict[str, Any]) -> None:
    """One thing changed at a time; the common part ends at its first id that differs."""
    first = _plan(_chat())
    second = _second(_chat(), **changes)
    report = second.receipt.prefix
    assert report is not None
    assert broken_by == report.broken_by
    assert first.receipt.plan_id == report.previous_plan_id
    same = [left == right for left, right in zip(first.ids, second.ids, strict=False)]
    common = same.index(False) if False in same else len(same)
    assert common == report.common_tokens
    assert len(second.ids) - common == second.receipt.fresh_tokens


def test_passages_that_come_are_named() -> None:
    """A new passage in front of those that were there: passages_changed."""
    more = (*_chat().passages, Passage("c0", "hill", 0.9))
    report = _second(_chat(), passages=more).receipt.prefix
    assert report is not None
    assert "passages_changed" == report.broken_by


def test_a_moved_cut_is_named() -> None:
    """Less room and older turns gone: cut_moved."""
    report = _second(_chat(), max_input_tokens=700).receipt.prefix
    assert report is not None
    assert "cut_moved" == report.broken_by


@pytest.mark.parametrize("new_id", ["s", "s2"])
def test_another_summary_is_named(new_id: str) -> None:
    """Another summary in the same place, be it the next version of one id or a new id: summary_changed."""
    encoder = PLANNER.encoder()
    request = with_room(replace(_chat(), passages=()), 700)
    old, new = summary_of("s", request.turns[1:4], "sea"), summary_of(new_id, request.turns[1:4], "sky")
    first = plan_with(encoder, request, (old,))
    assert isinstance(first, Plan)
    assert "summary/s" in first.kept
    previous = Previous(first.receipt.plan_id, kept(first, "turn")[0], ("s",), tuple(first.ids))
    second = plan_with(encoder, replace(request, previous=previous), (new,))
    assert isinstance(second, Plan)
    assert second.receipt.prefix is not None
    assert "summary_changed" == second.receipt.prefix.broken_by


def test_a_template_that_rewrites_is_named() -> None:
    """The jitter toy writes other filler once the list is longer: template_rewrote."""
    planner = toy("jitter", "char")
    request = replace(_chat(2), model_bundle_id=planner.bundle_id, passages=())
    first = planner.plan(request)
    assert isinstance(first, Plan)
    asked = Turn("q", 3, "completed", (Message("user", text="and now"), Message("assistant", text="rain")))
    later = replace(
        request, turns=(*request.turns, asked), request=CurrentRequest(id="q2", text="more"),
        previous=Previous(first.receipt.plan_id, "t1", ids=tuple(first.ids)),
    )  # fmt: skip
    second = planner.plan(later)
    assert isinstance(second, Plan)
    assert second.receipt.prefix is not None
    assert "template_rewrote" == second.receipt.prefix.broken_by


def test_previous_without_ids_gives_no_prefix_and_says_so() -> None:
    """No ids: prefix null and no_previous_ids; no generated ids: generated_unknown."""
    answer = _plan(replace(_chat(), previous=Previous("p-1", "t1")))
    assert answer.receipt.prefix is None
    assert {"no_previous_ids", "generated_unknown"} <= set(answer.receipt.flags)
    assert len(answer.ids) == answer.receipt.fresh_tokens


def test_generated_ids_count_to_what_the_runtime_holds() -> None:
    """What the runtime produced after the prompt is in its cache too: only the rest is fresh."""
    first = _plan(replace(_chat(2), passages=()))
    engine = PLANNER.encoder().bundle.engine
    generated = tuple(engine.encode("rain").ids)
    asked = Turn("q", 3, "completed", (Message("user", text="and now"), Message("assistant", text="rain")))
    later = replace(
        _chat(2), passages=(), turns=(*_chat(2).turns, asked), request=CurrentRequest(id="q2", text="more"),
        previous=Previous(first.receipt.plan_id, "t1", ids=tuple(first.ids), generated_ids=generated),
    )  # fmt: skip
    second = _plan(later)
    assert second.receipt.prefix is not None
    assert ("appended", len(first.ids) + 4) == (second.receipt.prefix.broken_by, second.receipt.prefix.common_tokens)
    assert "generated_unknown" not in second.receipt.flags


def test_turns_gone_for_low_water_or_sticky_say_so() -> None:
    """Turns that would have fitted are removed as beyond_low_water or sticky_cut, not as over_budget."""
    request = with_room(replace(_chat(), passages=()), 500)
    low = _plan(replace(request, options=Options(low_water=0.4)))
    assert {"over_budget", "beyond_low_water"} == {entry.reason for entry in low.removed}
    previous = Previous(low.receipt.plan_id, kept(low, "turn")[0])
    roomy = _plan(replace(_chat(), passages=(), previous=previous, options=Options(sticky=True)))
    assert {"sticky_cut"} == {entry.reason for entry in roomy.removed}
