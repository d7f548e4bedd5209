"""Law 9: a turn and a summary of it are never both there; law 11: a summary stands before what follows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.values.plan import Plan, Refusal
from planner.values.request import PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn
from tests.laws.common import TOYS, between, every_rung, plan_with, room_of, said, sizes, toy, with_room
from tests.oracles.scan import first_fit
from tests.strategies import PLAIN_TEXT, Wanted, requests, summaries_of, summary_of


def _covered(request: PlanRequest, summary: SummaryRecord) -> set[str]:
    shown = [turn for turn in request.turns if turn.state in ("open", "completed")]
    return {turn.id for turn in shown if summary.covers_from <= turn.sequence <= summary.covers_to}


def _order(request: PlanRequest, summaries: tuple[SummaryRecord, ...], answer: Plan) -> list[tuple[int, int]]:
    """Return (sequence, 1 for a turn) of the history as kept; a summary counts at its coversTo."""
    turns = {turn.id: turn.sequence for turn in request.turns}
    ends = {summary.id: summary.covers_to for summary in summaries}
    out = []
    for key in answer.kept:
        kind, _, name = key.partition("/")
        if kind == "turn" and name in turns:
            out.append((turns[name], 1))
        elif kind == "summary":
            out.append((ends[name], 0))
    return out


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_a_turn_and_its_summary_are_never_both_there(template: str, pieces: str, data: st.DataObject) -> None:
    """A covered turn is absent only with its summary present or its removal on the receipt; order holds."""
    planner = toy(template, pieces)
    request = data.draw(requests(planner.bundle_id, Wanted(max_turns=9)))
    summaries = data.draw(summaries_of(tuple(turn for turn in request.turns if turn.id != "own")))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1.05))))
    answer = plan_with(planner.encoder(), request, summaries)
    assert isinstance(answer, Plan), answer
    assert len(answer.ids) <= room_of(request)
    shown = {key.partition("/")[2] for key in answer.kept if key.startswith("summary/")}
    turns = {key.partition("/")[2] for key in answer.kept if key.startswith("turn/")}
    event("with a summary" if shown else "without")
    reasons = {entry.id: entry.reason for entry in answer.removed}
    for summary in summaries:
        if summary.id in shown:
            assert turns.isdisjoint(_covered(request, summary))
        else:
            assert f"summary/{summary.id}" in reasons
    order = _order(request, summaries, answer)
    assert sorted(set(order)) == order
    charged = sum(answer.account.items.get(f"summary/{name}", 0) for name in shown)
    assert charged == answer.account.summary_tokens


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_fit_with_summaries_equals_a_linear_scan(template: str, pieces: str, data: st.DataObject) -> None:
    """Every rung of the whole ladder, measured by planning exactly it: the first that fits is the plan."""
    planner = toy(template, pieces)
    wanted = Wanted(texts=PLAIN_TEXT, max_turns=8, late_system=False, tools=False)
    request = data.draw(requests(planner.bundle_id, wanted))
    summaries = data.draw(summaries_of(tuple(turn for turn in request.turns if turn.id != "own")))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1))))
    whole = every_rung(planner.encoder(), request, summaries)
    made = first_fit(whole, lambda one: one.tokens, room_of(request))
    answer = plan_with(planner.encoder(), request, summaries)
    if made is None:
        assert isinstance(answer, Refusal)
        return
    assert isinstance(answer, Plan), answer
    event("moved" if made else "whole")
    assert whole[made].turns == tuple(key for key in answer.kept if key.startswith(("turn/", "summary/")))
    assert whole[made].passages == tuple(key for key in answer.kept if key.startswith("passage/"))


def _talk(number: int, words: str) -> Turn:
    messages = (Message("user", id=f"u{number}", text=words), Message("assistant", id=f"a{number}", text=words))
    return Turn(f"t{number}", number, "completed", messages)


def _long_talk() -> PlanRequest:
    from planner.values.request import CurrentRequest

    turns = tuple(_talk(number, "note rain " * 8) for number in range(1, 9))
    return PlanRequest("toy-plain-char", CurrentRequest(id="q", text="be"), turns=turns, reserved_output_tokens=0,
                       safety_margin_tokens=0, max_input_tokens=100_000)  # fmt: skip


def test_a_summary_stands_before_the_first_turn_after_its_range() -> None:
    """Sequence and prompt agree: the state block opens the user message of the next kept turn."""
    request = _long_talk()
    summary = summary_of("s0", request.turns[1:4], "sea")
    answer = plan_with(toy().encoder(), with_room(request, 1_100), (summary,))
    assert isinstance(answer, Plan), answer
    assert ("turn/t1", "summary/s0", "turn/t5", "turn/t6", "turn/t7", "turn/t8", "turn/q", "request/q") == answer.kept
    block = said(answer).split("<|user|>")[2]
    assert block.startswith("[conversation state: written by the application]")
    assert "turns 2 to 4:\nsea\n" in block
    assert [("turn/t2", "turn/t4", "replaced_by_summary", 3)] == [
        (entry.id, entry.last_id, entry.reason, entry.count) for entry in answer.removed
    ]
    assert answer.receipt.history_reduced is None, "a summarised turn is not missing"
    assert ("s0@1",) == answer.receipt.summary_versions


def test_the_wording_stands_once_and_neighbours_share_a_fence() -> None:
    """Three summaries, the first two side by side: two blocks, the wording in the first alone (design.md §6)."""
    request = replace(_long_talk(), turns=tuple(_talk(number, "note rain " * 30) for number in range(1, 9)))
    spans = ((0, 1), (1, 2), (4, 6))
    summaries = tuple(summary_of(f"s{at}", request.turns[low:high], "sea") for at, (low, high) in enumerate(spans))
    answer = plan_with(toy().encoder(), with_room(request, 3_300), summaries)
    assert isinstance(answer, Plan), answer
    assert ["summary/s0", "summary/s1", "summary/s2"] == [key for key in answer.kept if key.startswith("summary/")]
    assert answer.prompt is not None
    assert 2 == answer.prompt.count("[conversation state: written by the application]")
    assert 1 == answer.prompt.count("Use only the confirmed facts below.")
    assert answer.prompt.index("Use only") < answer.prompt.index("turns 1 to 1:")


def test_a_summary_beyond_the_horizon_replaces_its_turns() -> None:
    """Turns too old to be looked at one by one: their summary may stay or leave, but a plan is made."""
    turns = tuple(_talk(number, "note rain " * 250) for number in range(1, 9))
    request = replace(_long_talk(), turns=turns)
    summary = summary_of("s0", request.turns[0:3], "sea")
    for room in (300, 1_000, 6_000, 11_000, 20_000, 26_000, 50_000):
        answer = plan_with(toy().encoder(), with_room(request, room), (summary,))
        assert isinstance(answer, Plan), answer
        assert len(answer.ids) <= room
        # A summary counts at its coversTo: it replaces its turns first, and is the first to leave after that.
        assert ("summary/s0" in answer.kept) == (room == 26_000)


def test_a_summary_that_saves_nothing_is_not_used() -> None:
    """X42: a summary larger than its sources stays out; the receipt says no_gain while its turns are raw."""
    request = _long_talk()
    summary = summary_of("s0", request.turns[4:5], "sea " * 200)
    answer = plan_with(toy().encoder(), with_room(request, 1_200), (summary,))
    assert isinstance(answer, Plan), answer
    assert "summary/s0" not in answer.kept
    assert "turn/t5" in answer.kept
    assert {"no_gain"} == {entry.reason for entry in answer.removed if entry.id == "summary/s0"}
    least = plan_with(toy().encoder(), with_room(request, 300), (summary,))
    assert isinstance(least, Plan), least
    # What is older than everything that fits is not looked at any closer.
    assert {"over_budget"} == {entry.reason for entry in least.removed if entry.id == "summary/s0"}


def test_a_summary_over_a_pinned_turn_is_not_used() -> None:
    """A protected turn inside the interval keeps the whole run raw (X1)."""
    request = _long_talk()
    pinned = replace(request.turns[2].messages[0], protection_reason="audit-evidence")
    turn = replace(request.turns[2], messages=(pinned, request.turns[2].messages[1]))
    request = replace(request, turns=(*request.turns[:2], turn, *request.turns[3:]))
    answer = plan_with(toy().encoder(), with_room(request, 900), (summary_of("s0", request.turns[1:4], "sea"),))
    assert isinstance(answer, Plan), answer
    assert "summary/s0" not in answer.kept
    assert "turn/t3" in answer.kept
