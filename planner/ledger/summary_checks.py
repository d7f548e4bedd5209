"""What `verify` looks at on the summary side: the index of sources, the pointers, the receipts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from planner.ledger.facts import fact_digest
from planner.ledger.pointers import pointers_by_facts
from planner.ledger.summary_rows import rows_where
from planner.ledger.transaction import Transaction


def summary_index_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield every version whose index of sources differs from its record, and every receipt that was changed."""
    for conversation in _conversations(connection):
        for row in rows_where(connection, "conversation = ?", (conversation,)):
            found: list[Any] = connection.execute(
                "SELECT message_id, version FROM summary_source WHERE summary = ? ORDER BY position", (row.event,)
            ).fetchall()
            record = row.record()
            expected = [] if record is None else list(zip(record.source_ids, record.source_versions, strict=True))
            # Where retention took the record, the index is all that is left of it.
            if found != expected and (record is not None or row.status != "accepted"):
                yield f"sources of the summary of event {row.event}"
    receipts: Any = connection.execute(
        "SELECT conversation, plan_id, generation, event, request_digest, body, digest FROM receipt"
    )
    for *columns, digest in receipts:
        if fact_digest("receipt", columns) != digest:
            yield f"receipt of conversation {columns[0]}"


def pointer_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield every conversation whose pointers differ from what its facts give."""
    for conversation in _conversations(connection):
        rows: list[Any] = connection.execute(
            "SELECT branch, covers_from, covers_to, summary FROM active_run WHERE conversation = ?", (conversation,)
        ).fetchall()
        if sorted(rows) != pointers_by_facts(connection, conversation):
            yield f"active summaries of conversation {conversation}"
        plan: Any = connection.execute(
            "SELECT plan FROM active_plan WHERE conversation = ?", (conversation,)
        ).fetchone()
        if (None if plan is None else plan[0]) != _newest_plan(connection, conversation):
            yield f"active plan of conversation {conversation}"


def rebuild_pointers(tx: Transaction) -> None:
    """Make the pointers to summaries and plans again from the facts."""
    connection = tx.connection
    for table in ("active_run", "active_plan"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table
    for conversation in _conversations(connection):
        connection.executemany(
            "INSERT INTO active_run (conversation, branch, covers_from, covers_to, summary) VALUES (?, ?, ?, ?, ?)",
            [(conversation, *row) for row in pointers_by_facts(connection, conversation)],
        )
        plan = _newest_plan(connection, conversation)
        if plan is not None:
            connection.execute("INSERT INTO active_plan (conversation, plan) VALUES (?, ?)", (conversation, plan))


def _conversations(connection: apsw.Connection) -> list[int]:
    rows: list[Any] = connection.execute("SELECT key FROM conversation ORDER BY key").fetchall()
    return [int(row[0]) for row in rows]


def _newest_plan(connection: apsw.Connection, conversation: int) -> int | None:
    row: Any = connection.execute("SELECT max(event) FROM plan WHERE conversation = ?", (conversation,)).fetchone()
    return None if row is None or row[0] is None else int(row[0])
