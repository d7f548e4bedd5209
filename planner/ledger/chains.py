"""The chain over all turns of a line, kept per turn so that a plan need not compute it again (design.md §9).

Rows are derived: a changed turn takes away its own and all later ones, the next writes fill them in again, and a
reader computes what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from planner.ledger.facts import short_digest
from planner.ledger.faults import corrupt
from planner.ledger.lineage import Segment
from planner.ledger.pages import PAGE_TURNS, load_turns
from planner.ledger.rows import newest_turn
from planner.ledger.transaction import Transaction
from planner.values.digest import TurnChain

TURNS_A_WRITE = 512
"""How many missing rows one write fills in at most: it must not grow with the ledger."""


def first_ordinal(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], purged_through: int | None
) -> int:
    """Return the ordinal of the first turn of a line whose original is still there."""
    if purged_through is None:
        return 0
    found = -1
    for segment in line:
        row = connection.execute(
            "SELECT ordinal FROM turn WHERE conversation = ? AND branch = ? AND version = 1 AND sequence <= ?"
            " ORDER BY sequence DESC LIMIT 1",
            (conversation, segment.branch, min(purged_through, segment.at_sequence)),
        ).fetchone()
        found = max(found, int(row[0]) if row is not None else -1)
    return found + 1


def nearest(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], span: tuple[int, int]
) -> tuple[int, TurnChain]:
    """Return the last stored chain of a line inside `span`, as (ordinal after it, chain).

    An ancestor's row counts only where nothing later than the branch point is in it, and only below the first turn
    that a branch nearer in the line changed.
    """
    start, end = span
    for place, segment in enumerate(line):
        if place:
            end = min(end, _first_written(connection, conversation, line[place - 1].branch, end))
        row = connection.execute(
            "SELECT turn, event, chain, digest FROM turn_chain WHERE conversation = ? AND branch = ?"
            " AND turn BETWEEN ? AND ? AND event <= ? ORDER BY turn DESC LIMIT 1",
            (conversation, segment.branch, start, min(end - 1, segment.at_ordinal), segment.at_event),
        ).fetchone()
        if row is not None:
            turn, event, chain, digest = row
            if short_digest("turn_chain", conversation, segment.branch, turn, event, chain) != digest:
                corrupt(f"chain of turn {turn}")
            return int(turn) + 1, TurnChain(bytes(chain))
    return start, TurnChain()


def _first_written(connection: apsw.Connection, conversation: int, branch: int, end: int) -> int:
    """Return the ordinal of the first turn that a branch itself wrote to, `end` where it wrote to none."""
    key = (conversation, branch)
    turns = connection.execute("SELECT min(ordinal) FROM turn WHERE conversation = ? AND branch = ?", key).get
    messages = connection.execute(
        "SELECT min(turn) FROM message WHERE conversation = ? AND branch = ? AND turn IS NOT NULL", key
    ).get
    return min(end if turns is None else int(turns), end if messages is None else int(messages))


def chain_at(connection: apsw.Connection, conversation: int, line: Sequence[Segment], span: tuple[int, int]) -> bytes:
    """Return the chain over the turns of `span`: the nearest stored one, and the rest computed."""
    at, chain = nearest(connection, conversation, line, span)
    for first in range(at, span[1], PAGE_TURNS):
        for turn in load_turns(connection, conversation, line, first, min(first + PAGE_TURNS, span[1]) - 1):
            chain.add(turn)
    return chain.raw()


def drop_chain(tx: Transaction, conversation: int, branch: int, ordinal: int) -> None:
    """Take away what a change of a turn makes wrong."""
    tx.connection.execute(
        "DELETE FROM turn_chain WHERE conversation = ? AND branch = ? AND turn >= ?", (conversation, branch, ordinal)
    )


def extend_chain(tx: Transaction, conversation: int, line: Sequence[Segment]) -> None:
    """Store the chain up to the newest turn that is no longer open, some turns a write."""
    end = tx.branch(conversation, line[0].branch).turns
    if end and newest_turn(tx.connection, conversation, line, end - 1).state == "open":
        end -= 1
    start = first_ordinal(tx.connection, conversation, line, tx.head(conversation).purged_through)
    at, chain = nearest(tx.connection, conversation, line, (start, end))
    last = min(end, at + TURNS_A_WRITE)
    for first in range(at, last, PAGE_TURNS):
        turns = load_turns(tx.connection, conversation, line, first, min(first + PAGE_TURNS, last) - 1)
        for ordinal, turn in enumerate(turns, first):
            chain.add(turn)
            put_chain(tx, conversation, line[0].branch, ordinal, chain.raw())


def put_chain(tx: Transaction, conversation: int, branch: int, ordinal: int, chain: bytes) -> None:
    """Store the chain up to one turn; it takes everything up to this transaction's newest event into account."""
    row = (conversation, branch, ordinal, tx.event, chain)
    tx.connection.execute(
        "INSERT OR REPLACE INTO turn_chain (conversation, branch, turn, event, chain, digest)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*row, short_digest("turn_chain", *row)),
    )
