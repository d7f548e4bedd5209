"""Every version of a message and of a turn, for audits and for telling a repeated call from a new one."""

from __future__ import annotations

from typing import Any

import apsw

from planner.ledger.rows import MessageRow, TurnRow, message_row, turn_row


def message_versions(connection: apsw.Connection, conversation: int, message_id: str) -> list[MessageRow]:
    """Return every version of a message that any branch wrote, oldest first; none where the id is free."""
    first = connection.execute(
        "SELECT sequence FROM message WHERE conversation = ? AND id = ? AND version = 1", (conversation, message_id)
    ).fetchone()
    if first is None:
        return []
    rows: list[Any] = []
    for (branch,) in connection.execute("SELECT key FROM branch WHERE conversation = ?", (conversation,)).fetchall():
        rows += connection.execute(
            "SELECT conversation, branch, sequence, event, turn, id, version, role, protection, body, salt, digest"
            " FROM message WHERE conversation = ? AND branch = ? AND sequence = ?",
            (conversation, branch, first[0]),
        ).fetchall()
    return [message_row(row) for row in sorted(rows, key=lambda row: int(row[3]))]


def turn_versions(connection: apsw.Connection, conversation: int, ordinal: int, turn_id: str) -> list[TurnRow]:
    """Return every version of a turn that any branch wrote, oldest first; other branches may use its ordinal."""
    rows: list[Any] = []
    for (branch,) in connection.execute("SELECT key FROM branch WHERE conversation = ?", (conversation,)).fetchall():
        rows += connection.execute(
            "SELECT conversation, branch, ordinal, event, id, sequence, version, messages, state, actor, material,"
            " marks, supersedes, items, digest FROM turn WHERE conversation = ? AND branch = ? AND ordinal = ?",
            (conversation, branch, ordinal),
        ).fetchall()
    found = [turn_row(row) for row in sorted(rows, key=lambda row: int(row[3]))]
    return [row for row in found if row.id == turn_id]
