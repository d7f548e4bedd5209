"""What a compaction plan covers, keeps and skips (R62..R72, X1, X2, X6, X37, X46, X56, X66)."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.propose import Material, propose, split, with_runs
from planner.compaction.strategy import Settings
from planner.values.compaction import CompactionPlan, Unplanned
from planner.values.constraint import Constraint
from planner.values.receipt import Removal
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult, Turn
from tests.compaction.chats import conversations, live, material, protected, tool_turn, turn, with_message

EIGHT = tuple(turn(number) for number in range(1, 9))


def plan_of(*turns: Turn, tail: int = 1, **fields: Any) -> CompactionPlan:
    """Return the plan of these turns; fails where there is none."""
    settings = Settings(
        "p1", tail, **{key: fields.pop(key) for key in ("min_run_turns", "merge_neighbours") if key in fields}
    )
    plan = propose(material(*turns, **fields), settings)
    assert isinstance(plan, CompactionPlan), plan
    return plan


def covered(plan: CompactionPlan) -> list[tuple[str, ...]]:
    """Return the turn ids of each run."""
    return [run.turn_ids for run in plan.runs]


def ids(*turns: Turn) -> tuple[str, ...]:
    """Return the ids of all messages of these turns."""
    return tuple(message.id or "" for entry in turns for message in entry.messages)


NOTHING = Unplanned("nothing_to_compact")


def test_R62_plan_validates_freezes_then_tails() -> None:
    """A broken ledger is refused before the tail is looked at; of a sound one the newest N stay, the rest is taken."""
    broken = propose(material(turn(1), turn(1)), Settings("p1", 9))
    assert isinstance(broken, Unplanned)
    assert "invalid-input" == broken.reason
    plan = plan_of(*EIGHT, tail=3, revision=7, event=41)
    assert (7, 41) == (plan.source_revision, plan.event)
    assert [("t1", "t2", "t3", "t4", "t5")] == covered(plan)
    assert ids(*EIGHT[5:]) == plan.preserved_ids


def test_R63_compaction_plan_fields() -> None:
    """A plan names itself, its conversation, the revision, both sets of ids and how far it reaches."""
    plan = plan_of(*EIGHT, tail=2, revision=3)
    assert ("p1", "chat", 3) == (plan.plan_id, plan.conversation_id, plan.source_revision)
    assert ids(*EIGHT[:6]) == plan.compacted_ids
    assert ids(*EIGHT[6:]) == plan.preserved_ids
    assert 61 == plan.through_sequence


@pytest.mark.parametrize("tail", [0, -1, 1.5, True, "2", None])
def test_R64_plan_invalid_input(tail: Any) -> None:
    """A tail that is no whole number above 0, a blank plan id and a broken conversation id are invalid-input."""
    for found in (
        propose(material(*EIGHT), Settings("p1", tail)),
        propose(material(*EIGHT), Settings("", 2)),
        propose(material(*EIGHT), Settings(" ", 2)),
        propose(material(*EIGHT), Settings("p1", 2, min_run_turns=0)),
        propose(material(*EIGHT, conversation_id=""), Settings("p1", 2)),
        propose(material(*EIGHT, policy_version=""), Settings("p1", 2)),
    ):
        assert isinstance(found, Unplanned)
        assert "invalid-input" == found.reason


@given(conversations(), st.randoms(use_true_random=False))
def test_R65_unordered_input_normalised(turns: tuple[Turn, ...], chance: random.Random) -> None:
    """Shuffled turns give the same plan as sorted ones."""
    shuffled = list(turns)
    chance.shuffle(shuffled)
    first = propose(material(*turns), Settings("p1", 1))
    assert first == propose(material(*shuffled, constraints=live(turns)), Settings("p1", 1))


def test_a9_unordered_input_is_normalised() -> None:
    """Turns from newest to oldest give the plan of oldest to newest."""
    assert plan_of(*EIGHT, tail=3) == plan_of(*reversed(EIGHT), tail=3)


@given(conversations(), st.integers(1, 12))
def test_R66_tail_kept_unconditionally(turns: tuple[Turn, ...], tail: int) -> None:
    """None of the newest N completed turns is ever in a run, protected or not; N at the length covers nothing."""
    completed = [entry for entry in turns if entry.state == "completed"]
    found = propose(material(*turns), Settings("p1", tail))
    if tail >= len(completed):
        assert NOTHING == found
    if isinstance(found, CompactionPlan):
        assert not set(ids(*completed[-tail:])) & set(found.compacted_ids)


@pytest.mark.parametrize(("tail", "runs"), [(1, 7), (7, 1), (8, 0), (9, 0)])
def test_a9_tail_boundary(tail: int, runs: int) -> None:
    """A tail of 1, one less than the length, the length and one more; 0, -1, 1.5 and true are refused in R64."""
    found = propose(material(*EIGHT), Settings("p1", tail))
    assert runs == (len(found.runs[0].turn_ids) if isinstance(found, CompactionPlan) else 0)
    for wrong in (0, -1, 1.5, True):
        refused = propose(material(*EIGHT), Settings("p1", wrong))  # type: ignore[arg-type]
        assert "invalid-input" == getattr(refused, "reason", None)


def test_a9_plan_with_tail_3_is_ok() -> None:
    """The plan of the first conversation with a tail of three is made."""
    assert isinstance(propose(material(*EIGHT), Settings("p1", 3)), CompactionPlan)


def test_the_open_turn_is_kept_in_addition_to_the_tail() -> None:
    """X2: the tail counts completed turns; open, cancelled and superseded ones do not use it up."""
    plan = plan_of(turn(1), turn(2), turn(3), turn(4, "cancelled"), turn(5, "open"), tail=1)
    assert [("t1", "t2")] == covered(plan)
    assert ids(turn(3), turn(5)) == plan.preserved_ids


def test_R67_protected_prefix_stays_raw() -> None:
    """A protected message of the prefix is preserved with its whole turn, and the runs end beside it (X1, X2)."""
    plan = plan_of(turn(1), turn(2), protected(turn(3), place=1), turn(4), turn(5), tail=1)
    assert [("t1", "t2"), ("t4",)] == covered(plan)
    assert {"u3", "a3"} <= set(plan.preserved_ids)


def test_a9_protected_message_is_kept() -> None:
    """Every reason of protection keeps the message out of what is compacted."""
    for reason in ("pending-confirmation", "active-constraint", "audit-evidence"):
        plan = plan_of(turn(1), protected(turn(2), reason), turn(3), turn(4))
        assert not {"u2", "a2"} & set(plan.compacted_ids)


def test_a9_pending_confirm_in_preserved() -> None:
    """A message that waits for a confirmation is in the preserved set."""
    plan = plan_of(turn(1), protected(turn(2), "pending-confirmation"), turn(3), turn(4))
    assert "u2" in plan.preserved_ids


def test_a9_pending_confirm_not_in_compacted() -> None:
    """A message that waits for a confirmation is not in the compacted set."""
    plan = plan_of(turn(1), protected(turn(2), "pending-confirmation"), turn(3), turn(4))
    assert "u2" not in plan.compacted_ids


def test_R68_protected_and_tail_once() -> None:
    """A protected turn inside the tail stands once among the preserved ids."""
    plan = plan_of(turn(1), turn(2), protected(turn(3)), tail=1)
    assert ("u3", "a3") == plan.preserved_ids


@given(conversations(), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_R69_compacted_and_preserved_partition(turns: tuple[Turn, ...], tail: int, least: int, merge: bool) -> None:
    """Compacted, preserved and typed skipped messages are the whole ledger, each once."""
    spans = tuple((entry.sequence, entry.sequence) for entry in turns[1:2] if entry.state == "completed")
    found = propose(material(*turns, covered=spans), Settings("p1", tail, least, merge))
    if not isinstance(found, CompactionPlan):
        return
    left = [entry.id for entry in found.skipped]
    skipped = [entry.removeprefix("message/") for entry in left if entry.startswith("message/")]
    skipped += [message.id or "" for entry in turns if f"turn/{entry.id}" in left for message in entry.messages]
    everything = [*found.compacted_ids, *found.preserved_ids, *skipped]
    assert sorted(ids(*turns)) == sorted(everything)


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


def test_R70_planning_mutates_nothing() -> None:
    """Material, turns and settings are the same after planning as before."""
    subject = material(*EIGHT)
    before = copy.deepcopy(subject)
    propose(subject, Settings("p1", 2))
    assert before == subject


def test_R71_through_sequence_is_no_proof() -> None:
    """Two runs of the same reach with other turns between them differ in ids and fingerprint."""
    full = plan_of(turn(1), turn(2), turn(3), turn(9)).runs[0]
    holed = plan_of(turn(1), turn(3), turn(9)).runs[0]
    assert full.through_sequence == holed.through_sequence == 31
    assert full.source_ids != holed.source_ids
    assert full.source_fingerprint != holed.source_fingerprint


def test_through_sequence_is_that_of_the_last_message_and_null_without_one() -> None:
    """X46: a late result reaches further than its turn begins; a plan without runs reaches nowhere, also not to 0."""
    late = with_message(tool_turn(1, "ok"), 2, sequence=25)
    plan = plan_of(late, turn(2), turn(9))
    assert 25 == plan.through_sequence
    assert None is with_runs(plan, (), material(late, turn(2), turn(9))).through_sequence


def test_R72_empty_compaction_skips_request() -> None:
    """Without a source there is no plan at all, only a named state, so no summary job can start."""
    assert NOTHING == propose(material(), Settings("p1"))
    assert NOTHING == propose(material(*EIGHT[:2]), Settings("p1", 2))
    assert NOTHING == propose(material(*map(protected, EIGHT)), Settings("p1", 2))


def test_a9_duplicate_id_is_invalid() -> None:
    """A turn id, a message id, a turn sequence or a message sequence that stands twice makes the ledger invalid."""
    twice = (
        (turn(1), replace(turn(2), id="t1"), turn(3)),
        (turn(1), with_message(turn(2), 0, id="u1"), turn(3)),
        (turn(1), replace(turn(2), sequence=10), turn(3)),
        (turn(1), with_message(turn(2), 1, sequence=11), turn(3)),
    )
    for turns in twice:
        found = propose(material(*turns), Settings("p1", 1))
        assert isinstance(found, Unplanned)
        assert "invalid-input" == found.reason


def test_a_message_without_an_id_is_no_source() -> None:
    """A summary names its sources, so every message needs an id."""
    found = propose(material(with_message(turn(1), 0, id=None), turn(2)), Settings("p1", 1))
    assert "invalid-input" == getattr(found, "reason", None)


def test_a9_non_consecutive_sequence() -> None:
    """X6: gaps in the sequence are accepted and end no run."""
    assert [("t1", "t5", "t40")] == covered(plan_of(turn(1), turn(5), turn(40), turn(41)))


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


@pytest.mark.parametrize("bad", ["unknown", "later", "own"])
def test_a_broken_withdrawal_is_invalid_input(bad: str) -> None:
    """X56: an unknown, a later and the turn's own target are refused; a purged one is allowed."""
    marks = (MustPreserve("C1", "Blue."),)
    turns = {
        "unknown": (turn(1), turn(2, supersedes=("C1",)), turn(3)),
        "later": (turn(1, supersedes=("C1",)), turn(2, must_preserve=marks), turn(3)),
        "own": (turn(1, must_preserve=marks), turn(2, must_preserve=marks, supersedes=("C1",)), turn(3)),
    }[bad]
    found = propose(material(*turns), Settings("p1", 1))
    assert "invalid-input" == getattr(found, "reason", None)
    purged = material(*turns, purged_constraint_ids=frozenset({"C1"}))
    assert (bad != "own") == isinstance(propose(purged, Settings("p1", 1)), CompactionPlan)


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
    bare = tuple(
        Turn(
            f"t{n}",
            n,
            "completed",
            (Message("user", id=f"u{n}", text="A."), Message("assistant", id=f"a{n}", text="B.")),
        )
        for n in (1, 2, 3)
    )
    assert ("u1", "a1", "u2", "a2") == plan_of(*bare).compacted_ids


def test_material_defaults_are_the_first_state() -> None:
    """A material without ledger fields is generation 1 of the main line."""
    subject = Material("chat", EIGHT, "policy-1")
    assert (1, 0, "main", 0) == (subject.generation, subject.revision, subject.branch, subject.event)
    assert Constraint("C1", "t1") not in subject.constraints
