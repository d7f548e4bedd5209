"""A conversation as it was when a receipt was written: rows are only ever added, so the past can be read (R186)."""

from __future__ import annotations

from typing import Any

import apsw

from planner.ledger.chains import first_ordinal
from planner.ledger.current import Line, current_summaries
from planner.ledger.heads import conversation_key, read_head
from planner.ledger.lineage import Segment, lineage
from planner.ledger.pages import load_turns
from planner.ledger.store import Store
from planner.ledger.stored import Active
from planner.values.reasons import PlannerFault
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


def turns_at(store: Store, conversation_id: str, generation: int, revision: int) -> tuple[Turn, ...]:
    """Return every turn by sequence, whatever its state, as of a revision under a generation.

    What retention took since is not among them. Cost grows with the number of turns: this is for replays.
    Raises PlannerFault `stale_generation` where the ledger never had that generation or revision,
    `conversation_not_found` and those of the storage.
    """
    with store.read("read the past") as connection:
        key = conversation_key(connection, conversation_id)
        head = read_head(connection, key)
        branch = _one(connection, "SELECT branch FROM generation WHERE conversation = ? AND generation = ?",
                      (key, generation))  # fmt: skip
        event = _one(connection, "SELECT max(event) FROM event WHERE conversation = ? AND revision <= ?",
                     (key, revision))  # fmt: skip
        if branch is None or event is None or revision > head.revision:
            raise PlannerFault("stale_generation", "the ledger never had that generation and revision")
        line = lineage(connection, branch, event)
        start = first_ordinal(connection, key, line, head.purged_through)
        return tuple(load_turns(connection, key, line, start, _last_ordinal(connection, key, line)))


def summaries_at(store: Store, conversation_id: str, plan_id: str, policy_version: str) -> tuple[SummaryRecord, ...]:
    """Return the summaries that were current when a call's receipt was stored; none where none is stored here.

    Retention may have taken the words of one since: it is not among them. Raises PlannerFault
    `conversation_not_found` and those of the storage.
    """
    with store.read("read the past") as connection:
        key = conversation_key(connection, conversation_id)
        row: Any = connection.execute(
            "SELECT receipt.event, receipt.generation, generation.branch FROM receipt JOIN generation"
            " USING (conversation, generation) WHERE conversation = ? AND plan_id = ?",
            (key, plan_id),
        ).fetchone()
        if row is None:
            return ()
        event, generation, branch = map(int, row)
        purged = read_head(connection, key).purged_through
        line = Line(key, lineage(connection, branch, event), generation, purged)
        return current_summaries(connection, line, Active(policy_version)).summaries


def _one(connection: apsw.Connection, sql: str, bindings: tuple[int, ...]) -> int | None:
    row: Any = connection.execute(sql, bindings).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _last_ordinal(connection: apsw.Connection, conversation: int, line: tuple[Segment, ...]) -> int:
    found = -1
    for segment in line:
        newest = _one(
            connection,
            "SELECT max(ordinal) FROM turn WHERE conversation = ? AND branch = ? AND ordinal <= ? AND event <= ?",
            (conversation, segment.branch, segment.at_ordinal, segment.at_event),
        )
        found = max(found, -1 if newest is None else newest)
    return found
