"""Summaries of a lifecycle script: verified and frozen on one snapshot, stored on it or on a later one (R113, R116)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Checked
from planner.values.check_summary import SummaryFrame, inside_of, run_of, summary_problem
from planner.values.compaction import CompactionPlan, Rejected, Staleness
from planner.values.reasons import RefusalSignal
from planner.values.summary import SummaryRecord
from planner.values.view import View

OUTCOMES = ("accepted", "stale-source", "invalid-summary")
"""How storing a summary may end."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A summary that was asked for: the record, what it was verified on, and why it may not stand, None if it may."""

    record: SummaryRecord
    checked: Checked
    problem: Staleness | Rejected | None


def ask(ledger: Ledger, conversation_id: str, record: SummaryRecord) -> Asked:
    """Freeze the plan of one summary and verify it on the ledger as it is now, as compaction does before it stores.

    The versions in force are those that the record states: whether they are still those of a later plan is for that
    plan to say. Raises what the ledger raises.
    """
    view = ledger.view(conversation_id)
    turns = tuple(ledger.turns(conversation_id))
    record = replace(record, plan_id=f"gate-{record.id}", branch=view.branch)
    frame = SummaryFrame(
        view.conversation_id, view.generation, record.policy_version, record.strategy_version, view.constraints
    )
    problem = summary_problem(record, turns, frame)
    if problem is None:
        run = run_of(inside_of(record, turns), view.constraints)
        covered = set(run.source_ids)
        preserved = tuple(one.id or "" for turn in turns for one in turn.messages if one.id not in covered)
        plan = CompactionPlan(
            record.plan_id, conversation_id, view.branch, view.generation, view.revision,
            record.policy_version, record.strategy_version, (run,), preserved, event=view.event,
        )  # fmt: skip
        ledger.save_plan(plan, replace=True)
    return Asked(record, Checked(view.event, Active(record.policy_version, record.strategy_version)), problem)


def store(ledger: Ledger, given: Asked) -> str:
    """Store a summary that was asked for, and return how that ended. Raises what the ledger raises."""
    if given.problem is not None:
        return "stale-source" if isinstance(given.problem, Staleness) else given.problem.reason
    try:
        return ledger.save_summary(given.record, given.record.plan_id, given.checked).status
    except RefusalSignal as signal:
        return signal.reason


def stale_records(ledger: Ledger, view: View, policy_version: str | None) -> tuple[SummaryRecord, ...]:
    """Return the records behind the summaries of a view that are not current, with the view's generation."""
    gone = {one.summary_id for one in view.stale}
    found = [one.record for one in ledger.summaries(view.conversation_id, Active(policy_version))]
    return tuple(
        replace(record, source_generation=view.generation)
        for record in found
        if record is not None and record.id in gone
    )
