"""Answers that were turned away, text-free, counted per set of sources (R116, R188, design.md §8)."""

from __future__ import annotations

import json

import apsw

from planner.ledger.heads import conversation_key
from planner.ledger.plan_rows import plan_row
from planner.ledger.scope import open_scope
from planner.ledger.store import Store
from planner.values.compaction import CompactionPlan, Rejected
from planner.values.field_rules import invalid
from planner.values.reasons import PlannerFault

MAX_ATTEMPTS = 2
"""How often the same sources are tried: once, and one retry."""


def record_rejection(store: Store, conversation_id: str, plan_id: str, run: int, rejected: Rejected) -> int:
    """Record that an answer for one run of a plan was turned away; return how often its sources were by now.

    Of `rejected.ids` only those are kept that the run knows: an id that a model made up may be any text.
    Raises PlannerFault `conversation_not_found` for an unknown plan, RefusalSignal `invalid-input` for a run it lacks.
    """
    with store.write("record a rejection") as tx:
        scope = open_scope(tx, conversation_id, None)
        row = plan_row(tx.connection, scope.conversation, plan_id)
        if row is None:
            raise PlannerFault("conversation_not_found", "no such compaction plan")
        if not 0 <= run < len(row.plan.runs):
            invalid("$.run", "is no run of this plan")
        fingerprint = row.plan.runs[run].source_fingerprint
        ids = tuple(entry for entry in rejected.ids if entry in _known_ids(row.plan, run))
        tx.record(
            "rejection",
            conversation=scope.conversation,
            branch=scope.branch,
            plan_id=plan_id,
            run=run,
            source_fingerprint=fingerprint,
            reason=rejected.reason,
            detail=rejected.detail,
            ids=json.dumps(ids, separators=(",", ":")) if ids else None,
        )
        return rejections_of(tx.connection, scope.conversation, fingerprint)


def _known_ids(plan: CompactionPlan, number: int) -> frozenset[str]:
    run = plan.runs[number]
    return frozenset((*run.source_ids, *run.turn_ids, *run.required_constraint_ids, *run.open_items, *run.citation_ids))


def rejections_of(connection: apsw.Connection, conversation: int, source_fingerprint: str) -> int:
    """Return how often answers for these sources were no summary, whatever the plan; coming too late is no try."""
    row = connection.execute(
        "SELECT count(*) FROM rejection WHERE conversation = ? AND source_fingerprint = ?"
        " AND reason = 'invalid-summary'",
        (conversation, source_fingerprint),
    ).fetchone()
    return int(row[0]) if row is not None else 0


def count_rejections(store: Store, conversation_id: str, source_fingerprint: str) -> int:
    """Return how often answers for these sources were turned away. Raises PlannerFault `conversation_not_found`."""
    with store.read("count rejections") as connection:
        return rejections_of(connection, conversation_key(connection, conversation_id), source_fingerprint)
