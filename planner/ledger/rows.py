"""Rows of messages and turns as a line sees them: the newest version of each, checked by its own digest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import apsw

from planner.ledger.facts import fact_digest
from planner.ledger.faults import corrupt
from planner.ledger.lineage import Segment
from planner.values.reasons import PlannerFault
from planner.values.turn import Material, ProtectionReason, Role, TurnState

_TURN = (
    "SELECT conversation, branch, ordinal, event, id, sequence, version, messages, state, actor, material, marks,"
    " supersedes, items, digest FROM turn WHERE conversation = ? AND branch = ? AND ordinal BETWEEN ? AND ?"
    " AND event <= ?"
)
_MESSAGE = (
    "SELECT conversation, branch, sequence, event, turn, id, version, role, protection, body, salt, digest"
    " FROM message INDEXED BY message_turn"
    " WHERE conversation = ? AND branch = ? AND turn BETWEEN ? AND ? AND event <= ?"
)


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One version of a turn; `marks` are constraint ids with the key of their wording in `part`."""

    conversation: int
    branch: int
    ordinal: int
    event: int
    id: str
    sequence: int
    version: int
    messages: int
    state: TurnState
    actor: str | None = None
    material: Material | None = None
    marks: tuple[tuple[str, str | None], ...] = ()
    supersedes: tuple[str, ...] = ()
    items: tuple[tuple[str, Literal["pending", "blocked", "done"]], ...] = ()

    def columns(self) -> dict[str, int | str | None]:
        """Return what a new version states of itself, without conversation, branch, ordinal and event."""
        return {
            "id": self.id,
            "sequence": self.sequence,
            "version": self.version,
            "messages": self.messages,
            "state": self.state,
            "actor": self.actor,
            "material": self.material,
            "marks": _list(self.marks),
            "supersedes": _list(self.supersedes),
            "items": _list(self.items),
        }


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One version of a message; `body` is None once retention took it."""

    conversation: int
    branch: int
    sequence: int
    event: int
    turn: int | None
    id: str
    version: int
    role: Role
    protection: ProtectionReason | None
    body: str | None = field(repr=False)


def _list(values: Sequence[object]) -> str | None:
    return json.dumps(values, separators=(",", ":")) if values else None


def turn_row(row: Sequence[Any]) -> TurnRow:
    """Return a stored row of `turn`, digest last, as a value. Raises PlannerFault `ledger_corrupt`."""
    *columns, digest = row
    if fact_digest("turn", columns) != digest:
        corrupt(f"turn row of event {columns[3]}")
    *plain, marks, supersedes, items = columns
    values: tuple[Any, ...] = (
        *plain,
        tuple((name, part) for name, part in _parsed(marks)),
        tuple(_parsed(supersedes)),
        tuple((name, status) for name, status in _parsed(items)),
    )
    return TurnRow(*values)


def _parsed(text: str | None) -> list[Any]:
    found: list[Any] = json.loads(text) if text is not None else []
    return found


def message_row(row: Sequence[Any]) -> MessageRow:
    """Return a stored row of `message`, salt and digest last. Raises PlannerFault `ledger_corrupt`.

    What retention emptied has no digest to be checked by; `verify` compares it with the boundary.
    """
    *columns, salt, digest = row
    if salt is not None and fact_digest("message", columns, salt) != digest:
        corrupt(f"message row of event {columns[3]}")
    return MessageRow(*columns)


def newest_turns(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], first: int, last: int
) -> list[TurnRow]:
    """Return the newest visible version of turns `first..last`, by ordinal; a gap is damage."""
    newest: dict[int, Any] = {}
    for segment in line:
        bindings = (conversation, segment.branch, first, min(last, segment.at_ordinal), segment.at_event)
        row: Any
        for row in connection.execute(_TURN, bindings).fetchall():
            known = newest.get(row[2])
            if known is None or known[3] < row[3]:
                newest[row[2]] = row
    rows = [turn_row(newest[ordinal]) for ordinal in sorted(newest)]
    if [entry.ordinal for entry in rows] != list(range(first, last + 1)):
        corrupt(f"turns {first} to {last} are not all there")
    return rows


def newest_turn(connection: apsw.Connection, conversation: int, line: Sequence[Segment], ordinal: int) -> TurnRow:
    """Return the newest visible version of one turn."""
    return newest_turns(connection, conversation, line, ordinal, ordinal)[0]


def newest_messages(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], first: int, last: int
) -> dict[int, list[MessageRow]]:
    """Return the newest visible messages of turns `first..last`: ordinal -> messages by sequence."""
    newest: dict[int, Any] = {}
    for segment in line:
        bindings = (conversation, segment.branch, first, min(last, segment.at_ordinal), segment.at_event)
        row: Any
        for row in connection.execute(_MESSAGE, bindings).fetchall():
            known = newest.get(row[2])
            if known is None or known[3] < row[3]:
                newest[row[2]] = row
    found: dict[int, list[MessageRow]] = {}
    for sequence in sorted(newest):
        message = message_row(newest[sequence])
        found.setdefault(message.turn if message.turn is not None else -1, []).append(message)
    return found


def find_turn(connection: apsw.Connection, conversation: int, line: Sequence[Segment], turn_id: str) -> TurnRow | None:
    """Return the newest visible version of a turn by its id; None where this line has none of that id."""
    row = connection.execute(
        "SELECT branch, ordinal, event FROM turn WHERE conversation = ? AND id = ? AND version = 1",
        (conversation, turn_id),
    ).fetchone()
    if row is None or not _is_seen(line, row):
        return None
    found = newest_turn(connection, conversation, line, row[1])
    if found.id != turn_id:
        corrupt(f"index of turn {found.ordinal}")
    return found


def _is_seen(line: Iterable[Segment], row: Sequence[int]) -> bool:
    branch, ordinal, event = row
    return any(
        branch == segment.branch and ordinal <= segment.at_ordinal and event <= segment.at_event for segment in line
    )


def find_message(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], message_id: str
) -> MessageRow | None:
    """Return the newest visible version of a message by its id; None where this line has none of that id."""
    row = connection.execute(
        "SELECT branch, turn, event, sequence FROM message WHERE conversation = ? AND id = ? AND version = 1",
        (conversation, message_id),
    ).fetchone()
    if row is None or row[1] is None or not _is_seen(line, row[:3]):
        return None
    found = newest_messages(connection, conversation, line, row[1], row[1])
    entry = next((entry for entry in found.get(row[1], ()) if entry.sequence == row[3]), None)
    if entry is None or entry.id != message_id:
        corrupt(f"index of the message with sequence {row[3]}")
    return entry


def known_message(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], message_id: str
) -> MessageRow:
    """Return a message that must be there. Raises PlannerFault `conversation_not_found`."""
    found = find_message(connection, conversation, line, message_id)
    if found is None:
        raise PlannerFault("conversation_not_found", "no such message in this line")
    return found
