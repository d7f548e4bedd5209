"""Which stored summaries are current in a line of branches, from the index of touches alone (design.md §8, Use).

A version is current iff nothing that this line sees touched its turns after it was verified, and its versions are the
active ones. `values/check_summary.py` says the same from the turns themselves. The index is the stricter one: what was
changed and changed back touched the summary all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apsw

from planner.ledger.lineage import Segment
from planner.ledger.plan_rows import plan_row
from planner.ledger.stored import Active
from planner.ledger.summary_rows import SummaryRow, pointed, rows_where, turn_sequence
from planner.values.compaction import Staleness
from planner.values.summary import SummaryRecord

CAUSES = {
    "edit": "source_changed",
    "protection": "protection_changed",
    "state": "source_missing",
    "constraint": "constraint_changed",
    "item": "open_item_changed",
    "purge": "source_missing",
    "fact": "fact_resolved",
}
"""Cause of a touch -> cause of a `Staleness`, in the words of values/check_summary.py."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a reader sees: a conversation along a line of branches, as of the first segment's event."""

    conversation: int
    segments: tuple[Segment, ...]
    generation: int
    purged_through: int | None = None


@dataclass(frozen=True, slots=True)
class Current:
    """Current versions by coverage, and why each other one that a pointer names is not."""

    rows: tuple[SummaryRow, ...]
    summaries: tuple[SummaryRecord, ...] = field(repr=False)
    stale: tuple[Staleness, ...]


def current_summaries(connection: apsw.Connection, line: Line, active: Active) -> Current:
    """Return what stands for its turns in this line now.

    A version of an older generation or of an ancestor branch is shown as its adoption: with this line's generation
    (X11). Only versions of the active policy and strategy are read, so the cost does not grow with old ones.
    """
    named = set(pointed(connection, line.conversation, line.segments))
    rows = [row for row in _accepted(connection, line, active) if _has_active_versions(row, active)]
    problems = {row.event: problem_of(connection, line, row, active) for row in rows}
    valid = [row for row in rows if problems[row.event] is None]
    problems.update(_void_layouts(connection, line, valid))
    chosen = choose(row for row in valid if problems[row.event] is None)
    stale = {row.event: problems[row.event] for row in rows if row.event in named}
    for row in _of_events(connection, named - stale.keys()):
        stale[row.event] = problem_of(connection, line, row, active)
    return Current(
        rows=chosen,
        summaries=tuple(shown for row in chosen for shown in (_shown(row, line.generation),) if shown is not None),
        stale=tuple(found for _, found in sorted(stale.items()) if found is not None),
    )


def choose(valid: Iterable[SummaryRow]) -> tuple[SummaryRow, ...]:
    """Return versions that do not overlap, by coverage: the widest first, of equal ones the newest (X51)."""
    taken: list[SummaryRow] = []
    starts: list[int] = []
    for row in sorted(valid, key=lambda row: (-row.width, -row.event)):
        # What is taken never overlaps, so only the neighbours on both sides can.
        place = bisect_left(starts, row.covers_from)
        before, after = taken[place - 1 : place] if place else [], taken[place : place + 1]
        if all(one.covers_to < row.covers_from for one in before) and all(
            row.covers_to < one.covers_from for one in after
        ):
            taken.insert(place, row)
            starts.insert(place, row.covers_from)
    return tuple(taken)


def problem_of(connection: apsw.Connection, line: Line, row: SummaryRow, active: Active) -> Staleness | None:
    """Return why an accepted version is not current, None where it is; the layout of its plan is not looked at."""
    found = moved_on(connection, line, row, active)
    # Retention takes the words of old versions only; without them there is nothing to show.
    return stale_by(row, "source_missing") if found is None and row.body is None else found


def moved_on(connection: apsw.Connection, line: Line, row: SummaryRow, active: Active) -> Staleness | None:
    """Return which version or source of a summary is no longer what it was when it was verified."""
    if active.policy_version not in (None, row.policy_version):
        return stale_by(row, "policy_version")
    if active.strategy_version not in (None, row.strategy_version):
        return stale_by(row, "strategy_version")
    touch = first_touch(connection, line, row.covers, row.verified_event)
    return None if touch is None else stale_by(row, CAUSES[touch[1]], touch[2])


def first_touch(
    connection: apsw.Connection, line: Line, covers: tuple[int, int], after: int
) -> tuple[int, str, str] | None:
    """Return the first thing that touched an interval after an event: event, cause, causing id.

    A purge does not touch a summary whose turns all went: it stays, as the declared border of history (X41, R146).
    """
    purged_whole = line.purged_through is not None and covers[1] <= line.purged_through
    found: list[tuple[int, str, str]] = []
    for part in line.segments:
        rows: list[Any] = connection.execute(
            "SELECT event, cause, causing_id FROM touch WHERE conversation = ? AND branch = ?"
            " AND sequence BETWEEN ? AND ? AND event > ? AND event <= ?",
            (line.conversation, part.branch, covers[0], min(covers[1], part.at_sequence), after, part.at_event),
        ).fetchall()
        found += [(int(event), cause, name) for event, cause, name in rows if not (purged_whole and cause == "purge")]
    return min(found, default=None)


def stale_by(row: SummaryRow, cause: str, causing_id: str | None = None) -> Staleness:
    """Return the staleness of a version."""
    return Staleness(row.id, cause, causing_id, row.covers)


def _shown(row: SummaryRow, generation: int) -> SummaryRecord | None:
    record = row.record()
    if record is None or record.source_generation == generation:
        return record
    return replace(record, source_generation=generation)


def _has_active_versions(row: SummaryRow, active: Active) -> bool:
    return active.policy_version in (None, row.policy_version) and active.strategy_version in (
        None, row.strategy_version,
    )  # fmt: skip


def _accepted(connection: apsw.Connection, line: Line, active: Active) -> list[SummaryRow]:
    found: list[SummaryRow] = []
    for part in line.segments:
        found += rows_where(
            connection,
            "conversation = ? AND branch = ? AND status = 'accepted' AND covers_to <= ? AND event <= ?"
            " AND policy_version = ifnull(?, policy_version) AND strategy_version = ifnull(?, strategy_version)",
            (
                line.conversation, part.branch, part.at_sequence, part.at_event, active.policy_version,
                active.strategy_version,
            ),
        )  # fmt: skip
    return found


def _of_events(connection: apsw.Connection, events: Iterable[int]) -> list[SummaryRow]:
    return [row for event in sorted(events) for row in rows_where(connection, "event = ?", (event,))]


def _void_layouts(connection: apsw.Connection, line: Line, valid: Sequence[SummaryRow]) -> dict[int, Staleness]:
    """Return the summaries of every plan that preserved a message which is there no more (R140).

    Only retention takes messages away, and one that a summary stands for by now is no loss (X7, X41).
    """
    if line.purged_through is None:
        return {}
    newest: Any = connection.execute(
        "SELECT max(event) FROM retention WHERE conversation = ?", (line.conversation,)
    ).fetchone()
    found: dict[int, Staleness] = {}
    missing: dict[str, str | None] = {}
    standing = choose(valid)
    for row in valid:
        if row.verified_event > (newest[0] or 0):
            continue
        if row.plan_id not in missing:
            missing[row.plan_id] = _missing_preserved(connection, line, row.plan_id, standing)
        causing_id = missing[row.plan_id]
        if causing_id is not None:
            found[row.event] = stale_by(row, "preserved_missing", causing_id)
    return found


def _missing_preserved(
    connection: apsw.Connection, line: Line, plan_id: str, standing: Sequence[SummaryRow]
) -> str | None:
    """Return the first preserved message of a plan that was purged between the summaries, None where none was."""
    plan = plan_row(connection, line.conversation, plan_id)
    if plan is None or not plan.plan.preserved_ids:
        return None
    first: Any = connection.execute(
        "SELECT sequence FROM message WHERE conversation = ? AND id = ? AND version = 1",
        (line.conversation, plan.plan.preserved_ids[0]),
    ).fetchone()
    preserved = frozenset(plan.plan.preserved_ids)
    start, end = (0 if first is None else int(first[0])), line.purged_through or 0
    for until, after in (*(row.covers for row in standing), (end + 1, end + 1)):
        for name, ordinal in _purged_messages(connection, line, (start, min(until - 1, end))):
            if name in preserved and not _is_covered(connection, line, ordinal, standing):
                return name
        start = max(start, after + 1)
    return None


def _is_covered(connection: apsw.Connection, line: Line, ordinal: int, standing: Sequence[SummaryRow]) -> bool:
    """The last messages of a covered turn stand behind the interval, which is counted in turns."""
    sequence = turn_sequence(connection, line.conversation, line.segments, ordinal)
    return any(row.covers_from <= sequence <= row.covers_to for row in standing)


def _purged_messages(connection: apsw.Connection, line: Line, span: tuple[int, int]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for part in line.segments if span[0] <= span[1] else ():
        rows: list[Any] = connection.execute(
            "SELECT DISTINCT id, turn FROM message WHERE conversation = ? AND branch = ? AND sequence BETWEEN ? AND ?"
            " AND event <= ? AND body IS NULL AND turn <= ?",
            (line.conversation, part.branch, span[0], span[1], part.at_event, part.at_ordinal),
        ).fetchall()
        found += [(str(name), int(turn)) for name, turn in rows]
    return found
