"""Whether a summary still stands for its turns, decided from the turns alone (R84..R86, R97..R100, R117..R119)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.propose import propose
from planner.compaction.strategy import Settings
from planner.values.check_summary import SummaryFrame, summary_problem, unfinished_items
from planner.values.compaction import CompactionPlan, Rejected, Staleness
from planner.values.constraint import Constraint
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord
from planner.values.turn import MustPreserve, OpenItem, Turn
from tests.compaction.chats import conversations, frame, live, protected, record, tool_turn, turn, with_message
from tests.compaction.test_fingerprints import changes

COVERED = (
    turn(1, must_preserve=(MustPreserve("C1", "Blue."),)),
    turn(2, "cancelled"),
    with_message(tool_turn(3, "found"), 2, citation_ids=("src-1",)),
    turn(4, open_items=(OpenItem("i1", "pending"),)),
)
TURNS = (*COVERED, turn(5), turn(6))
SOUND = record(COVERED)


def problem(
    turns: tuple[Turn, ...] = TURNS, subject: SummaryRecord = SOUND, **fields: Any
) -> Staleness | Rejected | None:
    """Return the verdict on the sound summary, with turns or the frame changed."""
    return summary_problem(subject, turns, frame(turns, **fields))


def cause(*arguments: Any, **fields: Any) -> tuple[str, str | None]:
    """Return cause and causing id of a stale summary."""
    found = problem(*arguments, **fields)
    assert isinstance(found, Staleness), found
    assert ("s1", (10, 40)) == (found.summary_id, found.covers)
    return found.cause, found.causing_id


def swap(place: int, changed: Turn) -> tuple[Turn, ...]:
    """Return the turns with one of them replaced."""
    return (*TURNS[:place], changed, *TURNS[place + 1 :])


def test_a_sound_summary_stands() -> None:
    """Unchanged sources under the same versions: no problem, whatever else the turns hold."""
    assert None is problem()
    assert None is problem(tuple(reversed(TURNS)))
    assert None is problem(COVERED)


@given(conversations(), st.randoms(use_true_random=False))
def test_every_planned_run_makes_a_summary_that_stands(turns: tuple[Turn, ...], chance: random.Random) -> None:
    """What `propose` names and a summary made of exactly that agree, for any conversation in any order."""
    from tests.compaction.chats import material

    plan = propose(material(*turns), Settings("p1", 1))
    for run in plan.runs if isinstance(plan, CompactionPlan) else ():
        inside = tuple(entry for entry in turns if run.covers_from <= entry.sequence <= run.covers_to)
        shuffled = list(turns)
        chance.shuffle(shuffled)
        subject = record(inside, turns)
        assert run.required_constraint_ids == subject.required_constraint_ids
        assert None is summary_problem(subject, shuffled, frame(turns))


def test_R84_ordered_id_comparison() -> None:
    """The same ids in another order, one more and one less are all refused."""
    ids = SOUND.source_ids
    for wrong in (ids[::-1], ids[:-1], (*ids, "u5")):
        found = problem(subject=replace(SOUND, source_ids=wrong, source_versions=(1,) * len(wrong)))
        assert found is not None


def test_R85_current_check_conditions() -> None:
    """Conversation, policy version, sources, order and fingerprint: each alone decides."""
    assert ("other_conversation", None) == cause(conversation_id="other")
    assert ("policy_version", None) == cause(policy_version="policy-2")
    assert isinstance(problem(subject=replace(SOUND, source_ids=(), source_versions=())), Rejected)
    assert ("source_changed", None) == cause(TURNS, replace(SOUND, source_fingerprint="0" * 64))


def test_R86_compaction_strategy_checked_too() -> None:
    """X13: a summary of other rules of compaction is stale under the same policy."""
    assert ("strategy_version", None) == cause(strategy_version="0")


def test_a9_conversation_switch() -> None:
    """A summary of one conversation is none of another, even over equal turns."""
    assert ("other_conversation", None) == cause(conversation_id="chat-2")


def test_a9_policy_upgrade() -> None:
    """A new policy version makes every summary of the old one stale."""
    assert "policy_version" == cause(policy_version="policy-2")[0]


def test_a9_old_summary_not_current_under_policy_v2() -> None:
    """The summary that stood under version 1 does not under version 2."""
    assert None is problem()
    assert None is not problem(policy_version="policy-2")


def test_another_generation_needs_an_adoption() -> None:
    """X11: a summary of an older generation is stale, and whole where it is judged for adoption."""
    assert ("other_generation", None) == cause(generation=2)
    assert None is problem(generation=None)


def test_R97_text_and_structure_both_required() -> None:
    """Without text, goal, versions or the protected set the summary stands for nothing."""
    lame = (
        {"summary_text": "  "}, {"state": replace(SOUND.state, goal=" ")}, {"source_versions": ()},
        {"protected_fingerprint": None},
    )  # fmt: skip
    for fields in lame:
        found = problem(subject=replace(SOUND, **fields))
        assert isinstance(found, Rejected)
        assert "invalid-summary" == found.reason


def test_a9_blank_summary() -> None:
    """A summary without text is refused as invalid."""
    assert "invalid-summary" == getattr(problem(subject=replace(SOUND, summary_text="")), "reason", None)


def test_R98_constraint_ids_come_from_marks() -> None:
    """A mark of the turns decides what is required, and the ids of state and record agree."""
    bare = replace(SOUND, required_constraint_ids=())
    assert isinstance(problem(subject=bare), Rejected)
    both = replace(bare, state=replace(SOUND.state, constraints=()))
    assert ("constraint_changed", "C1") == cause(TURNS, both)


def test_R99_must_preserve_all_present() -> None:
    """A mark that came to a covered turn later is missing in the summary, which no longer stands."""
    later = swap(3, replace(COVERED[3], must_preserve=(MustPreserve("C2", "Matt."),)))
    assert ("constraint_changed", "C2") == cause(later)


def test_R100_unknown_constraint_id_refused() -> None:
    """X45: an id that is no live mark of the interval is refused, also where it is one elsewhere."""
    elsewhere = swap(4, replace(TURNS[4], must_preserve=(MustPreserve("C9", "Matt."),)))
    extra = StateEntry("Matt.", id="C9")
    subject = replace(
        SOUND, required_constraint_ids=("C1", "C9"),
        state=replace(SOUND.state, constraints=(*SOUND.state.constraints, extra)),
    )  # fmt: skip
    assert ("constraint_changed", "C9") == cause(elsewhere, subject)


def test_a_withdrawn_constraint_makes_its_summary_stale() -> None:
    """X44: a later turn supersedes the mark; the summary that carries it leaves at once."""
    assert ("constraint_changed", "C1") == cause((*TURNS, turn(7, supersedes=("C1",))))


def test_R117_append_only_keeps_summary() -> None:
    """Turns behind the covered ones change nothing, not even protected ones; nor does the revision."""
    assert None is problem((*TURNS, protected(turn(7)), turn(8, "open")))
    assert None is problem(subject=replace(SOUND, source_revision=99))


def test_a9_append_only_keeps_summary() -> None:
    """An appended turn keeps the summary."""
    assert None is problem((*TURNS, turn(9)))


def test_R120_conservative_mode_is_explicit() -> None:
    """Only a frame that names a revision asks for the same one."""
    assert ("other_revision", None) == cause(revision=1)
    assert None is problem(revision=0)


INSIDE = [
    (place, path, changed)
    for place, entry in enumerate(COVERED)
    for path, _, changed in changes(entry)
    # The fields of a skipped turn are no source; its state and protection are tested by name below.
    if place != 1
]


@pytest.mark.parametrize(("place", "path", "changed"), INSIDE)
def test_R206_property_any_field_change_invalidates(place: int, path: str, changed: Turn) -> None:
    """Every single change of a field of a covered turn refuses the summary."""
    assert None is not problem(swap(place, changed), constraints=live(TURNS)), path


@pytest.mark.parametrize(("place", "path", "changed"), INSIDE[:12])
def test_a9_property_any_covered_field_change_invalidates(place: int, path: str, changed: Turn) -> None:
    """A change of any covered field invalidates."""
    assert None is not problem(swap(place, changed), constraints=live(TURNS)), path


def test_R207_append_vs_modify_distinguished() -> None:
    """The same event behind the covered turns and inside them has two outcomes."""
    assert None is problem((*TURNS[:5], with_message(TURNS[5], 0, text="Edited.", version=2)))
    assert ("source_changed", "u1") == cause(swap(0, with_message(COVERED[0], 0, text="Edited.", version=2)))


def test_R118_changed_source_always_refused() -> None:
    """Body, role, protection and order of a source: each change is refused."""
    first = COVERED[0]
    order = with_message(with_message(first, 0, sequence=11), 1, sequence=10)
    for changed in (
        with_message(first, 0, text="Other."), with_message(first, 1, role="user"), protected(first, place=1), order,
    ):  # fmt: skip
        assert isinstance(problem(swap(0, changed)), Staleness)


def test_a9_source_content_changed() -> None:
    """An edited source is named as the cause."""
    assert ("source_changed", "a1") == cause(swap(0, with_message(COVERED[0], 1, text="Other.", version=2)))


def test_a9_body_change_refused() -> None:
    """Even without a new version, other words are seen."""
    assert ("source_changed", None) == cause(swap(0, with_message(COVERED[0], 1, text="Other.")))


def test_a9_role_change_refused() -> None:
    """The same words from somebody else are another source."""
    assert ("source_changed", None) == cause(swap(0, with_message(COVERED[0], 1, role="user")))


def test_a9_protected_bit_change_refused() -> None:
    """A source that became protected is to be shown raw."""
    assert ("protection_changed", "t1") == cause(swap(0, protected(COVERED[0], place=1)))


def test_a9_order_change_refused() -> None:
    """Two sources that changed places are refused."""
    moved = with_message(with_message(COVERED[0], 0, sequence=11), 1, sequence=10)
    assert ("source_changed", None) == cause(swap(0, moved))


def test_R119_changed_protected_set_refused() -> None:
    """X10: protection inside the interval counts, that of a skipped turn too; outside it does not."""
    assert ("protection_changed", "t3") == cause(swap(2, protected(COVERED[2])))
    assert ("protection_changed", "t2") == cause(swap(1, protected(COVERED[1])))
    assert None is problem(swap(4, protected(TURNS[4])))


def test_the_state_of_a_covered_turn_counts() -> None:
    """X53: a withdrawn or reopened source, and a mark on a skipped turn, end the summary."""
    assert ("source_missing", "u3") == cause(swap(2, replace(COVERED[2], state="superseded")))
    assert ("turn_not_completed", "t4") == cause(swap(3, replace(COVERED[3], state="open")))
    marked = replace(COVERED[1], must_preserve=(MustPreserve("C2", "Matt."),))
    assert ("protection_changed", "t2") == cause(swap(1, marked))


def test_a_missing_source_is_named() -> None:
    """R78, R140: a source that left the ledger, one that came, and an interval without turns."""
    short = replace(COVERED[0], messages=COVERED[0].messages[:1])
    assert ("source_missing", "a1") == cause(swap(0, short))
    more = replace(COVERED[0], messages=(*COVERED[0].messages, replace(turn(9).messages[0], sequence=12)))
    assert ("source_added", "u9") == cause(swap(0, more))
    assert ("source_missing", "u1") == cause(TURNS[4:])


def test_R140_deleted_preserved_id_voids_layout() -> None:
    """A deleted covered turn leaves the summary without a source, so its whole layout falls back to raw."""
    assert ("source_missing", "u3") == cause((*TURNS[:2], *TURNS[3:]))


def test_an_open_item_that_changed_makes_a_summary_stale() -> None:
    """X32: another status, a finished and a new item are three changes."""
    last = COVERED[3]
    assert ("source_changed", None) == cause(swap(3, replace(last, open_items=(OpenItem("i1", "blocked"),))))
    assert ("open_item_changed", "i1") == cause(swap(3, replace(last, open_items=(OpenItem("i1", "done"),))))
    added = (*last.open_items, OpenItem("i2", "pending"))
    assert ("open_item_changed", "i2") == cause(swap(3, replace(last, open_items=added)))


def test_a_revoked_citation_of_a_source_makes_a_summary_stale() -> None:
    """X39: a citation that is no longer admitted takes the summary with it; another one does not."""
    assert ("citation_revoked", "src-1") == cause(revoked_citation_ids=frozenset({"src-1"}))
    assert None is problem(revoked_citation_ids=frozenset({"src-2"}))


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"covers_from": 5}, "coverage"), ({"covers_to": 45}, "coverage"), ({"through_sequence": 40}, "coverage"),
        ({"citation_ids": ()}, "citation"), ({"open_items": ("i1", "i2")}, "open item"),
        ({"source_ids": ("u1", *SOUND.source_ids[:-1])}, "twice"),
        ({"source_ids": (), "source_versions": ()}, "source ids are missing"),
        ({"source_ids": ("",), "source_versions": (1,)}, "source ids are missing"),
        ({"source_versions": (1,)}, "source versions"), ({"protected_fingerprint": None}, "protected"),
        ({"confirmed_facts": (ConfirmedFact("f1", "It is so."),)}, "names no source"),
        ({"confirmed_facts": (ConfirmedFact("f1", "It is so.", source_ids=("u5",)),)}, "no source"),
        ({"state": replace(SOUND.state, decisions=(StateEntry("Agreed.", message_ids=("u6",)),))}, "no source"),
        ({"state": replace(SOUND.state, constraints=())}, "constraints"),
    ],
)  # fmt: skip
def test_a_record_that_contradicts_itself_is_refused(fields: dict[str, Any], what: str) -> None:
    """Threats 2.2: a moved border, a foreign source, a fact from nowhere and a lost item never pass."""
    found = problem(subject=replace(SOUND, **fields))
    assert isinstance(found, Rejected), found
    assert "invalid-summary" == found.reason
    assert what in found.detail


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"covers_from": 11}, ("source_missing", "u1")), ({"open_items": ()}, ("open_item_changed", "i1")),
        ({"protected_fingerprint": "0" * 64}, ("protection_changed", None)),
        ({"source_fingerprint": "0" * 64}, ("source_changed", None)),
    ],
)  # fmt: skip
def test_a_record_that_differs_from_its_turns_is_stale(fields: dict[str, Any], wanted: tuple[str, str | None]) -> None:
    """What the record states of its sources is compared with the sources, never believed."""
    found = problem(subject=replace(SOUND, **fields))
    assert isinstance(found, Staleness)
    assert wanted == (found.cause, found.causing_id)


def test_an_interval_of_withdrawn_turns_has_no_source() -> None:
    """When every covered turn was withdrawn nothing is left to stand for."""
    gone = tuple(replace(entry, state="superseded") for entry in COVERED)
    assert ("source_missing", "u1") == cause((*gone, *TURNS[4:]))


def test_an_item_that_a_later_turn_finished_is_not_open() -> None:
    """X32: of one item in two turns of an interval the later state counts."""
    item = OpenItem("i1", "pending")
    done = turn(2, open_items=(OpenItem("i1", "done"),))
    assert {} == unfinished_items((done, turn(1, open_items=(item,))))
    assert {"i1": "pending"} == unfinished_items((turn(3, open_items=(item,)), done))


def test_a_mark_is_in_force_where_it_was_made_last() -> None:
    """A constraint that another turn marks again is that turn's, so the older turn no longer requires it."""
    again = (*TURNS, turn(7, must_preserve=(MustPreserve("C1", "Green."),)))
    assert (Constraint("C1", "t7", "Green."),) == live(again)
    assert ("constraint_changed", "C1") == cause(again)


def test_a_frame_names_the_rules_of_today_by_itself() -> None:
    """The strategy version of a frame is this program's unless somebody says otherwise."""
    assert SOUND.strategy_version == SummaryFrame("chat", 1, "policy-1").strategy_version
