"""Which rows a branch sees: its own, and those of its ancestors up to both cuts (R61, design.md §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from planner.ledger.facts import fact_digest
from planner.ledger.faults import corrupt

NO_CUT = 2**62


@dataclass(frozen=True, slots=True)
class Segment:
    """One branch of a line: a row of it counts up to this turn (ordinal and sequence) and up to this event."""

    branch: int
    at_ordinal: int
    at_sequence: int
    at_event: int


def branch_row(connection: apsw.Connection, key: int) -> tuple[Any, ...]:
    """Return the fact of a branch, checked: key, conversation, id, parent, ordinal, sequence, event of its cut."""
    row: Any = connection.execute(
        "SELECT event, key, conversation, id, parent, at_ordinal, at_sequence, at_event, digest FROM branch"
        " WHERE key = ?",
        (key,),
    ).fetchone()
    if row is None or fact_digest("branch", row[:-1]) != row[-1]:
        corrupt(f"branch {key}")
    return tuple(row[1:-1])


def branch_name(connection: apsw.Connection, key: int) -> str:
    """Return the id of a branch."""
    return str(branch_row(connection, key)[2])


def lineage(connection: apsw.Connection, branch: int, upto_event: int) -> tuple[Segment, ...]:
    """Return the line of a branch as of an event: itself first, then its ancestors with ever narrower cuts."""
    found = [Segment(branch, NO_CUT, NO_CUT, upto_event)]
    while True:
        _, _, _, parent, ordinal, sequence, event = branch_row(connection, found[-1].branch)
        if parent is None:
            return tuple(found)
        if parent >= found[-1].branch:
            corrupt(f"branch {found[-1].branch} has a later parent")
        last = found[-1]
        found.append(
            Segment(parent, min(ordinal, last.at_ordinal), min(sequence, last.at_sequence), min(event, last.at_event))
        )


def newest_touch(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], covers: tuple[int, int], after: int
) -> tuple[int, str, str] | None:
    """Return the first thing that touched turns `covers[0]..covers[1]` after an event: event, cause, causing id.

    None means that nothing visible in this line did: a summary verified at `after` is still current.
    """
    found: list[tuple[int, str, str]] = []
    for segment in line:
        rows: list[tuple[Any, ...]] = connection.execute(
            "SELECT event, cause, causing_id FROM touch WHERE conversation = ? AND branch = ?"
            " AND sequence BETWEEN ? AND ? AND event > ? AND event <= ?",
            (conversation, segment.branch, covers[0], min(covers[1], segment.at_sequence), after, segment.at_event),
        ).fetchall()
        found += [(int(event), str(cause), str(name)) for event, cause, name in rows]
    return min(found, default=None)
