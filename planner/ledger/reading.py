"""What a plan, a screen or an export reads: heads, turns by pages, the view of one plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from planner.ledger.chains import chain_at, first_ordinal
from planner.ledger.citing import CitingTurns
from planner.ledger.current import Line, current_summaries
from planner.ledger.derived import read_pinned
from planner.ledger.heads import HeadRow, conversation_key, read_branch, read_head
from planner.ledger.history import message_versions, turn_versions
from planner.ledger.holding import read_held
from planner.ledger.lineage import Segment, branch_name, lineage
from planner.ledger.pages import ShownTurns, message_value, stream
from planner.ledger.rows import TurnRow, message_row, turn_row
from planner.ledger.store import Store, require_generation
from planner.ledger.stored import Active
from planner.values.reasons import PlannerFault
from planner.values.receipt import Removal
from planner.values.turn import Message, Turn, TurnState
from planner.values.view import View

# Left to itself SQLite takes the primary key for both, and reads every turn.
_HIDDEN = (
    "SELECT conversation, branch, ordinal, event, id, sequence, version, messages, state, actor, material, marks,"
    " supersedes, items, digest FROM turn INDEXED BY turn_hidden"
    " WHERE conversation = ? AND branch = ? AND ordinal BETWEEN ? AND ?"
    " AND event <= ? AND state IN ('cancelled', 'superseded')"
)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a conversation stands; `last_sequence` is None without a message, `turns` counts its branch's line."""

    conversation_id: str
    branch: str
    generation: int
    revision: int
    event: int
    last_sequence: int | None
    turns: int


@dataclass(frozen=True, slots=True)
class TurnVersion:
    """One state a turn was in, for an audit: the terminal record of a cancelled one names its actor (X37)."""

    turn_id: str
    sequence: int
    version: int
    event: int
    state: TurnState
    actor: str | None = None


def _branch_key(connection: apsw.Connection, head: HeadRow, branch: str | None) -> int:
    if branch is None:
        return head.branch
    row = connection.execute(
        "SELECT key FROM branch WHERE conversation = ? AND id = ?", (head.conversation, branch)
    ).fetchone()
    if row is None:
        raise PlannerFault("conversation_not_found", "no such branch")
    return int(str(row[0]))


def read_heads(store: Store, conversation_id: str) -> Head:
    """Return where a conversation stands. Raises PlannerFault `conversation_not_found`."""
    with store.read("read a head") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        return Head(
            conversation_id=conversation_id,
            branch=branch_name(connection, head.branch),
            generation=head.generation,
            revision=head.revision,
            event=head.event,
            last_sequence=None if head.last_sequence < 0 else head.last_sequence,
            turns=read_branch(connection, head.conversation, head.branch).turns,
        )


def conversations(store: Store) -> tuple[str, ...]:
    """Return the ids of all conversations, in the order they began."""
    with store.read("list conversations") as connection:
        return tuple(str(row[0]) for row in connection.execute("SELECT id FROM conversation ORDER BY key").fetchall())


def branches(store: Store, conversation_id: str) -> tuple[str, ...]:
    """Return the ids of a conversation's branches, oldest first."""
    with store.read("list branches") as connection:
        key = conversation_key(connection, conversation_id)
        rows = connection.execute("SELECT id FROM branch WHERE conversation = ? ORDER BY key", (key,)).fetchall()
        return tuple(str(row[0]) for row in rows)


def read_turns(store: Store, conversation_id: str, branch: str | None) -> Iterator[Turn]:
    """Yield every visible turn by sequence, whatever its state, as of the moment of the call."""
    with store.read("read turns") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        key = _branch_key(connection, head, branch)
        line = lineage(connection, key, head.event)
        end = read_branch(connection, head.conversation, key).turns
        start = first_ordinal(connection, head.conversation, line, head.purged_through)
    return stream(store, head.conversation, line, (start, end))


def read_versions(store: Store, conversation_id: str, message_id: str) -> tuple[Message, ...]:
    """Return every version of a message, oldest first, for an audit; a purged one shows no content."""
    with store.read("read versions") as connection:
        key = conversation_key(connection, conversation_id)
        rows = message_versions(connection, key, message_id)
        if not rows:
            raise PlannerFault("conversation_not_found", "no such message")
        if rows[0].turn is None:
            raise PlannerFault("conversation_not_found", "a record that is not classified has no versions")
        return tuple(
            Message(row.role, row.id, protection_reason=row.protection, sequence=row.sequence, version=row.version)
            if row.body is None
            else message_value(row)
            for row in rows
        )


def read_turn_versions(store: Store, conversation_id: str, turn_id: str) -> tuple[TurnVersion, ...]:
    """Return every version of a turn that any branch wrote, oldest first. Raises PlannerFault where there is none."""
    with store.read("read versions") as connection:
        key = conversation_key(connection, conversation_id)
        first: Any = connection.execute(
            "SELECT ordinal FROM turn WHERE conversation = ? AND id = ? AND version = 1", (key, turn_id)
        ).fetchone()
        if first is None:
            raise PlannerFault("conversation_not_found", "no such turn")
        return tuple(
            TurnVersion(row.id, row.sequence, row.version, row.event, row.state, row.actor)
            for row in turn_versions(connection, key, first[0], turn_id)
        )


def read_view(store: Store, conversation_id: str, generation: int | None, active: Active) -> View:
    """Return what one plan needs, from one snapshot; turns are read when they are looked at, as of that snapshot.

    The cost does not grow with the number of turns: only pins, live constraints and hidden turns are listed.
    active  the versions in force, for which summaries are current.
    Raises PlannerFault `stale_generation`, `conversation_not_found` and those of the storage.
    """
    with store.read("read a view") as connection:
        head = read_head(connection, conversation_key(connection, conversation_id))
        require_generation(head, generation)
        line = lineage(connection, head.branch, head.event)
        counters = read_branch(connection, head.conversation, head.branch)
        start = first_ordinal(connection, head.conversation, line, head.purged_through)
        span = (start, counters.turns)
        hidden = _hidden(connection, head.conversation, line, span)
        pinned = read_pinned(connection, counters)
        found = read_held(connection, counters, line, pinned, hidden, start)
        turns = ShownTurns(store, head.conversation, line, span, sorted(hidden))
        seen = Line(head.conversation, line, head.generation, head.purged_through)
        current = current_summaries(connection, seen, active)
        return View(
            conversation_id=conversation_id,
            branch=branch_name(connection, head.branch),
            generation=head.generation,
            revision=head.revision,
            event=head.event,
            turns=turns,
            pinned=turns.places(pinned),
            hidden=(
                *(Removal(f"turn/{hidden[ordinal].id}", hidden[ordinal].state) for ordinal in sorted(hidden)),
                *_unclassified(connection, head.conversation, line),
            ),
            chain=chain_at(connection, head.conversation, line, span),
            constraints=found.constraints,
            summaries=current.summaries,
            stale=current.stale,
            boundary=head.purged_through,
            lost=found.lost,
            held=turns.places(found.held),
            withdrawing=turns.places(found.withdrawing),
            citing=CitingTurns(store, head.conversation, line, turns),
        )


def _hidden(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], span: tuple[int, int]
) -> dict[int, TurnRow]:
    """Return the turns of a span that are never rendered, by ordinal; the two states are final."""
    found: dict[int, TurnRow] = {}
    for segment in line:
        bindings = (
            conversation, segment.branch, span[0], min(span[1] - 1, segment.at_ordinal), segment.at_event,
        )  # fmt: skip
        for row in connection.execute(_HIDDEN, bindings).fetchall():
            turn = turn_row(row)
            if turn.ordinal not in found or found[turn.ordinal].event < turn.event:
                found[turn.ordinal] = turn
    return found


def _unclassified(connection: apsw.Connection, conversation: int, line: Sequence[Segment]) -> list[Removal]:
    rows: list[Any] = []
    for segment in line:
        rows += connection.execute(
            "SELECT conversation, branch, sequence, event, turn, id, version, role, protection, body, salt, digest"
            " FROM message INDEXED BY message_unclassified"
            " WHERE conversation = ? AND branch = ? AND turn IS NULL"
            " AND sequence <= ? AND event <= ?",
            (conversation, segment.branch, segment.at_sequence, segment.at_event),
        ).fetchall()
    found = sorted(map(message_row, rows), key=lambda row: row.sequence)
    return [Removal(f"message/{row.id}", "unclassified_record") for row in found]
