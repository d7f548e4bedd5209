"""Which turns of a branch are pinned: open, or completed with a protected message (X2). Derived, checked by a sum."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from planner.ledger.facts import NO_SUM, short_digest, with_rows
from planner.ledger.faults import corrupt
from planner.ledger.heads import BranchRow, with_pinned
from planner.ledger.lineage import Segment
from planner.ledger.rows import newest_messages, newest_turn
from planner.ledger.transaction import Transaction


def is_pinned(connection: apsw.Connection, conversation: int, line: Sequence[Segment], ordinal: int) -> bool:
    """Tell whether a turn is pinned, from its rows."""
    state = newest_turn(connection, conversation, line, ordinal).state
    if state != "completed":
        return state == "open"
    messages = newest_messages(connection, conversation, line, ordinal, ordinal).get(ordinal, [])
    return any(entry.protection is not None for entry in messages)


def settle_pinned(tx: Transaction, conversation: int, line: Sequence[Segment], ordinal: int) -> None:
    """Bring the row of one turn in `pinned` up to date."""
    branch = line[0].branch
    key = (conversation, branch, ordinal)
    where = "WHERE conversation = ? AND branch = ? AND turn = ?"
    before = tx.connection.execute(f"SELECT 1 FROM pinned {where}", key).fetchone() is not None  # noqa: S608
    after = is_pinned(tx.connection, conversation, line, ordinal)
    if before == after:
        return
    if after:
        tx.connection.execute("INSERT INTO pinned (conversation, branch, turn) VALUES (?, ?, ?)", key)
    else:
        tx.connection.execute(f"DELETE FROM pinned {where}", key)  # noqa: S608
    tx.set_branch(with_pinned(tx.branch(conversation, branch), ordinal))


def read_pinned(connection: apsw.Connection, counters: BranchRow) -> list[int]:
    """Return the ordinals of pinned turns, rising. Raises PlannerFault `ledger_corrupt`."""
    rows = connection.execute(
        "SELECT turn FROM pinned WHERE conversation = ? AND branch = ? ORDER BY turn",
        (counters.conversation, counters.branch),
    ).fetchall()
    found = [int(str(row[0])) for row in rows]
    if with_rows(NO_SUM, (short_digest("pinned", ordinal) for ordinal in found)) != counters.pinned_sum:
        corrupt(f"pinned turns of branch {counters.branch}")
    return found


def all_pinned(connection: apsw.Connection, conversation: int, line: Sequence[Segment], turns: int) -> list[int]:
    """Return the pinned turns of a line from its facts: those an index names, looked at one by one."""
    candidates: set[int] = set()
    for segment in line:
        bindings = (conversation, segment.branch, min(turns - 1, segment.at_ordinal), segment.at_event)
        for sql in (
            "SELECT DISTINCT turn FROM message WHERE conversation = ? AND branch = ? AND turn <= ? AND event <= ?"
            " AND protection IS NOT NULL",
            "SELECT DISTINCT ordinal FROM turn WHERE conversation = ? AND branch = ? AND ordinal <= ? AND event <= ?"
            " AND state = 'open'",
        ):
            candidates |= {int(str(row[0])) for row in connection.execute(sql, bindings)}
    return [ordinal for ordinal in sorted(candidates) if is_pinned(connection, conversation, line, ordinal)]
