"""Which turns stand together in a run, what ends one, and how one is split (X1, X37, X41, X66)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.propose import propose, split, with_runs
from planner.compaction.strategy import Settings
from planner.values.compaction import CompactionPlan
from planner.values.receipt import Removal
from planner.values.turn import Message, MustPreserve, OpenItem, Role, ToolCall, ToolResult, Turn
from tests.compaction.chats import conversations, live, material, protected, turn, with_message
from tests.compaction.test_propose import EIGHT, NOTHING, covered, ids, plan_of


@given(conversations(), st.integers(1, 3))
def test_runs_are_those_of_a_plain_reading(turns: tuple[Turn, ...], tail: int) -> None:
    """X1, X37: the runs are what a reader finds who looks at every pair of turns and what lies between them."""
    found = propose(material(*turns), Settings("p1", tail))
    runs = covered(found) if isinstance(found, CompactionPlan) else []
    assert _runs_by_reading(turns, tail) == runs


def _runs_by_reading(turns: tuple[Turn, ...], tail: int) -> list[tuple[str, ...]]:
    forced = {entry.turn_id: entry for entry in live(turns)}
    completed = [entry for entry in turns if entry.state == "completed"]

    def may(entry: Turn) -> bool:
        textless = any(
            mark.text is None
            and any(mark.constraint_id == one.id and one.turn_id == entry.id for one in forced.values())
            for mark in entry.must_preserve
        )
        return entry in completed[:-tail] and not any(m.protection_reason for m in entry.messages) and not textless

    def skips(entry: Turn) -> bool:
        held = any(one.turn_id == entry.id for one in live(turns))
        return entry.state in ("cancelled", "superseded") and not entry.pinned and not held

    out: list[tuple[str, ...]] = []
    before: Turn | None = None
    for entry in turns:
        if not may(entry):
            continue
        between = [one for one in turns if before and before.sequence < one.sequence < entry.sequence]
        if before is not None and all(map(skips, between)):
            out[-1] = (*out[-1], entry.id)
        else:
            out.append((entry.id,))
        before = entry
    return out


@given(conversations(), st.integers(1, 3), st.booleans())
def test_R205_property_no_double_presence(turns: tuple[Turn, ...], tail: int, merge: bool) -> None:
    """No message is preserved and a source at once, and none is a source of two runs (X51)."""
    found = propose(material(*turns), Settings("p1", tail, merge_neighbours=merge))
    if isinstance(found, CompactionPlan):
        assert len(found.compacted_ids) == len(set(found.compacted_ids))
        assert not set(found.compacted_ids) & set(found.preserved_ids)
        borders = [edge for run in found.runs for edge in (run.covers_from, run.covers_to)]
        assert sorted(borders) == borders


def test_a9_property_never_raw_and_source_at_once() -> None:
    """A protected turn between two runs is a source of neither."""
    plan = plan_of(turn(1), protected(turn(2)), turn(3), turn(4))
    assert not set(plan.compacted_ids) & set(plan.preserved_ids)
    assert {*plan.compacted_ids, *plan.preserved_ids} == {*ids(*(turn(number) for number in range(1, 5)))}


def test_skipped_turns_are_listed_and_end_no_run() -> None:
    """X37: a cancelled and a superseded turn inside an interval are passed over by name, outside one only listed."""
    turns = (turn(1), turn(2, "cancelled"), turn(3, "superseded"), turn(4), turn(5, "cancelled"), turn(6))
    plan = plan_of(*turns)
    assert [("t1", "t4")] == covered(plan)
    assert (Removal("turn/t2", "cancelled"), Removal("turn/t3", "superseded")) == plan.runs[0].skipped
    assert ["turn/t2", "turn/t3", "turn/t5"] == [entry.id for entry in plan.skipped]


def test_a_skipped_turn_that_carries_something_ends_the_run() -> None:
    """X37: protection or a live constraint of a cancelled turn ends the run, and the turn is preserved."""
    marked = turn(2, "cancelled", must_preserve=(MustPreserve("C1", "No paint."),))
    for held in (marked, protected(turn(2, "cancelled"))):
        plan = plan_of(turn(1), held, turn(3), turn(4))
        assert [("t1",), ("t3",)] == covered(plan)
        assert {"u2", "a2"} <= set(plan.preserved_ids)
    withdrawn = plan_of(turn(1), marked, turn(3, supersedes=("C1",)), turn(4))
    assert [("t1", "t3")] == covered(withdrawn)


def test_a_run_carries_its_marks_items_and_citations() -> None:
    """R98, X32, X45: the ids a summary must state are the live marks, the unfinished items and the citations."""
    first = turn(1, must_preserve=(MustPreserve("C1", "Blue."), MustPreserve("C2", "Matt.")))
    first = with_message(first, 1, citation_ids=("src-1",))
    second = turn(2, supersedes=("C2",), open_items=(OpenItem("i1", "pending"), OpenItem("i2", "done")))
    run = plan_of(first, second, turn(3)).runs[0]
    assert (("C1",), ("i1",), ("src-1",)) == (run.required_constraint_ids, run.open_items, run.citation_ids)


def test_what_only_a_raw_message_can_carry_stays_raw() -> None:
    """A live mark without text, a message that names another turn's mark, and a system message end a run."""
    textless = turn(2, must_preserve=(MustPreserve("C1"),))
    naming = with_message(turn(2), 0, constraint_ids=("C9",))
    spoken = replace(turn(2), messages=(*turn(2).messages, Message("system", id="z2", text="Rule.", sequence=25)))
    for held in (textless, naming, spoken):
        assert [("t1",), ("t3",)] == covered(plan_of(turn(1), held, turn(3), turn(4)))


def test_runs_stay_outside_current_summaries() -> None:
    """Turns of current summaries are preserved by the plan; a neighbour is merged only on request (X41)."""
    turns, spans = EIGHT, ((10, 20), (50, 50))
    plan = plan_of(*turns, covered=spans)
    assert [("t3", "t4"), ("t6", "t7")] == covered(plan)
    assert {"u1", "a2", "u5"} <= set(plan.preserved_ids)
    merged = plan_of(*turns, covered=spans, merge_neighbours=True)
    assert [tuple(f"t{number}" for number in range(1, 8))] == covered(merged)
    alone = material(turn(1), turn(2), turn(3), covered=((10, 20),))
    assert NOTHING == propose(alone, Settings("p1", 1, merge_neighbours=True))


def test_short_runs_stay_raw() -> None:
    """X1: a minimum number of turns keeps holes from making many tiny summaries."""
    plan = plan_of(turn(1), protected(turn(2)), turn(3), turn(4), turn(5), min_run_turns=2)
    assert [("t3", "t4")] == covered(plan)
    assert "u1" in plan.preserved_ids


@given(conversations(), st.integers(1, 2), st.data())
def test_a_split_run_is_two_runs_that_planning_would_name(
    turns: tuple[Turn, ...], tail: int, data: st.DataObject
) -> None:
    """X66: both parts of a split are runs of their turns, and with both in the plan the partition still holds."""
    subject = material(*turns)
    plan = propose(subject, Settings("p1", tail))
    long = [run for run in plan.runs if len(run.turn_ids) > 1] if isinstance(plan, CompactionPlan) else []
    if not long or not isinstance(plan, CompactionPlan):
        return
    run = data.draw(st.sampled_from(long))
    at = data.draw(st.integers(1, len(run.turn_ids) - 1))
    parts = split(run, turns, at, live(turns))
    assert run.turn_ids == parts[0].turn_ids + parts[1].turn_ids
    assert (run.turn_ids[:at], run.covers_from, run.covers_to) == (
        parts[0].turn_ids, parts[0].covers_from, parts[1].covers_to,
    )  # fmt: skip
    assert set(run.required_constraint_ids) == {*parts[0].required_constraint_ids, *parts[1].required_constraint_ids}
    halves = with_runs(plan, tuple(part for one in plan.runs for part in (parts if one == run else (one,))), subject)
    assert plan.preserved_ids == halves.preserved_ids
    assert sorted(plan.compacted_ids) == sorted(halves.compacted_ids)


def test_a_run_has_no_border_outside_itself() -> None:
    """A split at nothing or behind the last turn is our own mistake."""
    run = plan_of(*EIGHT).runs[0]
    for at in (0, len(run.turn_ids)):
        with pytest.raises(ValueError, match="cannot be split"):
            split(run, EIGHT, at, ())


def test_late_results_do_not_tear_a_turn_apart() -> None:
    """Source ids stand by message sequence, so a late result follows the beginning of the next turn."""
    call = ToolCall("k1", "look_up", {})
    slow = Turn("t1", 10, "completed", (
        Message("user", id="u1", text="Find it.", sequence=10),
        Message("assistant", id="c1", tool_calls=(call,), sequence=11),
        Message("tool", id="r1", tool_result=ToolResult("k1", "found"), sequence=22),
    ))  # fmt: skip
    run = plan_of(slow, turn(2), turn(3)).runs[0]
    assert ("u1", "c1", "u2", "a2", "r1") == run.source_ids
    assert ("t1", "t2") == run.turn_ids


def test_turns_numbered_without_room_do_not_interleave() -> None:
    """Messages without a sequence of their own stay in their turn, also where turns are numbered 1, 2, 3."""
    shapes: tuple[tuple[Role, str], ...] = (("user", "u"), ("assistant", "a"), ("user", "v"), ("assistant", "b"))
    bare = tuple(
        Turn(f"t{n}", n, "completed", tuple(Message(role, id=f"{name}{n}", text="A.") for role, name in shapes))
        for n in (1, 2, 3)
    )
    assert ("u1", "a1", "v1", "b1", "u2", "a2", "v2", "b2") == plan_of(*bare).compacted_ids
