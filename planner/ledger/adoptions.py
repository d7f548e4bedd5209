"""Summaries of an older generation or of an ancestor branch: used at once, recorded, or made a new version (X11)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.ledger.current import Line, current_summaries
from planner.ledger.heads import conversation_key, read_head
from planner.ledger.lineage import NO_CUT, lineage
from planner.ledger.scope import Scope, open_scope
from planner.ledger.store import Store
from planner.ledger.stored import Active


@dataclass(frozen=True, slots=True)
class Adoptable:
    """What of elsewhere is current on a snapshot and was not recorded yet."""

    generation: int
    event: int
    summaries: tuple[int, ...]


def adoptable(store: Store, conversation_id: str, active: Active) -> Adoptable:
    """Return the versions that are current here and were made elsewhere; read outside any write."""
    with store.read("find what is adopted") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        line = lineage(connection, head.branch, NO_CUT)
        seen = Line(head.conversation, line, head.generation, head.purged_through)
        rows = [
            row
            for row in current_summaries(connection, seen, active).rows
            if row.branch != head.branch or row.generation != head.generation
        ]
        recorded = connection.execute(
            "SELECT summary FROM adoption WHERE conversation = ? AND branch = ?", (head.conversation, head.branch)
        ).fetchall()
        done = {int(one[0]) for one in recorded}  # type: ignore[arg-type]
        return Adoptable(head.generation, head.event, tuple(row.event for row in rows if row.event not in done))


def record_adoptions(scope: Scope, found: Adoptable) -> int:
    """Record that a branch uses summaries made elsewhere; return how many were new. Once a branch and summary.

    A snapshot of another generation is not recorded: it may have been of another branch.
    """
    if found.generation != scope.head.generation:
        return 0
    for summary in found.summaries:
        known = scope.tx.connection.execute(
            "SELECT 1 FROM adoption WHERE conversation = ? AND branch = ? AND summary = ?",
            (scope.conversation, scope.branch, summary),
        ).fetchone()
        if known is None:
            scope.tx.record(
                "adoption",
                conversation=scope.conversation,
                branch=scope.branch,
                generation=scope.head.generation,
                summary=summary,
                verified_event=found.event,
            )
    return len(found.summaries)


def adopt_current(store: Store, conversation_id: str, active: Active) -> int:
    """Record every adoption that planning relies on already, in a write of its own; return how many were new."""
    found = adoptable(store, conversation_id, active)
    if not found.summaries:
        return 0
    with store.write("record adoptions") as tx:
        return record_adoptions(open_scope(tx, conversation_id, found.generation), found)
