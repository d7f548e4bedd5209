"""The pointer: per branch the ordered set of summaries that was current at the last save, never overlapping (X51).

It is derived: a reader decides by the index of touches; the pointer says which summaries a reader must hear about when
they are no longer current, and which ones retention leaves their words. Its rows move in the transaction of the
version that moves them (R121).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from planner.ledger.current import Line, choose, moved_on
from planner.ledger.lineage import lineage
from planner.ledger.scope import Scope
from planner.ledger.stored import Active
from planner.ledger.summary_rows import SummaryRow, row_of_event, rows_where

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Before:
    """What a branch held before a version came: rows that overlap an interval, pointed to or merely accepted."""

    pointed: Callable[[Span], Sequence[SummaryRow]]
    accepted: Callable[[Span], Sequence[SummaryRow]]


def move_pointer(scope: Scope, event: int) -> None:
    """Point to a version just written, in place of those it overlaps; a wider one that is current stays (X51)."""
    connection, conversation, branch = scope.tx.connection, scope.conversation, scope.branch
    line = Line(conversation, scope.line, scope.head.generation, scope.head.purged_through)
    before = _Before(
        pointed=lambda span: _pointed_rows(connection, conversation, branch, span),
        accepted=lambda span: rows_where(
            connection,
            "conversation = ? AND branch = ? AND covers_from <= ? AND covers_to >= ? AND status = 'accepted'"
            " AND event < ?",
            (conversation, branch, span[1], span[0], event),
        ),
    )
    leaving, coming = _moves(connection, line, row_of_event(connection, event), before)
    for row in leaving:
        connection.execute(
            "DELETE FROM active_run WHERE conversation = ? AND branch = ? AND covers_from = ?",
            (conversation, branch, row.covers_from),
        )
    scope.tx.fail("after_index")
    for row in coming:
        connection.execute(
            "INSERT INTO active_run (conversation, branch, covers_from, covers_to, summary) VALUES (?, ?, ?, ?, ?)",
            (conversation, branch, row.covers_from, row.covers_to, row.event),
        )
    scope.tx.fail("after_pointer")


def _pointed_rows(connection: apsw.Connection, conversation: int, branch: int, span: Span) -> list[SummaryRow]:
    rows: list[Any] = connection.execute(
        "SELECT summary FROM active_run WHERE conversation = ? AND branch = ? AND covers_from <= ? AND covers_to >= ?",
        (conversation, branch, span[1], span[0]),
    ).fetchall()
    return [row_of_event(connection, int(row[0])) for row in rows]


def _moves(
    connection: apsw.Connection, line: Line, row: SummaryRow, before: _Before
) -> tuple[Sequence[SummaryRow], Sequence[SummaryRow]]:
    """Return which rows leave the pointer and which come, because of a new version.

    Of all that overlaps there and still stands the widest come, so a narrow version leaves a wide one its place, and
    what a stale one had replaced comes back beside the new one.
    """
    active = Active(row.policy_version, row.strategy_version)
    leaving = before.pointed(row.covers)
    freed: list[SummaryRow] = []
    if leaving:
        gone = {other.event for other in leaving}
        area = (min(other.covers_from for other in leaving), max(other.covers_to for other in leaving))
        freed = [
            other
            for other in before.accepted(area)
            if all(one.event in gone for one in before.pointed(other.covers))
            and moved_on(connection, line, other, active) is None
        ]
    return leaving, choose([*freed, row])


@dataclass(slots=True)
class _Branch:
    """One branch while its accepted versions are taken again in order."""

    accepted: list[SummaryRow] = field(default_factory=list)
    kept: list[SummaryRow] = field(default_factory=list)

    def pointed(self, span: Span) -> list[SummaryRow]:
        """Return the pointed rows that overlap an interval; they never overlap each other."""
        place = max(0, bisect_left(self.kept, span[0], key=lambda row: row.covers_from) - 1)
        found = []
        for row in self.kept[place:]:
            if row.covers_from > span[1]:
                break
            if row.covers_to >= span[0]:
                found.append(row)
        return found

    def overlapping(self, span: Span) -> list[SummaryRow]:
        """Return the accepted rows that overlap an interval."""
        return [row for row in self.accepted if row.covers_from <= span[1] and row.covers_to >= span[0]]


def pointers_by_facts(connection: apsw.Connection, conversation: int) -> list[tuple[int, int, int, int]]:
    """Return what `active_run` must hold, from the facts: branch, covers_from, covers_to, event of the summary.

    Every accepted version is taken again in the order it was written, with what was visible then.
    """
    branches: dict[int, _Branch] = {}
    for row in rows_where(connection, "conversation = ? AND status = 'accepted'", (conversation,)):
        segments = lineage(connection, row.branch, row.event)
        line = Line(conversation, segments, row.generation, _purged_through(connection, conversation, row.event))
        state = branches.setdefault(row.branch, _Branch())
        leaving, coming = _moves(connection, line, row, _Before(state.pointed, state.overlapping))
        gone = {other.event for other in leaving}
        kept = [*(other for other in state.kept if other.event not in gone), *coming]
        state.kept = sorted(kept, key=lambda other: other.covers_from)
        state.accepted.append(row)
    return sorted(
        (branch, row.covers_from, row.covers_to, row.event) for branch, state in branches.items() for row in state.kept
    )


def _purged_through(connection: apsw.Connection, conversation: int, event: int) -> int | None:
    row: Any = connection.execute(
        "SELECT max(through_sequence) FROM retention WHERE conversation = ? AND event <= ?", (conversation, event)
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])
