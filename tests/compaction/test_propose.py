"""What a compaction plan covers, keeps and skips (R62..R72, X1, X2, X6, X37, X46, X56, X66)."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.propose import Material, propose, with_runs
from planner.compaction.strategy import Settings
from planner.values.compaction import CompactionPlan, Unplanned
from planner.values.constraint import Constraint
from planner.values.turn import MustPreserve, Turn
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


def test_material_defaults_are_the_first_state() -> None:
    """A material without ledger fields is generation 1 of the main line."""
    subject = Material("chat", EIGHT, "policy-1")
    assert (1, 0, "main", 0) == (subject.generation, subject.revision, subject.branch, subject.event)
    assert Constraint("C1", "t1") not in subject.constraints
