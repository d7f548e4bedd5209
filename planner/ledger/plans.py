"""Compaction plans: frozen once, one active per conversation (R53, R55, R70, R115, X51)."""

from __future__ import annotations

import apsw

from planner.ledger.adoptions import adoptable, record_adoptions
from planner.ledger.codec import encode
from planner.ledger.heads import conversation_key
from planner.ledger.lineage import newest_touch
from planner.ledger.plan_rows import PlanRow, active_key, active_row, plan_row
from planner.ledger.rejections import MAX_ATTEMPTS, rejections_of
from planner.ledger.scope import Scope, branch_id, open_scope
from planner.ledger.store import Store
from planner.ledger.stored import Active
from planner.values.compaction import CompactionPlan, Run
from planner.values.field_rules import ID_RULE, VERSION_RULE, invalid, is_id, is_version
from planner.values.reasons import PlannerFault


def save_plan(store: Store, plan: CompactionPlan, *, replace: bool = False) -> CompactionPlan:
    """Freeze a plan and make it the active one; return the plan that is active then.

    An unfinished active plan whose sources are current is returned again, and `plan` is not stored, unless
    `replace`. The same plan again is a no-op. What of older generations or branches is current is recorded as
    adopted in the same transaction, because the plan builds on it (X11).
    Raises RefusalSignal `invalid-input`; PlannerFault `stale_generation`, `duplicate_id`, `conversation_not_found`
    and what storage raises.
    """
    _check(plan)
    active = Active(plan.policy_version, plan.strategy_version)
    adopted = adoptable(store, plan.conversation_id, active)
    # A plan may be long and never changes: it is read and written as JSON outside the write.
    body = encode(plan)
    with store.read("read the active plan") as connection:
        seen = active_row(connection, conversation_key(connection, plan.conversation_id))
    with store.write("save a compaction plan") as tx:
        scope = open_scope(tx, plan.conversation_id, plan.generation)
        if plan.branch != branch_id(tx, scope.branch):
            invalid("$.branch", "is not the branch of this generation")
        if plan.event > tx.event:
            invalid("$.event", "is newer than the ledger")
        before = _active(scope, seen)
        known = plan_row(tx.connection, scope.conversation, plan.plan_id)
        tx.fail("after_reread")
        if known is not None:
            if before is None or known.event != before.event or known.plan != plan:
                raise PlannerFault("duplicate_id", "the plan id belongs to another plan or to one that was replaced")
            return known.plan
        if before is not None and not replace and _goes_on(scope, before, active):
            return before.plan
        event = tx.record(
            "plan",
            conversation=scope.conversation,
            branch=scope.branch,
            id=plan.plan_id,
            generation=plan.generation,
            revision=plan.source_revision,
            seen_event=plan.event,
            policy_version=plan.policy_version,
            strategy_version=plan.strategy_version,
            replaces=None if before is None else before.plan.plan_id,
            body=body,
        )
        tx.connection.execute(
            "INSERT OR REPLACE INTO active_plan (conversation, plan) VALUES (?, ?)", (scope.conversation, event)
        )
        tx.fail("after_pointer")
        record_adoptions(scope, adopted)
    return plan


def _active(scope: Scope, seen: PlanRow | None) -> PlanRow | None:
    """Return the active plan; the one that was seen before the write, if that is it still."""
    key = active_key(scope.tx.connection, scope.conversation)
    if (None if key is None else key[0]) == (None if seen is None else seen.event):
        return seen
    return active_row(scope.tx.connection, scope.conversation)


def active_plan(store: Store, conversation_id: str) -> CompactionPlan | None:
    """Return the active plan, finished or not. Raises PlannerFault `conversation_not_found`."""
    with store.read("read the active plan") as connection:
        found = active_row(connection, conversation_key(connection, conversation_id))
    return None if found is None else found.plan


def plan_by_id(store: Store, conversation_id: str, plan_id: str) -> CompactionPlan | None:
    """Return any plan that was frozen, None where there is none of this id."""
    with store.read("read a compaction plan") as connection:
        found = plan_row(connection, conversation_key(connection, conversation_id), plan_id)
    return None if found is None else found.plan


def is_finished(connection: apsw.Connection, conversation: int, plan: CompactionPlan) -> bool:
    """Tell whether nothing is left to do: each run has its summary, or was rejected as often as it may be."""
    rows = connection.execute(
        "SELECT covers_from, covers_to FROM summary WHERE conversation = ? AND plan_id = ? AND status = 'accepted'"
        " AND adopted_from IS NULL",
        (conversation, plan.plan_id),
    ).fetchall()
    done = [(int(first), int(last)) for first, last in rows]  # type: ignore[arg-type]
    return all(
        _is_covered(run, done) or rejections_of(connection, conversation, run.source_fingerprint) >= MAX_ATTEMPTS
        for run in plan.runs
    )


def _is_covered(run: Run, done: list[tuple[int, int]]) -> bool:
    """A run may have been split at a turn border (X66), so what matters is that its ends are covered."""
    first = any(start <= run.covers_from <= end for start, end in done)
    return first and any(start <= run.covers_to <= end for start, end in done)


def _goes_on(scope: Scope, row: PlanRow, active: Active) -> bool:
    """Tell whether the active plan is unfinished and every source of it is as it was frozen."""
    plan = row.plan
    if plan.generation != scope.head.generation:
        return False
    if (plan.policy_version, plan.strategy_version) != (active.policy_version, active.strategy_version):
        return False
    connection, conversation = scope.tx.connection, scope.conversation
    touched = any(
        newest_touch(connection, conversation, scope.line, (run.covers_from, run.covers_to), plan.event)
        for run in plan.runs
    )
    return not touched and not is_finished(connection, conversation, plan)


def _check(plan: CompactionPlan) -> None:
    if not is_id(plan.plan_id):
        invalid("$.planId", ID_RULE)
    if not is_version(plan.policy_version):
        invalid("$.policyVersion", VERSION_RULE)
    if not is_version(plan.strategy_version):
        invalid("$.strategyVersion", VERSION_RULE)
    if not plan.runs:
        invalid("$.runs", "is empty, and a plan without sources starts nothing")
    end = -1
    for index, run in enumerate(plan.runs):
        if not end < run.covers_from <= run.covers_to:
            invalid(f"$.runs[{index}]", "overlaps or goes backwards")
        if not run.source_ids or len(run.source_ids) != len(run.source_versions):
            invalid(f"$.runs[{index}].sourceIds", "are missing or have other versions")
        end = run.covers_to
