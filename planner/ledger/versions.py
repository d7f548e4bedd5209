"""Every stored summary version with where it stands, and the receipts of those that stopped (R77, R149, R154)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import apsw

from planner.ledger.current import Line, current_summaries, problem_of, stale_by
from planner.ledger.heads import conversation_key, read_head
from planner.ledger.lineage import lineage
from planner.ledger.scope import open_scope
from planner.ledger.store import Store
from planner.ledger.stored import Active, Invalidation, StoredSummary
from planner.ledger.summary_rows import SummaryRow, is_visible, row_of_event, row_of_id, rows_where
from planner.values.compaction import Staleness
from planner.values.reasons import PlannerFault


def stored_summaries(store: Store, conversation_id: str, active: Active) -> tuple[StoredSummary, ...]:
    """Return every version in the order it was written. A failed save is left out once its retry went through."""
    with store.read("list summaries") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        line = Line(
            head.conversation, lineage(connection, head.branch, head.event), head.generation, head.purged_through
        )
        rows = rows_where(connection, "conversation = ?", (head.conversation,))
        current = current_summaries(connection, line, active)
        standing = {row.event for row in current.rows}
        stale = {one.summary_id: one for one in current.stale}
        saved = {row.id for row in rows if row.status != "failed"}
        found = []
        for row in rows:
            if row.status == "failed" and row.id in saved:
                continue
            entry = _entry(connection, row)
            if row.event in standing:
                found.append(entry)
                continue
            problem = stale.get(row.id) if row.status == "accepted" else None
            found.append(_ended(entry, row, problem or _problem(connection, line, row, active)))
    return tuple(found)


def _problem(connection: apsw.Connection, line: Line, row: SummaryRow, active: Active) -> Staleness | None:
    if row.status != "accepted":
        return stale_by(row, row.cause or row.status, row.causing_id)
    if not is_visible(row, line.segments):
        return stale_by(row, "other_branch")
    return problem_of(connection, line, row, active)


def _ended(entry: StoredSummary, row: SummaryRow, problem: Staleness | None) -> StoredSummary:
    if row.status == "failed":
        return replace(entry, status="failed", staleness=problem)
    return replace(entry, status="superseded" if problem is None else "stale", staleness=problem)


def _entry(connection: apsw.Connection, row: SummaryRow) -> StoredSummary:
    branch: Any = connection.execute("SELECT id FROM branch WHERE key = ?", (row.branch,)).fetchone()
    return StoredSummary(
        summary_id=row.id,
        summary_version=row.version,
        status="current",
        branch=str(branch[0]),
        generation=row.generation,
        plan_id=row.plan_id,
        covers=row.covers,
        event=row.event,
        adopted_from=None if row.adopted_from is None else row_of_event(connection, row.adopted_from).id,
        diagnostics=json.loads(row.diagnostics) if row.diagnostics is not None else {},
        record=row.record(),
    )


def invalidate(store: Store, conversation_id: str, stale: Iterable[Staleness]) -> int:
    """Record that summaries are no longer current in this branch, each once; return how many receipts are new (R154).

    Every receipt is a transaction of its own. Whether a summary is current never depends on them.
    Raises PlannerFault `conversation_not_found` for an unknown summary.
    """
    return sum(_invalidate(store, conversation_id, one) for one in stale)


def _invalidate(store: Store, conversation_id: str, stale: Staleness) -> bool:
    with store.write("record an invalidation") as tx:
        scope = open_scope(tx, conversation_id, None)
        row = row_of_id(tx.connection, scope.conversation, stale.summary_id)
        if row is None:
            raise PlannerFault("conversation_not_found", "no such summary")
        known = tx.connection.execute(
            "SELECT 1 FROM invalidation WHERE conversation = ? AND branch = ? AND summary = ?",
            (scope.conversation, scope.branch, row.event),
        ).fetchone()
        if known is not None:
            return False
        tx.record(
            "invalidation",
            conversation=scope.conversation,
            branch=scope.branch,
            summary=row.event,
            cause=stale.cause,
            causing_id=stale.causing_id,
            covers_from=row.covers_from,
            covers_to=row.covers_to,
        )
        return True


def invalidations(store: Store, conversation_id: str) -> tuple[Invalidation, ...]:
    """Return every invalidation receipt in the order it was written."""
    with store.read("list invalidations") as connection:
        key = conversation_key(connection, conversation_id)
        rows: list[Any] = connection.execute(
            "SELECT s.id, i.cause, i.causing_id, i.covers_from, i.covers_to, b.id, i.event FROM invalidation i"
            " JOIN summary s ON s.event = i.summary JOIN branch b ON b.key = i.branch"
            " WHERE i.conversation = ? ORDER BY i.event",
            (key,),
        ).fetchall()
    return tuple(
        Invalidation(Staleness(name, cause, causing_id, (first, last)), branch, event)
        for name, cause, causing_id, first, last, branch, event in rows
    )
