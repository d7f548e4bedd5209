"""Summaries in the store: immutable versions of frozen sources, accepted only while nothing moved on."""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Checked
from planner.values.compaction import Staleness
from planner.values.reasons import PlannerFault
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord
from planner.values.turn import Message, MustPreserve, OpenItem
from tests.ledger.summary_support import (
    ACTIVE,
    CHAT,
    POLICY,
    causes,
    current_ids,
    deliver,
    dump,
    edit,
    fill,
    freeze,
    plan_of,
    recomputed,
    said,
    statuses,
    summary_of,
    summary_state,
    turns_of,
)
from tests.ledger.support import fault


def accepted(ledger: Ledger, summary_id: str, first: int, last: int, **fields: Any) -> SummaryRecord:
    """Freeze a plan of one run and store its summary."""
    record = summary_of(freeze(ledger, f"p-{summary_id}", (f"t{first}", f"t{last}"), **fields), summary_id)
    assert "accepted" == deliver(ledger, record, active=Active(record.policy_version)).status
    return record


def test_R75_envelope_fields(ledger: Ledger) -> None:
    """A stored version reads back with every field it was saved with, its number and its branch."""
    record = accepted(ledger, "s1", 1, 2)
    (found,) = ledger.view(CHAT, active=ACTIVE).summaries
    assert replace(record, branch="main", summary_version=1) == found
    assert {"id", "plan_id", "conversation_id", "source_revision", "source_ids", "source_fingerprint",
            "through_sequence", "policy_version", "summary_text"} <= {one.name for one in fields(found)}  # fmt: skip


def test_R76_every_summary_new_id_immutable(ledger: Ledger, path: Path) -> None:
    """A second version of a coverage has its own id and number, the first stays; no statement changes either."""
    accepted(ledger, "s1", 1, 2)
    accepted(ledger, "s2", 1, 2)
    assert [("s1", 1), ("s2", 2)] == [(one.summary_id, one.summary_version) for one in ledger.summaries(CHAT, ACTIVE)]
    other = summary_of(freeze(ledger, "p3", ("t3", "t4")), "s1")
    assert "duplicate_id" == fault(lambda: deliver(ledger, other))
    connection = ledger._store.connection()
    for statement in (
        "UPDATE summary SET body = '{}'", "UPDATE summary SET status = 'accepted'", "DELETE FROM summary",
        "UPDATE summary_source SET version = 9", "DELETE FROM summary_source",
    ):  # fmt: skip
        with pytest.raises(apsw.ConstraintError):
            connection.execute(statement)


def test_R77_old_versions_kept_within_retention(ledger: Ledger) -> None:
    """Every version stays readable with its words, so that drift between them can be looked at."""
    accepted(ledger, "s1", 1, 2)
    edit(ledger, 1)
    accepted(ledger, "s2", 1, 2)
    accepted(ledger, "s3", 1, 3)
    found = ledger.summaries(CHAT, ACTIVE)
    assert [("s1", "stale"), ("s2", "superseded"), ("s3", "current")] == [(one.summary_id, one.status) for one in found]
    assert ["Goal: s1.", "Goal: s2.", "Goal: s3."] == [one.record.summary_text for one in found if one.record]


def test_R78_no_envelope_without_sources_or_text(ledger: Ledger) -> None:
    """Blank text, no sources, or a planned source the ledger lacks makes no version; stored text is trimmed."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    for broken in ({"summary_text": " \n "}, {"source_ids": (), "source_versions": ()}, {"summary_text": "\ud800"}):
        assert "invalid-summary" == fault(lambda broken=broken: deliver(ledger, summary_of(plan, **broken)))  # type: ignore[misc]
    run = replace(plan.runs[0], source_ids=("u1", "a1", "u2", "gone"))
    absent = ledger.save_plan(replace(plan, plan_id="p2", runs=(run,)), replace=True)
    saved = deliver(ledger, summary_of(absent))
    assert ("stale-source", "source_missing", "gone") == (saved.status, saved.cause, saved.causing_id)
    assert [] == current_ids(ledger)
    last = freeze(ledger, "p3", ("t1", "t2"))
    deliver(ledger, summary_of(last, "s3", summary_text="  Goal: ask.\n"))
    assert "Goal: ask." == ledger.view(CHAT, active=ACTIVE).summaries[0].summary_text


def test_R81_the_same_ledger_gives_the_same_fingerprint_after_reopening(path: Path) -> None:
    """R81: sources frozen, closed and read again have the fingerprint they had."""
    with Ledger.open(path) as ledger:
        fill(ledger, 1, 2, 3)
        before = plan_of(ledger, "p1", ("t1", "t2"))
    with Ledger.open(path) as ledger:
        assert before == plan_of(ledger, "p1", ("t1", "t2"))


def test_what_later_plans_would_refuse_is_not_stored(ledger: Ledger) -> None:
    """A record that is no valid input of a plan would keep the whole conversation from being planned."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    state = summary_of(plan).state
    for broken in (
        {"state": replace(state, goal_from="no id")},
        {"state": replace(state, questions=(StateEntry("Why?", id="no id"),))},
        {"confirmed_facts": (ConfirmedFact("d1", "x", fact_key="no id"),)}, {"summariser_bundle": "no id"},
    ):  # fmt: skip
        assert "invalid-summary" == fault(lambda broken=broken: deliver(ledger, summary_of(plan, **broken)))  # type: ignore[misc]
    assert [] == list(ledger.summaries(CHAT, ACTIVE))


def test_R84_the_store_compares_sources_by_position(ledger: Ledger) -> None:
    """R84: the same ids in another order, or with other versions, are no summary of the run."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    for broken in (
        {"source_ids": ("a1", "u1", "u2", "a2")}, {"source_ids": ("u1", "a1", "u2")[:3], "source_versions": (1, 1, 1)},
        {"source_ids": ("u1", "a1"), "source_versions": (1, 1), "source_fingerprint": "0" * 64, "covers_to": 1},
        {"source_versions": (1, 1, 2, 1)}, {"source_fingerprint": "0" * 64}, {"protected_fingerprint": "0" * 64},
        {"covers_from": 99, "covers_to": 99}, {"covers_to": 99}, {"open_items": ("i1",)}, {"citation_ids": ("c1",)},
    ):  # fmt: skip
        assert "invalid-summary" == fault(lambda broken=broken: deliver(ledger, summary_of(plan, **broken)))  # type: ignore[misc]
    assert [] == list(ledger.summaries(CHAT, ACTIVE))


def test_R85_a_current_summary_meets_every_condition(ledger: Ledger) -> None:
    """R85: each condition broken alone takes the summary out of the view, and the view says which."""
    accepted(ledger, "s1", 1, 2)
    assert (["s1"], {}) == (current_ids(ledger), causes(ledger))
    assert {"s1": ("policy_version", None)} == causes(ledger, active=Active("policy-2"))
    assert {"s1": ("strategy_version", None)} == causes(ledger, active=Active(POLICY, "0"))
    edit(ledger, 2)
    assert ([], {"s1": ("source_changed", "u2")}) == (current_ids(ledger), causes(ledger))


def test_R86_a_save_needs_the_active_policy_and_strategy(ledger: Ledger) -> None:
    """R86, X13: a version made under another policy or strategy than the active one comes too late."""
    for number, (active, cause) in enumerate(
        ((Active("policy-2"), "policy_version"), (Active(POLICY, "2"), "strategy_version"))
    ):
        record = summary_of(freeze(ledger, f"p{number}", ("t1", "t2")), f"s{number}")
        saved = deliver(ledger, record, active=active)
        assert ("stale-source", cause) == (saved.status, saved.cause)
    assert [] == current_ids(ledger)


def test_a9_conversation_switch(ledger: Ledger) -> None:
    """A summary stays with its conversation: another one neither shows it nor takes it."""
    ledger.append("c2", "x1", (Message("user", "xu", "Hello?"), Message("assistant", "xa", "Yes.")), state="completed")
    accepted(ledger, "s1", 1, 2)
    assert ([], ["s1"]) == (current_ids(ledger, "c2"), current_ids(ledger))
    ledger.new_generation("c2")
    assert ["s1"] == current_ids(ledger)


def test_a9_accept_refuses_changed_conversation(ledger: Ledger) -> None:
    """A record sent to another conversation finds neither its plan nor its sources there."""
    ledger.append("c2", "x1", (Message("user", "xu", "Hello?"), Message("assistant", "xa", "Yes.")), state="completed")
    record = replace(summary_of(freeze(ledger, "p1", ("t1", "t2"))), conversation_id="c2")
    saved = deliver(ledger, record)
    assert ("stale-source", "plan_inactive") == (saved.status, saved.cause)
    assert "conversation_not_found" == fault(
        lambda: ledger.save_summary(replace(record, conversation_id="c3"), "p1", Checked(0, ACTIVE))
    )
    assert [] == current_ids(ledger, "c2")


def test_R113_reread_after_generation(ledger: Ledger) -> None:
    """The save reads the ledger again: what changed behind the caller's snapshot refuses the summary."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    snapshot = ledger.head(CHAT).event
    edit(ledger, 2)
    saved = deliver(ledger, record, event=snapshot)
    assert ("stale-source", "source_changed", "u2") == (saved.status, saved.cause, saved.causing_id)


def test_a_caller_that_did_not_verify_again_is_caught_by_the_frozen_plan(ledger: Ledger) -> None:
    """A snapshot that is newer than the edit vouches for nothing: the fingerprint was frozen before it."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    edit(ledger, 2)
    assert "source_changed" == deliver(ledger, record, event=ledger.head(CHAT).event).cause


def test_R114_accept_reasons(ledger: Ledger) -> None:
    """No text: invalid-summary. A plan that is not active, or sources that moved: stale-source. Else accepted."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    assert "invalid-summary" == fault(lambda: deliver(ledger, summary_of(plan, summary_text="")))
    freeze(ledger, "p2", ("t1", "t2"))
    saved = deliver(ledger, summary_of(plan))
    assert ("stale-source", "plan_inactive", "p2") == (saved.status, saved.cause, saved.causing_id)
    unknown = deliver(ledger, replace(summary_of(plan, "s9"), plan_id="never-saved"))
    assert ("stale-source", "plan_inactive") == (unknown.status, unknown.cause)
    assert "accepted" == deliver(ledger, summary_of(plan_of(ledger, "p2", ("t1", "t2")), "s2")).status


def test_R115_last_finisher_does_not_win(ledger: Ledger) -> None:
    """Of two jobs over the same sources the active plan's wins, whichever comes last."""
    slow = summary_of(freeze(ledger, "p1", ("t1", "t2")), "slow")
    quick = summary_of(freeze(ledger, "p2", ("t1", "t2")), "quick")
    assert "accepted" == deliver(ledger, quick).status
    assert "stale-source" == deliver(ledger, slow).status
    assert ["quick"] == current_ids(ledger)
    second = deliver(ledger, replace(quick, id="again"))
    assert ("duplicate", "quick") == (second.status, second.summary_id)


def test_R116_stale_result_kept_for_diagnosis_only(ledger: Ledger, path: Path) -> None:
    """A late version is on record with cause and diagnostics, without its words, and in no view."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")), "s1", summary_text="Goal: SECRET-CANARY.")
    edit(ledger, 1)
    notes = {"runs": 1, "codes": ["goal_missing", "two words SECRET-CANARY"], "why": "SECRET-CANARY said it"}
    saved = ledger.save_summary(record, "p1", Checked(ledger.head(CHAT).event, ACTIVE), notes)
    assert "stale-source" == saved.status
    (found,) = ledger.summaries(CHAT, ACTIVE)
    assert ("stale", Staleness("s1", "source_changed", "u1", (0, 2)), None) == (
        found.status, found.staleness, found.record,
    )  # fmt: skip
    assert {"runs": 1, "codes": ["goal_missing"], "leftOut": 2} == found.diagnostics
    assert ([], {}) == (current_ids(ledger), causes(ledger))
    stored = [row for name, rows in dump(path).items() if name != "message" for row in rows]
    assert "SECRET-CANARY" not in repr(stored)
    assert saved == deliver(ledger, record)
    assert 1 == len(ledger.summaries(CHAT, ACTIVE))


def test_R117_appends_reach_no_summary_in_the_store(ledger: Ledger) -> None:
    """R117: turns behind the covered ones neither refuse a save nor end a summary, whatever the revision."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    snapshot = ledger.head(CHAT).event
    fill(ledger, 6)
    ledger.append(CHAT, "t7", said(7)[:1])
    assert "accepted" == deliver(ledger, record, event=snapshot).status
    ledger.append(CHAT, "t7", said(7)[1:], state="completed")
    edit(ledger, 6)
    assert ["s1"] == current_ids(ledger)
    assert ledger.head(CHAT).revision > record.source_revision


CHANGES = {
    "edit": lambda ledger: edit(ledger, 2),
    "protect": lambda ledger: ledger.protect(CHAT, "a2", "audit-evidence"),
    "withdraw": lambda ledger: ledger.withdraw(CHAT, "t2"),
    "mark": lambda ledger: ledger.mark(CHAT, "t2", (MustPreserve("C1", "Only read."),)),
    "item": lambda ledger: ledger.set_item(CHAT, "t2", OpenItem("i1", "pending")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_R118_a_changed_source_is_refused_by_the_store(ledger: Ledger, change: str, when: str) -> None:
    """R118, R119: each kind of change refuses a save that is under way and ends a summary that is stored."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t3")))
    if when == "before":
        CHANGES[change](ledger)
        assert "stale-source" == deliver(ledger, record).status
    else:
        assert "accepted" == deliver(ledger, record).status
        CHANGES[change](ledger)
        assert ["s1"] == list(causes(ledger))
    assert ([], False) == (current_ids(ledger), recomputed(ledger, record))


def test_R119_a_protection_outside_the_interval_is_no_change(ledger: Ledger) -> None:
    """X10: protection is compared inside the interval only."""
    accepted(ledger, "s1", 1, 2)
    ledger.protect(CHAT, "u3", "pending-confirmation")
    assert ["s1"] == current_ids(ledger)


def test_R121_the_index_names_every_source(ledger: Ledger, path: Path) -> None:
    """R121: an accepted version has one index row for each source, a late one has none."""
    accepted(ledger, "s1", 1, 2)
    late = summary_of(freeze(ledger, "p2", ("t3", "t4")), "s2")
    edit(ledger, 3)
    deliver(ledger, late)
    assert [("s1", 0, "u1", 0, 1, 0), ("s1", 1, "a1", 1, 1, 0), ("s1", 2, "u2", 2, 1, 2), ("s1", 3, "a2", 3, 1, 2)] == (
        summary_state(path)["sources"]
    )


def test_R122_ledger_and_summary_separate_transactions(ledger: Ledger) -> None:
    """An append is through while a check still holds its snapshot, and stays when the save fails that follows."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    checking, appended, seen = threading.Event(), threading.Event(), []

    def check_slowly() -> None:
        with ledger._store.read("check"):
            seen.append(ledger.head(CHAT).event)
            checking.set()
            assert appended.wait(5), "the append waited for the check"
            assert ledger.head(CHAT).event == seen[0], "the check lost its snapshot"
            seen.append(recomputed(ledger, record))

    worker = threading.Thread(target=check_slowly)
    worker.start()
    assert checking.wait(5)
    fill(ledger, 6)
    appended.set()
    worker.join()
    assert True is seen[1]

    def fail(name: str) -> None:
        if name == "before_commit":
            raise PlannerFault("ledger_full", "test")

    ledger._store.fail = fail
    assert "failed" == deliver(ledger, record, event=seen[0]).status
    ledger._store.fail = lambda _: None
    assert ["t1", "t2", "t3", "t4", "t5", "t6"] == [turn.id for turn in turns_of(ledger)]
    assert "accepted" == deliver(ledger, record, event=seen[0]).status


def test_a_save_behind_a_writer_that_does_not_end_is_failed_and_not_noted(ledger: Ledger) -> None:
    """P8: `ledger_busy` after one wait; nothing was written and the same record can be saved later."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))

    def busy(name: str) -> None:
        if name == "before_begin":
            raise PlannerFault("ledger_busy", "test")

    calls: list[str] = []
    ledger._store.fail = lambda name: (calls.append(name), busy(name))[1]
    saved = deliver(ledger, record)
    ledger._store.fail = lambda _: None
    assert ("failed", "ledger_busy", ["before_begin"]) == (saved.status, saved.cause, calls)
    assert () == ledger.summaries(CHAT, ACTIVE)
    assert "accepted" == deliver(ledger, record).status


def test_a_save_holds_no_more_than_index_work_inside_its_write(ledger: Ledger, path: Path) -> None:
    """R122: between BEGIN and COMMIT no message body is read, so an append waits for no text of the sources."""
    record = summary_of(freeze(ledger, "p1", ("t1", "t5")))
    connection, read = ledger._store.connection(), []

    def seen(action: int, table: str | None, column: str | None, _: str | None, __: str | None) -> int:
        if action == apsw.SQLITE_READ and table == "message" and connection.in_transaction:
            read.append(column)
        return apsw.SQLITE_OK

    connection.authorizer = seen
    assert "accepted" == deliver(ledger, record).status
    connection.authorizer = None
    assert "body" not in read


def test_R125_caller_sees_id_and_projection_only(ledger: Ledger) -> None:
    """What comes out is frozen values: no rows, no handles, and no words in what is printed."""
    accepted(ledger, "s1", 1, 2)
    (found,) = ledger.summaries(CHAT, ACTIVE)
    for value in (found, *ledger.view(CHAT, active=ACTIVE).summaries):
        assert "Goal" not in repr(value)
        with pytest.raises(AttributeError):
            value.branch = "other"  # type: ignore[misc]
    modules = {type(getattr(found, one.name)).__module__.split(".")[0] for one in fields(found)}
    assert {"builtins", "planner"} == modules


def test_R126_a_ledger_open_for_reading_takes_no_summary(ledger: Ledger, path: Path) -> None:
    """R126: read-only compaction may look at everything and changes nothing."""
    record = accepted(ledger, "s1", 1, 2)
    plan = plan_of(ledger, "p2", ("t3", "t4"))
    before = dump(path)
    with Ledger.open(path, read_only=True) as trial:
        assert ["s1"] == current_ids(trial)
        assert [("s1", "current")] == statuses(trial)
        for call in (
            lambda: trial.save_plan(plan),
            lambda: deliver(trial, record),
            lambda: trial.invalidate(CHAT, [Staleness("s1", "source_changed")]),
            lambda: trial.readopt(CHAT, "s1", "s2", Checked(0, ACTIVE)),
        ):
            assert "ledger_read_only" == fault(call)
    assert before == dump(path)


def test_R2_no_summary_changes_a_row_of_the_conversation(ledger: Ledger, path: Path) -> None:
    """R1, R2: success, lateness and failure of a compaction leave every row of the conversation as it was."""
    names = ("conversation", "branch", "generation", "message", "turn", "mark", "touch", "part")
    before = {name: dump(path)[name] for name in names}
    accepted(ledger, "s1", 1, 2)
    late = summary_of(freeze(ledger, "p2", ("t3", "t4")), "s2")
    freeze(ledger, "p3", ("t3", "t4"))
    deliver(ledger, late)
    ledger.invalidate(CHAT, [Staleness("s1", "policy_version")])
    assert before == {name: dump(path)[name] for name in names}
    assert 5 == ledger.head(CHAT).revision


def test_R3_ledger_and_summaries_stored_apart(ledger: Ledger, path: Path) -> None:
    """Originals stand in `message`, derived text in `summary`; neither table holds a word of the other."""
    accepted(ledger, "s1", 1, 2)
    tables = dump(path)
    assert "Question 1?" in repr(tables["message"])
    assert "Goal: s1." in repr(tables["summary"])
    assert "Goal: s1." not in repr({name: rows for name, rows in tables.items() if name != "summary"})
    assert "Question" not in repr({name: rows for name, rows in tables.items() if name != "message"})


test_a10_ledger_and_summary_stored_apart = test_R3_ledger_and_summaries_stored_apart


def test_R153_no_string_replace_in_summary(ledger: Ledger) -> None:
    """A withdrawn constraint ends the summary that holds it; its words stay as written, a new version replaces it."""
    ledger.mark(CHAT, "t1", (MustPreserve("C1", "Only read."),))
    record = accepted(ledger, "s1", 1, 2)
    ledger.supersede(CHAT, "t5", ("C1",))
    assert {"s1": ("constraint_changed", "C1")} == causes(ledger)
    rebuilt = accepted(ledger, "s2", 1, 2)
    assert ((), ("C1",)) == (rebuilt.required_constraint_ids, record.required_constraint_ids)
    old, new = ledger.summaries(CHAT, ACTIVE)
    assert ("Goal: s1.", ["s2"]) == (old.record and old.record.summary_text, current_ids(ledger))
    assert (1, 2) == (old.summary_version, new.summary_version)


def test_R154_old_coverage_and_invalidation_receipt(ledger: Ledger) -> None:
    """One receipt a summary keeps cause, causing id and coverage; it changes neither conversation nor view."""
    accepted(ledger, "s1", 1, 2)
    edit(ledger, 2)
    stale = ledger.view(CHAT, active=ACTIVE).stale
    before = ledger.head(CHAT).revision
    assert [1, 0, 0] == [ledger.invalidate(CHAT, stale) for _ in range(3)]
    (receipt,) = ledger.invalidations(CHAT)
    assert (Staleness("s1", "source_changed", "u2", (0, 2)), "main") == (receipt.staleness, receipt.branch)
    assert before == ledger.head(CHAT).revision
    assert stale == ledger.view(CHAT, active=ACTIVE).stale
    assert "conversation_not_found" == fault(lambda: ledger.invalidate(CHAT, [Staleness("s9", "policy_version")]))


def test_planning_writes_nothing(ledger: Ledger, path: Path) -> None:
    """P5: reading a view and the list of versions, stale ones among them, leaves the file as it is."""
    accepted(ledger, "s1", 1, 2)
    edit(ledger, 1)
    before = dump(path)
    ledger.view(CHAT, active=ACTIVE)
    ledger.summaries(CHAT, ACTIVE)
    assert before == dump(path)


def test_a_wider_current_summary_keeps_the_pointer(ledger: Ledger, path: Path) -> None:
    """X51: a narrower version is stored and superseded at once; the coverage of the pointer does not go back."""
    accepted(ledger, "wide", 1, 4)
    accepted(ledger, "narrow", 2, 3)
    assert (["wide"], [(1, 0, 6, "wide")]) == (current_ids(ledger), summary_state(path)["pointers"])
    edit(ledger, 4)
    assert ["narrow"] == current_ids(ledger), "the widest that is valid"


def test_a_replaced_summary_that_still_stands_gets_the_pointer_back(ledger: Ledger, path: Path) -> None:
    """Where the wider one is stale and a narrow one takes its place, what it had replaced is current and named."""
    accepted(ledger, "left", 1, 2)
    accepted(ledger, "wide", 2, 4)
    edit(ledger, 4)
    accepted(ledger, "right", 4, 4)
    assert ["left", "right"] == current_ids(ledger)
    assert [(1, 0, 2, "left"), (1, 6, 6, "right")] == summary_state(path)["pointers"]
    edit(ledger, 1)
    assert ["left"] == list(causes(ledger)), "and its reader is told when it ends"
    assert () == ledger.verify().problems


def test_a_damaged_summary_is_never_planned_with(ledger: Ledger, path: Path) -> None:
    """P6: a changed body is found by its digest when it is read."""
    accepted(ledger, "s1", 1, 2)
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER summary_stays")
    connection.execute("UPDATE summary SET body = replace(body, 'Goal: s1', 'Goal: s2')")
    connection.close()
    assert "ledger_corrupt" == fault(lambda: ledger.view(CHAT, active=ACTIVE))
