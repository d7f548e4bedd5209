"""One write transaction: facts get their event numbers, digests and chain here, and nowhere else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import apsw

from planner.ledger.facts import (
    FIRST_CHAIN,
    NO_CHANGE_OF_CONVERSATION,
    TABLE_OF,
    TABLES,
    Value,
    fact_digest,
    next_chain,
)
from planner.ledger.heads import BranchRow, HeadRow, read_branch, read_head, write_branch, write_head

SALT_BYTES = 16


class Transaction:
    """What a writing function gets from `Store.write`; it is over when the `with` block ends.

    connection  for reads and for index rows; facts go through `record`.
    fail        the failpoint: call it with a name after each step that a crash may follow.
    """

    def __init__(self, connection: apsw.Connection, fail: Callable[[str], None]) -> None:
        """Begin after the newest event; the caller has begun the transaction."""
        self.connection = connection
        self.fail = fail
        row = connection.execute("SELECT event, chain FROM event ORDER BY event DESC LIMIT 1").fetchone()
        self.first_event, self.chain = (0, FIRST_CHAIN) if row is None else (int(row[0]), bytes(row[1]))
        self.event = self.first_event
        self._heads: dict[int, HeadRow] = {}
        self._branches: dict[tuple[int, int], BranchRow] = {}
        self._changed: set[int] = set()
        # Receipts and parts are no facts: they have no event, and a block that only writes them must commit too.
        self.unchained = False

    @property
    def changed(self) -> bool:
        """True when a fact was recorded."""
        return self.event > self.first_event

    def head(self, conversation: int) -> HeadRow:
        """Return the head as this transaction leaves it."""
        if conversation not in self._heads:
            self._heads[conversation] = read_head(self.connection, conversation)
        return self._heads[conversation]

    def set_head(self, head: HeadRow) -> None:
        """Change the head; it is stored when the transaction ends."""
        self._heads[head.conversation] = head

    def branch(self, conversation: int, branch: int) -> BranchRow:
        """Return the counters of a branch as this transaction leaves them."""
        if (conversation, branch) not in self._branches:
            self._branches[conversation, branch] = read_branch(self.connection, conversation, branch)
        return self._branches[conversation, branch]

    def set_branch(self, row: BranchRow) -> None:
        """Change the counters of a branch; they are stored when the transaction ends."""
        self._branches[row.conversation, row.branch] = row

    def record(self, kind: str, /, *, conversation: int, branch: int = 0, place: int = 0, **columns: Value) -> int:
        """Record one fact and return its event.

        kind          of `facts.TABLE_OF`; it names the table.
        conversation  key; its head moves on, and its revision once a transaction unless the kind changes nothing.
        branch        key, 0 where the fact is of no branch.
        place         sequence of a message, ordinal of a turn, else 0.
        columns       every further column of the table.
        """
        table = TABLES[TABLE_OF[kind]]
        event = self.event + 1
        revision = self._advance(conversation, event, kind)
        known: dict[str, Value] = {"event": event, "conversation": conversation, "branch": branch, **columns}
        if table.key:
            known[table.key[-1]] = place
        values = [known[name] for name in table.columns]
        salt = secrets.token_bytes(SALT_BYTES) if table.salted and known.get("body") is not None else None
        digest = fact_digest(table.name, values, salt)
        row: tuple[Value, ...] = (event, conversation, branch, revision, kind, place)
        self.chain = next_chain(self.chain, digest, row)
        execute = self.connection.execute
        execute(
            "INSERT INTO event (event, conversation, branch, revision, kind, place, digest, chain)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, digest, self.chain),
        )
        execute(_insert(table.name), (*values, *((salt,) if table.salted else ()), digest))
        self.event = event
        self.fail(f"after_{kind}")
        return event

    def _advance(self, conversation: int, event: int, kind: str) -> int:
        head = HeadRow(conversation, 0, 0, 0, 0) if kind == "conversation" else self.head(conversation)
        head = replace(head, event=event)
        if kind not in NO_CHANGE_OF_CONVERSATION and conversation not in self._changed:
            self._changed.add(conversation)
            head = replace(head, revision=head.revision + 1)
        self._heads[conversation] = head
        return head.revision

    def finish(self) -> None:
        """Store the counters that changed; the caller commits."""
        for head in self._heads.values():
            write_head(self.connection, head)
        for branch in self._branches.values():
            write_branch(self.connection, branch)
        self.fail("after_heads")


@cache
def _insert(name: str) -> str:
    table = TABLES[name]
    names = (*table.columns, *(("salt",) if table.salted else ()), "digest")
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {name} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names of our own table
