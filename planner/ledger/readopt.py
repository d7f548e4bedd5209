"""A stored summary that was verified again becomes a new version of this generation (R153, X11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.ledger.lineage import Segment
from planner.ledger.scope import open_scope
from planner.ledger.store import Store
from planner.ledger.stored import Checked, Saved
from planner.ledger.summaries import touched_since, version_mismatch, write_accepted
from planner.ledger.summary_rows import Fate, SummaryRow, row_of_id, rows_where, sources_of
from planner.values.field_rules import ID_RULE, invalid, is_id
from planner.values.reasons import PlannerFault


def readopt(store: Store, conversation_id: str, summary_id: str, new_id: str, checked: Checked) -> Saved:
    """Make a new version out of a stored one whose sources the caller verified again in full.

    checked  the newest event of the snapshot of that verification, and the versions in force.
    Returns  `accepted`, `duplicate` where this generation has it already, or `stale-source` with nothing written:
             a summary of another branch, one that reaches beyond the branch point, or one touched meanwhile.
    Raises PlannerFault `conversation_not_found`, `duplicate_id`; RefusalSignal `invalid-input` for a bad id.
    """
    if not is_id(new_id):
        invalid("$.summaryId", ID_RULE)
    with store.write("readopt a summary") as tx:
        scope = open_scope(tx, conversation_id, None)
        connection, conversation = tx.connection, scope.conversation
        old = row_of_id(connection, conversation, summary_id)
        record = None if old is None else old.record()
        if old is None or record is None:
            raise PlannerFault("conversation_not_found", "no such summary, or its words were not kept")
        done = rows_where(
            connection,
            "conversation = ? AND adopted_from = ? AND generation = ? AND branch = ?",
            (conversation, old.event, scope.head.generation, scope.branch),
        )
        valid = [row for row in done if touched_since(scope, record, row.verified_event) is None]
        if valid:
            return Saved("duplicate", valid[-1].id, valid[-1].version)
        if row_of_id(connection, conversation, new_id) is not None:
            raise PlannerFault("duplicate_id", "the summary id is used")
        if not _ends_before_the_branch(scope.line, old):
            return Saved("stale-source", summary_id, None, "other_branch")
        mismatch = version_mismatch(record, checked.active)
        cause = (mismatch, None) if mismatch is not None else touched_since(scope, record, checked.event)
        sources = sources_of(connection, conversation, scope.line, record)
        if cause is None and isinstance(sources, str):
            cause = ("source_missing", sources)
        if cause is not None:
            return Saved("stale-source", summary_id, None, *cause)
        head = scope.head
        record = replace(record, id=new_id, source_generation=head.generation, source_revision=head.revision)
        return write_accepted(scope, record, sources, Fate("accepted", adopted_from=old.event))


def _ends_before_the_branch(line: Sequence[Segment], row: SummaryRow) -> bool:
    return any(row.branch == part.branch and row.covers_to <= part.at_sequence for part in line)
