"""Derived counters of a conversation and of its branches, each row with a digest of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import apsw

from planner.ledger.facts import NO_SUM, fact_digest, short_digest, with_rows
from planner.ledger.faults import corrupt
from planner.values.reasons import PlannerFault


@dataclass(frozen=True, slots=True)
class HeadRow:
    """Where a conversation stands; `last_sequence` is -1 while there is none."""

    conversation: int
    branch: int
    generation: int
    revision: int
    event: int
    last_sequence: int = -1
    purged_through: int | None = None

    def values(self) -> tuple[int | None, ...]:
        """Return the columns in their order, without the digest."""
        return (
            self.conversation, self.branch, self.generation, self.revision, self.event, self.last_sequence,
            self.purged_through,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class BranchRow:
    """How many turns a branch's line has, and the sums of what is derived from them."""

    conversation: int
    branch: int
    turns: int = 0
    relation_sum: bytes = NO_SUM
    pinned_sum: bytes = NO_SUM

    def values(self) -> tuple[int | bytes, ...]:
        """Return the columns in their order, without the digest."""
        return (self.conversation, self.branch, self.turns, self.relation_sum, self.pinned_sum)


def conversation_key(connection: apsw.Connection, conversation_id: str) -> int:
    """Return the key of a conversation. Raises PlannerFault `conversation_not_found`."""
    row: Any = connection.execute(
        "SELECT event, key, id, digest FROM conversation WHERE id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise PlannerFault("conversation_not_found", "no such conversation")
    if fact_digest("conversation", row[:-1]) != row[-1]:
        corrupt(f"conversation {row[1]}")
    return int(row[1])


def read_head(connection: apsw.Connection, conversation: int) -> HeadRow:
    """Return the head of a conversation, checked. Raises PlannerFault `ledger_corrupt`."""
    row = connection.execute(
        "SELECT conversation, branch, generation, revision, event, last_sequence, purged_through, digest"
        " FROM head WHERE conversation = ?",
        (conversation,),
    ).fetchone()
    if row is None or short_digest("head", *row[:-1]) != row[-1]:
        corrupt(f"head of conversation {conversation}")
    return HeadRow(*row[:-1])


def read_branch(connection: apsw.Connection, conversation: int, branch: int) -> BranchRow:
    """Return the counters of a branch, checked. Raises PlannerFault `ledger_corrupt`."""
    row = connection.execute(
        "SELECT conversation, branch, turns, relation_sum, pinned_sum, digest FROM branch_head"
        " WHERE conversation = ? AND branch = ?",
        (conversation, branch),
    ).fetchone()
    if row is None or short_digest("branch_head", *row[:-1]) != row[-1]:
        corrupt(f"head of branch {branch}")
    return BranchRow(*row[:-1])


def write_head(connection: apsw.Connection, head: HeadRow) -> None:
    """Store the head of a conversation."""
    connection.execute(
        "INSERT OR REPLACE INTO head"
        " (conversation, branch, generation, revision, event, last_sequence, purged_through, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*head.values(), short_digest("head", *head.values())),
    )


def write_branch(connection: apsw.Connection, branch: BranchRow) -> None:
    """Store the counters of a branch."""
    connection.execute(
        "INSERT OR REPLACE INTO branch_head (conversation, branch, turns, relation_sum, pinned_sum, digest)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*branch.values(), short_digest("branch_head", *branch.values())),
    )


def with_relations(branch: BranchRow, rows: Iterable[tuple[str, int, str, int, str | None]]) -> BranchRow:
    """Return the counters with rows of `relation` added or taken away: kind, turn, name, other, part."""
    digests = (short_digest("relation", *row) for row in rows)
    return replace(branch, relation_sum=with_rows(branch.relation_sum, digests))


def with_pinned(branch: BranchRow, *ordinals: int) -> BranchRow:
    """Return the counters with rows of `pinned` added or taken away."""
    rows = (short_digest("pinned", ordinal) for ordinal in ordinals)
    return replace(branch, pinned_sum=with_rows(branch.pinned_sum, rows))
