"""Rows of summary versions, their sources and their pointer (R3, R76, R121, X51)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apsw

from planner.ledger.codec import decode, encode
from planner.ledger.facts import TABLES, fact_digest
from planner.ledger.faults import corrupt
from planner.ledger.lineage import Segment
from planner.ledger.scope import Scope
from planner.values.summary import SummaryRecord

_COLUMNS = ", ".join(TABLES["summary"].columns)
_SELECT = f"SELECT {_COLUMNS}, salt, digest FROM summary"  # noqa: S608 - names of our own table


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One version as stored; `body` is None where it was never kept, or retention took it (`purged`)."""

    event: int
    conversation: int
    branch: int
    id: str
    version: int
    plan_id: str
    generation: int
    revision: int
    verified_event: int
    covers_from: int
    covers_to: int
    through_sequence: int
    source_fingerprint: str
    policy_version: str
    strategy_version: str
    status: str
    cause: str | None
    causing_id: str | None
    adopted_from: int | None
    diagnostics: str | None
    body: str | None = field(repr=False)

    @property
    def covers(self) -> tuple[int, int]:
        """The interval of turn sequences, both inclusive."""
        return self.covers_from, self.covers_to

    @property
    def width(self) -> int:
        """How far the interval reaches."""
        return self.covers_to - self.covers_from

    def record(self) -> SummaryRecord | None:
        """Return the record, None without a body. Raises PlannerFault `ledger_corrupt`."""
        if self.body is None:
            return None
        return decode(SummaryRecord, self.body, f"summary of event {self.event}")


def summary_row(row: Sequence[Any]) -> SummaryRow:
    """Return a stored row, salt and digest last, checked. Raises PlannerFault `ledger_corrupt`.

    An accepted row without a body lost it to retention and has no digest to be checked by.
    """
    *columns, salt, digest = row
    found = SummaryRow(*columns)
    if (salt is not None or found.status != "accepted") and fact_digest("summary", columns, salt) != digest:
        corrupt(f"summary of event {found.event}")
    return found


def rows_where(connection: apsw.Connection, where: str, bindings: Sequence[int | str | None]) -> list[SummaryRow]:
    """Return the rows that a condition of ours names, by event."""
    rows: list[Any] = connection.execute(f"{_SELECT} WHERE {where} ORDER BY event", tuple(bindings)).fetchall()
    return [summary_row(row) for row in rows]


def row_of_id(connection: apsw.Connection, conversation: int, summary_id: str) -> SummaryRow | None:
    """Return the version of an id; a save that failed has none."""
    found = rows_where(connection, "conversation = ? AND id = ? AND status <> 'failed'", (conversation, summary_id))
    return found[0] if found else None


def row_of_event(connection: apsw.Connection, event: int) -> SummaryRow:
    """Return the version of an event that another row names."""
    found = rows_where(connection, "event = ?", (event,))
    if not found:
        corrupt(f"summary of event {event}")
    return found[0]


def is_visible(row: SummaryRow, line: Sequence[Segment]) -> bool:
    """Tell whether a line sees a version: made in it, before both cuts of its segment (R61, X11)."""
    return any(
        row.branch == part.branch and row.covers_to <= part.at_sequence and row.event <= part.at_event for part in line
    )


def next_version(connection: apsw.Connection, conversation: int, covers: tuple[int, int]) -> int:
    """Return the number of the next version of a coverage, from 1."""
    row: Any = connection.execute(
        "SELECT count(*) FROM summary WHERE conversation = ? AND covers_from = ? AND covers_to = ?"
        " AND status = 'accepted'",
        (conversation, *covers),
    ).fetchone()
    return 1 + (int(row[0]) if row is not None else 0)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a version when it is written; only an accepted one keeps its words (R116, R188)."""

    status: str
    cause: str | None = None
    causing_id: str | None = None
    adopted_from: int | None = None
    diagnostics: str | None = None


def put_version(scope: Scope, record: SummaryRecord, fate: Fate, verified_event: int) -> tuple[int, SummaryRecord]:
    """Record one version and return its event and the record as it is stored, with its number."""
    connection, conversation = scope.tx.connection, scope.conversation
    version = next_version(connection, conversation, (record.covers_from, record.covers_to))
    record = replace(record, summary_version=version)
    event = scope.tx.record(
        "summary",
        conversation=conversation,
        branch=scope.branch,
        id=record.id,
        version=version,
        plan_id=record.plan_id,
        generation=record.source_generation,
        revision=record.source_revision,
        verified_event=verified_event,
        covers_from=record.covers_from,
        covers_to=record.covers_to,
        through_sequence=record.through_sequence,
        source_fingerprint=record.source_fingerprint,
        policy_version=record.policy_version,
        strategy_version=record.strategy_version,
        status=fate.status,
        cause=fate.cause,
        causing_id=fate.causing_id,
        adopted_from=fate.adopted_from,
        diagnostics=fate.diagnostics,
        body=encode(record) if fate.status == "accepted" else None,
    )
    return event, record


@dataclass(frozen=True, slots=True)
class Source:
    """Where a source message stands: its sequence, its version, and the sequence of its turn."""

    message_id: str
    sequence: int
    version: int
    turn_sequence: int


def sources_of(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], record: SummaryRecord
) -> tuple[Source, ...] | str:
    """Return where each source stands, or the id of the first that this line does not have (R78)."""
    found: list[Source] = []
    turns: dict[int, int] = {}
    for message_id, version in zip(record.source_ids, record.source_versions, strict=True):
        row: Any = connection.execute(
            "SELECT branch, sequence, turn, event FROM message WHERE conversation = ? AND id = ? AND version = 1",
            (conversation, message_id),
        ).fetchone()
        if row is None or row[2] is None or not _is_seen(line, row):
            return message_id
        ordinal = int(row[2])
        if ordinal not in turns:
            turns[ordinal] = turn_sequence(connection, conversation, line, ordinal)
        found.append(Source(message_id, int(row[1]), version, turns[ordinal]))
    return tuple(found)


def _is_seen(line: Sequence[Segment], row: tuple[int, int, int, int]) -> bool:
    branch, _, ordinal, event = row
    return any(branch == part.branch and ordinal <= part.at_ordinal and event <= part.at_event for part in line)


def turn_sequence(connection: apsw.Connection, conversation: int, line: Sequence[Segment], ordinal: int) -> int:
    """Return the sequence of a turn from its ordinal."""
    row: Any = None
    for part in line:
        if row is None and ordinal <= part.at_ordinal:
            row = connection.execute(
                "SELECT sequence FROM turn WHERE conversation = ? AND branch = ? AND ordinal = ? AND event <= ?",
                (conversation, part.branch, ordinal, part.at_event),
            ).fetchone()
    return int(row[0]) if row is not None else corrupt(f"turn {ordinal}")


def put_sources(scope: Scope, summary: int, sources: Sequence[Source]) -> None:
    """Write the index from a version to its messages; it is the other half of the version (R121)."""
    scope.tx.connection.executemany(
        "INSERT INTO summary_source (summary, position, conversation, message_id, sequence, version, turn_sequence)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (summary, place, scope.conversation, one.message_id, one.sequence, one.version, one.turn_sequence)
            for place, one in enumerate(sources)
        ],
    )
    scope.tx.fail("after_sources")


def pointed(connection: apsw.Connection, conversation: int, line: Sequence[Segment]) -> Iterator[int]:
    """Yield the events of the versions that the pointers of a line name, of those it sees."""
    for part in line:
        rows: list[Any] = connection.execute(
            "SELECT summary FROM active_run WHERE conversation = ? AND branch = ? AND covers_to <= ? AND summary <= ?",
            (conversation, part.branch, part.at_sequence, part.at_event),
        ).fetchall()
        for row in rows:
            yield int(row[0])
