"""Compaction plans in the store, and what older generations and ancestor branches leave to a new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planner.ledger import branches
from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Checked
from planner.values.compaction import Rejected
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
    statuses,
    summary_of,
    turns_of,
)
from tests.ledger.support import fault


def adoptions(path: Path) -> int:
    """Count the recorded adoptions."""
    return len(dump(path)["adoption"])


def test_a_plan_reads_back_as_it_was_frozen(ledger: Ledger, path: Path) -> None:
    """Every field of a plan survives, in another process too; the active one is the last that was frozen."""
    ledger.append(CHAT, "t6", (Message("user", "u6", "Stop."),))
    ledger.cancel(CHAT, "t6", actor="user")
    fill(ledger, 7)
    first, second = freeze(ledger, "p1", ("t1", "t2"), ("t4", "t7")), freeze(ledger, "p2", ("t1", "t2"))
    assert 1 == len(first.runs[1].skipped)
    with Ledger.open(path, read_only=True) as other:
        assert (second, first, None) == (
            other.active_plan(CHAT), other.compaction_plan(CHAT, "p1"), other.compaction_plan(CHAT, "p9"),
        )  # fmt: skip


def test_an_unfinished_plan_is_returned_again(ledger: Ledger) -> None:
    """X51: one active plan; another one is taken with replace, or once the sources moved or the plan is finished."""
    first = freeze(ledger, "p1", ("t1", "t2"), ("t3", "t4"))
    again = ledger.save_plan(plan_of(ledger, "p2", ("t1", "t4")))
    assert ("p1", None) == (again.plan_id, ledger.compaction_plan(CHAT, "p2"))
    deliver(ledger, summary_of(first, "s1"))
    assert "p1" == ledger.save_plan(plan_of(ledger, "p2", ("t3", "t4"))).plan_id
    deliver(ledger, summary_of(first, "s2", 1))
    assert "p2" == ledger.save_plan(plan_of(ledger, "p2", ("t1", "t4"))).plan_id
    edit(ledger, 3)
    assert "p3" == ledger.save_plan(plan_of(ledger, "p3", ("t1", "t4"))).plan_id
    assert "p4" == ledger.save_plan(plan_of(ledger, "p4", ("t1", "t2")), replace=True).plan_id


def test_a_plan_whose_run_was_turned_away_twice_is_finished(ledger: Ledger) -> None:
    """One retry: then the run is left raw and another plan may begin, without replace."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    turned_away = Rejected("invalid-summary", "goal is blank", ("u1", "a word the model made up"))
    assert 1 == ledger.record_rejection(CHAT, "p1", 0, turned_away)
    assert "p1" == ledger.save_plan(plan_of(ledger, "p2", ("t1", "t2"))).plan_id
    assert 2 == ledger.record_rejection(CHAT, "p1", 0, turned_away)
    assert 2 == ledger.rejections(CHAT, plan.runs[0].source_fingerprint)
    assert "p2" == ledger.save_plan(plan_of(ledger, "p2", ("t1", "t2"))).plan_id
    assert 0 == ledger.rejections(CHAT, "0" * 64)


def test_a_rejection_keeps_only_ids_that_its_run_knows(ledger: Ledger, path: Path) -> None:
    """R188: an id that a model made up may be any text, so it is not kept."""
    freeze(ledger, "p1", ("t1", "t2"))
    ledger.record_rejection(CHAT, "p1", 0, Rejected("invalid-summary", "unknown constraint", ("C-secret", "u1")))
    (row,) = dump(path)["rejection"]
    assert '["u1"]' in row
    assert "secret" not in repr(row)
    assert "conversation_not_found" == fault(
        lambda: ledger.record_rejection(CHAT, "p9", 0, Rejected("invalid-summary", ""))
    )
    assert "invalid-input" == fault(lambda: ledger.record_rejection(CHAT, "p1", 1, Rejected("invalid-summary", "")))


def test_the_same_plan_again_is_a_no_op(ledger: Ledger, path: Path) -> None:
    """A repeated save changes nothing; another plan under the id, or one that was replaced, is refused."""
    plan = freeze(ledger, "p1", ("t1", "t2"))
    before = dump(path)
    assert plan == ledger.save_plan(plan, replace=True) == ledger.save_plan(plan)
    assert before == dump(path)
    assert "duplicate_id" == fault(lambda: ledger.save_plan(replace(plan, preserved_ids=()), replace=True))
    freeze(ledger, "p2", ("t1", "t2"))
    assert "duplicate_id" == fault(lambda: ledger.save_plan(plan, replace=True))


def test_R72_an_empty_plan_is_not_stored(ledger: Ledger) -> None:
    """R72: a plan without runs, with overlapping ones or with an id that is none starts nothing."""
    plan = plan_of(ledger, "p1", ("t1", "t2"), ("t3", "t4"))
    for broken in (
        replace(plan, runs=()), replace(plan, runs=plan.runs[::-1]), replace(plan, runs=plan.runs[:1] * 2),
        replace(plan, plan_id=" "), replace(plan, policy_version=""), replace(plan, branch="b2"),
        replace(plan, event=10**6), replace(plan, runs=(replace(plan.runs[0], source_ids=()),)),
    ):  # fmt: skip
        assert "invalid-input" == fault(lambda broken=broken: ledger.save_plan(broken))  # type: ignore[misc]
    assert ledger.active_plan(CHAT) is None


def test_R55_old_generation_results_refused_for_plans(ledger: Ledger) -> None:
    """R53, R55: a plan of an older generation is not written, and one that is active ends with its generation."""
    old = plan_of(ledger, "p1", ("t1", "t2"))
    unfinished = freeze(ledger, "p0", ("t1", "t2"))
    assert 2 == ledger.new_generation(CHAT)
    assert "stale_generation" == fault(lambda: ledger.save_plan(old))
    saved = deliver(ledger, summary_of(unfinished))
    assert ("stale-source", "other_generation") == (saved.status, saved.cause)
    assert "p2" == ledger.save_plan(plan_of(ledger, "p2", ("t1", "t2"))).plan_id


def test_a_page_switch_keeps_summaries_and_records_their_adoption(ledger: Ledger, path: Path) -> None:
    """X11 as amended: untouched, it is usable at once under the new generation; the next plan records it, once."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    ledger.new_generation(CHAT)
    view = ledger.view(CHAT, active=ACTIVE)
    assert [("s1", 2)] == [(one.id, one.source_generation) for one in view.summaries]
    assert 0 == adoptions(path)
    freeze(ledger, "p2", ("t3", "t4"))
    freeze(ledger, "p3", ("t3", "t4"))
    assert 1 == adoptions(path)
    assert 0 == ledger.adopt_current(CHAT, ACTIVE)


def test_an_ancestor_summary_is_used_up_to_the_branch_point(ledger: Ledger, path: Path) -> None:
    """X11: one that ends before the branch is usable at once; one that reaches over it, or came later, is not."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    ledger.branch(CHAT, "b2", at_turn_id="t3")
    deliver(ledger, summary_of(freeze(ledger, "p2", ("t3", "t4")), "s2"))
    ledger.switch(CHAT, "b2")
    assert ["s1"] == current_ids(ledger)
    assert 1 == ledger.adopt_current(CHAT, ACTIVE)
    assert 1 == adoptions(path)
    edit(ledger, 1)
    assert ([], {"s1": ("source_changed", "u1")}) == (current_ids(ledger), causes(ledger))
    ledger.switch(CHAT, "main")
    assert ["s1", "s2"] == current_ids(ledger), "an edit in a branch is none of the parent's"


@pytest.mark.parametrize("later", ["mark", "supersede"])
def test_a_branch_before_the_turn_that_took_a_constraint_over_has_it_back(ledger: Ledger, later: str) -> None:
    """A summary of the parent lacks what its turn carries again in the branch, so it does not stand there."""
    ledger.mark(CHAT, "t1", [MustPreserve("C1", "Only read.")])
    if later == "mark":
        ledger.mark(CHAT, "t4", [MustPreserve("C1", "Only read.")])
    else:
        ledger.supersede(CHAT, "t4", ["C1"])
    record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    assert () == record.required_constraint_ids
    deliver(ledger, record)
    ledger.branch(CHAT, "early", at_turn_id="t3")
    ledger.branch(CHAT, "late", at_turn_id="t4")
    ledger.switch(CHAT, "early")
    assert not recomputed(ledger, record)
    assert ([], {"s1": ("constraint_changed", "C1")}) == (current_ids(ledger), causes(ledger))
    for name in ("late", "main"):
        ledger.switch(CHAT, name)
        assert ["s1"] == current_ids(ledger)
    assert () == ledger.verify().problems


def test_a_branch_that_touched_nothing_is_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its touch a summary that lacks a constraint would look current: the check of the ledger says so."""
    monkeypatch.setattr(branches, "gained_carriers", lambda *_: [])
    ledger.mark(CHAT, "t1", [MustPreserve("C1", "Only read.")])
    ledger.mark(CHAT, "t4", [MustPreserve("C1", "Only read.")])
    done = ledger.branch(CHAT, "early", at_turn_id="t3")
    assert [("ledger_corrupt", f"event {(done.at_event or 0) + 1} touched nothing")] == list(ledger.verify().problems)


@pytest.mark.parametrize("change", ["mark", "withdraw", "supersede"])
def test_what_an_earlier_turn_says_of_an_overtaken_constraint_changes_no_later_summary(
    ledger: Ledger, change: str
) -> None:
    """R117: the turn that marked last carries a constraint; what happens to the mark of an earlier one is no news."""
    ledger.mark(CHAT, "t1", [MustPreserve("C1", "Only read.")])
    ledger.mark(CHAT, "t3", [MustPreserve("C1", "Only read.")])
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t3", "t4"))))
    if change == "mark":
        ledger.mark(CHAT, "t2", [MustPreserve("C1", "Only read.")])
    elif change == "supersede":
        ledger.supersede(CHAT, "t2", ["C1"])
    else:
        ledger.withdraw(CHAT, "t1")
    assert ["s1"] == current_ids(ledger)
    assert () == ledger.verify().problems


def test_an_edit_of_the_parent_after_the_branch_does_not_reach_it(ledger: Ledger) -> None:
    """R61: the branch reads the sources as they were, so their summary stands there and nowhere else."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    ledger.branch(CHAT, "b2", at_turn_id="t3")
    edit(ledger, 2)
    assert [] == current_ids(ledger)
    deliver(ledger, summary_of(freeze(ledger, "p2", ("t1", "t2")), "s2"))
    ledger.switch(CHAT, "b2")
    assert ["s1"] == current_ids(ledger)


def test_R54_a_readopted_summary_is_a_new_version(ledger: Ledger) -> None:
    """X11: verified again in full, an older one becomes a version of this generation; again is a duplicate."""
    first = summary_of(freeze(ledger, "p1", ("t1", "t2")))
    deliver(ledger, first)
    ledger.new_generation(CHAT)
    checked = Checked(ledger.head(CHAT).event, ACTIVE)
    saved = ledger.readopt(CHAT, "s1", "s2", checked)
    assert ("accepted", "s2", 2) == (saved.status, saved.summary_id, saved.summary_version)
    again = ledger.readopt(CHAT, "s1", "s3", checked)
    assert ("duplicate", "s2") == (again.status, again.summary_id)
    old, new = ledger.summaries(CHAT, ACTIVE)
    assert (("superseded", 1, None), ("current", 2, "s1")) == (
        (old.status, old.generation, old.adopted_from), (new.status, new.generation, new.adopted_from),
    )  # fmt: skip
    assert new.record is not None
    assert (first.summary_text, first.source_fingerprint) == (new.record.summary_text, new.record.source_fingerprint)


def test_a_readoption_that_comes_too_late_writes_nothing(ledger: Ledger, path: Path) -> None:
    """What changed after the verification, another policy, another branch: stale-source and no row."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t3", "t4"))))
    ledger.new_generation(CHAT)
    checked = Checked(ledger.head(CHAT).event, ACTIVE)
    assert "policy_version" == ledger.readopt(CHAT, "s1", "s2", replace(checked, active=Active("policy-2"))).cause
    edit(ledger, 3)
    before = dump(path)
    late = ledger.readopt(CHAT, "s1", "s2", checked)
    assert ("stale-source", "source_changed", "u3") == (late.status, late.cause, late.causing_id)
    assert before == dump(path)
    ledger.branch(CHAT, "b2", at_turn_id="t3")
    ledger.switch(CHAT, "b2")
    assert "other_branch" == ledger.readopt(CHAT, "s1", "s2", replace(checked, event=ledger.head(CHAT).event)).cause
    assert "conversation_not_found" == fault(lambda: ledger.readopt(CHAT, "s9", "s2", checked))


def test_a_reverified_summary_of_a_way_back_is_usable_again(ledger: Ledger) -> None:
    """Readopting is how a summary comes back that the index is stricter about than recomputation."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    ledger.set_item(CHAT, "t1", OpenItem("i1", "done"))
    assert [] == current_ids(ledger)
    ledger.new_generation(CHAT)
    saved = ledger.readopt(CHAT, "s1", "s2", Checked(ledger.head(CHAT).event, ACTIVE))
    assert ("accepted", ["s2"]) == (saved.status, current_ids(ledger))
    assert [("s1", "stale"), ("s2", "current")] == statuses(ledger)


def test_R146_a_summary_of_purged_turns_is_the_declared_border(ledger: Ledger) -> None:
    """X41: purged as a whole its turns leave it usable; half purged it is stale, and nothing merges it."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"), ("t3", "t4"))))
    plan = ledger.active_plan(CHAT)
    assert plan is not None
    deliver(ledger, summary_of(plan, "s2", 1))
    ledger.retain(CHAT, turns_of(ledger)[2].sequence, "policy-30-days")
    view = ledger.view(CHAT, active=ACTIVE)
    assert (["s1", "s2"], 2) == ([one.id for one in view.summaries], view.boundary)
    ledger.retain(CHAT, turns_of(ledger)[1].sequence, "policy-30-days")
    assert (["s1"], {"s2": ("source_missing", "t3")}) == (current_ids(ledger), causes(ledger))


def test_R140_a_purged_preserved_message_voids_the_layout_of_its_plan(ledger: Ledger) -> None:
    """R140: a message that the plan kept raw, purged with no summary for it, takes the plan's summaries along."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    ledger.retain(CHAT, turns_of(ledger)[3].sequence, "policy-30-days")
    assert ([], {"s1": ("preserved_missing", "u3")}) == (current_ids(ledger), causes(ledger))


def test_a_preserved_message_that_was_summarised_since_is_no_loss(ledger: Ledger) -> None:
    """X7: the frozen list finds deleted messages; one that another summary stands for is not deleted from view."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    deliver(ledger, summary_of(freeze(ledger, "p2", ("t3", "t4")), "s2"))
    ledger.retain(CHAT, turns_of(ledger)[4].sequence, "policy-30-days")
    assert (["s1", "s2"], {}) == (current_ids(ledger), causes(ledger))


def test_another_policy_and_back(ledger: Ledger) -> None:
    """A summary of each policy version stands under its own version; switching back needs no new summary."""
    deliver(ledger, summary_of(freeze(ledger, "p1", ("t1", "t2"))))
    second = Active("policy-2")
    deliver(ledger, summary_of(freeze(ledger, "p2", ("t1", "t2"), policy="policy-2"), "s2"), active=second)
    assert (["s2"], ["s1"]) == (current_ids(ledger, active=second), current_ids(ledger, active=Active(POLICY)))


def test_verify_finds_nothing_wrong_after_all_of_this(ledger: Ledger) -> None:
    """Plans, versions of every status, adoptions, receipts of invalidation and rejections are sound facts."""
    plan = freeze(ledger, "p1", ("t1", "t2"), ("t3", "t4"))
    deliver(ledger, summary_of(plan))
    edit(ledger, 3)
    assert "stale-source" == deliver(ledger, summary_of(plan, "s2", 1)).status
    ledger.record_rejection(CHAT, "p1", 1, Rejected("invalid-summary", "goal is blank"))
    edit(ledger, 1)
    ledger.invalidate(CHAT, ledger.view(CHAT, active=ACTIVE).stale)
    ledger.new_generation(CHAT)
    freeze(ledger, "p2", ("t1", "t2"))
    assert () == ledger.verify().problems
