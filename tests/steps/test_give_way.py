"""In which order old results, runs, passages and turns leave, said by the policy (design.md §5, X35)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from planner.values.give_way import full_order, order_problem
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, PlanRequest, SectionBounds, Sections
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.plan_summaries.common import ask, asking, plan, protected, summed, talk, turns_of

LOOKED = (
    Message("user", id="u2", text="Look it up."),
    Message("assistant", id="c2", tool_calls=(ToolCall("k2", "look", {}),)),
    Message("tool", id="r2", tool_result=ToolResult("k2", "line after line " * 20, ("short",))),
    Message("assistant", id="a2", text="Found."),
)
TURNS = (talk(1), Turn("t2", 20, "completed", LOOKED), talk(3), talk(4), talk(5))
PASSAGES = (Passage("p1", "one " * 30, 0.9), Passage("p2", "two " * 20, 0.5), Passage("p3", "three " * 25, 0.2))


def request_of(**options: Any) -> PlanRequest:
    """Return five turns, one with a long result, and three passages."""
    return asking(*TURNS, passages=PASSAGES, options=Options(**options))


def state_of(answer: Plan) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return kept turns, kept passages, and whether the result stands in its short form."""
    passages = tuple(key[8:] for key in answer.kept if key.startswith("passage/"))
    return tuple(key[5:] for key in turns_of(answer)), passages, bool(answer.receipt.forms)


def states(order: tuple[int, ...]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], bool]]:
    """Yield what is kept after each step, by the order alone: no size and no window."""
    turns, passages, short = [turn.id for turn in TURNS], ["p1", "p2", "p3"], False
    yield tuple(turns), tuple(passages), short
    for move in order:
        if move == 2 and "t2" in turns:
            short = True
            yield tuple(turns), tuple(passages), short
        elif move == 4:
            for name in ("p3", "p2", "p1"):
                passages.remove(name)
                yield tuple(turns), tuple(passages), short
        elif move == 5:
            while turns:
                turns.pop(0)
                short = short and "t2" in turns
                yield tuple(turns), tuple(passages), short


@pytest.mark.parametrize("order", [(), (4,), (5, 4), (3, 5, 2), (3, 4, 5, 2), (2, 3, 5, 4)])
def test_the_policy_orders_what_gives_way(order: tuple[int, ...]) -> None:
    """At every window the plan keeps the first state, in the order stated, that fits; states are measured alone."""
    if order_problem(order):
        order = (3, *order)
    expected = list(dict.fromkeys(states(full_order(order))))
    request = request_of(give_way_order=order)
    whole = len(plan(request, 100_000).ids)
    found: dict[int, int] = {}
    for room in range(whole, 60, -9):
        answer = ask(request, room)
        if isinstance(answer, Refusal):
            break
        at = expected.index(state_of(answer))
        found[at] = len(answer.ids)
        assert all(size > room for earlier, size in found.items() if earlier < at)
    assert sorted(found) == list(found)
    assert len(expected) - 2 <= len(found), "almost every state was met"


@pytest.mark.parametrize(("order", "detail"), [
    ((1,), "expected moves 2 to 5, each once"),
    ((2, 2), "expected moves 2 to 5, each once"),
    ((6,), "expected moves 2 to 5, each once"),
    ((5,), "turns (5) leave before their summaries come (3)"),
    ((2, 5, 3, 4), "turns (5) leave before their summaries come (3)"),
])  # fmt: skip
def test_an_order_that_loses_summaries_or_moves_is_refused(order: tuple[int, ...], detail: str) -> None:
    """A policy may reorder four moves, never add one, and never take turns before what may stand for them."""
    answer = ask(request_of(give_way_order=order), 5_000)
    assert isinstance(answer, Refusal)
    assert ("invalid-input", f"$.options.giveWayOrder: {detail}") == (answer.reason, answer.detail)


def test_summaries_may_come_before_results_are_shortened() -> None:
    """Three before two: the run with the result is summarised, and its short form is never seen."""
    request = summed(request_of(), (1, 2))
    room = len(plan(request, 100_000).ids) - 20
    assert (["turn/t1", "turn/t2"], 1) == (turns_of(plan(request, room))[:2], len(plan(request, room).receipt.forms))
    other = replace(request, options=Options(give_way_order=(3,)))
    answer = plan(other, room)
    assert (["summary/s1", "turn/t3"], ()) == (turns_of(answer)[:2], answer.receipt.forms)


def size_of(*turns: Turn) -> int:
    """Return what turns cost in the history."""
    return plan(asking(*turns), 100_000).account.history_tokens - plan(asking(), 100_000).account.history_tokens


def test_history_beyond_its_maximum_leaves_before_any_passage() -> None:
    """Oldest first, as soon as something must leave; what is within stays behind the passages."""
    most = size_of(*TURNS[3:]) + 40
    request = request_of(sections=Sections(history=SectionBounds(max=most)))
    whole = plan(request, 100_000)
    assert (5, 3) == (len(turns_of(whole)), len([key for key in whole.kept if key.startswith("passage/")]))
    seen = []
    for room in range(len(whole.ids) - 1, 300, -11):
        answer = ask(request, room)
        if isinstance(answer, Plan):
            seen.append(state_of(answer)[:2])
    seen = list(dict.fromkeys(seen))
    ids = tuple(turn.id for turn in TURNS)
    everything = ("p1", "p2", "p3")
    assert [(ids[1:], everything), (ids[2:], everything), (ids[3:], everything)] == seen[:3]
    assert [(ids[3:], everything[:count]) for count in (2, 1, 0)] == seen[3:6]


def test_the_minimum_of_the_history_leaves_last_of_all() -> None:
    """Passages leave first, those their own minimum held back too; then the newest turns after all."""
    least = size_of(TURNS[4])
    sections = Sections(history=SectionBounds(min=least), retrieval=SectionBounds(min=60))
    request = request_of(sections=sections, give_way_order=(3, 5))
    seen = []
    for room in range(len(plan(request, 100_000).ids), 40, -7):
        answer = ask(request, room)
        if isinstance(answer, Plan):
            seen.append(state_of(answer)[:2])
    last = list(dict.fromkeys(seen))[-5:]
    assert (("t5",), ("p1", "p2", "p3")) == last[0]
    assert [(("t5",), ("p1",)), (("t5",), ()), ((), ())] == last[-3:]


def test_a_run_beyond_the_maximum_is_summarised_first() -> None:
    """Its summary comes at the very beginning, and leaves when its turn comes, oldest first."""
    request = summed(asking(*map(talk, range(1, 6)), passages=PASSAGES), (1, 2))
    bounded = replace(request, options=Options(sections=Sections(history=SectionBounds(max=size_of(talk(1), talk(2))))))
    room = len(plan(request, 100_000).ids) - 10
    assert ["turn/t1", "turn/t2"] != turns_of(plan(bounded, room))[:2]
    answer = plan(bounded, room)
    assert "summary/s1" == turns_of(answer)[0]
    assert {"passage/p1", "passage/p2", "passage/p3"} <= set(answer.kept)


def test_protected_turns_count_and_stay() -> None:
    """A maximum takes nothing that may not leave."""
    turns = (protected(talk(1)), talk(2), talk(3))
    request = asking(*turns, options=Options(sections=Sections(history=SectionBounds(max=1))))
    room = len(plan(request, 100_000).ids) - 1
    assert ["turn/t1", "turn/t3"] == turns_of(plan(request, room))
    assert ["turn/t1"] == turns_of(plan(request, size_of(turns[0]) + 60))
