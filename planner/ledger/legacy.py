"""Records of another store: what has a role and a source becomes a turn, the rest stays raw (R14)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.ledger.heads import conversation_key
from planner.ledger.messages import check_stored_turn
from planner.ledger.rows import TurnRow, message_row
from planner.ledger.scope import Appended, Scope, check_id, open_scope
from planner.ledger.store import Store
from planner.values.field_rules import invalid, is_id, text_problem
from planner.values.reasons import PlannerFault
from planner.values.turn import Message, Role


@dataclass(frozen=True, slots=True)
class LegacyRecord:
    """One record as the other store held it, in its order; `role` and `source` may be unknown."""

    id: str
    text: str = field(repr=False)
    role: str | None = None
    source: str | None = None


def import_legacy(store: Store, conversation_id: str, records: Sequence[LegacyRecord]) -> Appended:
    """Take over records in their order, in one transaction.

    A user record opens a turn that the assistant records behind it complete. A record without a known role (user or
    assistant) or without a source, one whose text no message may hold, and an answer without its question are
    unclassified: kept to the letter, listed as `unclassified_record`, never rendered and never compacted.
    Records whose ids are there already with the same text, or whose text was purged, are left out.
    """
    for index, record in enumerate(records):
        if type(record) is not LegacyRecord or type(record.text) is not str:
            invalid(f"$.records[{index}]", "expected a LegacyRecord with a text")
        check_id(record.id, f"$.records[{index}].id")
    with store.write("import records") as tx:
        scope = open_scope(tx, conversation_id, None, create=True)
        new = [record for record in records if not _is_known(scope, record)]
        group: list[LegacyRecord] = []
        for record in new:
            if _is_message(record) and (record.role == "user" or not group):
                _put_group(scope, group)
                group = [record]
            elif _is_message(record):
                group.append(record)
            else:
                _put_group(scope, group)
                group = []
                _put_raw(scope, record)
        _put_group(scope, group)
        return scope.result(None)


def _is_known(scope: Scope, record: LegacyRecord) -> bool:
    row = scope.tx.connection.execute(
        "SELECT conversation, branch, sequence, event, turn, id, version, role, protection, body, salt, digest"
        " FROM message WHERE conversation = ? AND id = ? AND version = 1",
        (scope.conversation, record.id),
    ).fetchone()
    if row is None:
        return False
    known = message_row(row)
    # What retention took is not brought back, and nothing tells any more whether the words were the same.
    if known.body is not None and json.loads(known.body).get("text") != record.text:
        raise PlannerFault("duplicate_id", "a record's id is used with another text")
    return True


def _is_message(record: LegacyRecord) -> bool:
    return record.role in ("user", "assistant") and is_id(record.source) and text_problem(record.text) is None


def _put_group(scope: Scope, group: Sequence[LegacyRecord]) -> None:
    """Store a question with its answers as a completed turn; anything else of them raw."""
    if not group:
        return
    if group[0].role != "user" or len(group) < 2 or not _turn_is_free(scope, group[0].id):
        for record in group:
            _put_raw(scope, record)
        return
    messages = []
    for record in group:
        role: Role = "user" if record.role == "user" else "assistant"
        sequence = scope.next_sequence(None, "$.records")
        messages.append(Message(role, record.id, record.text, source=record.source, sequence=sequence))
    first = messages[0].sequence or 0
    counters = scope.counters
    row = TurnRow(
        scope.conversation, scope.branch, counters.turns, 0, group[0].id, first, 1, len(messages), "completed"
    )
    scope.tx.set_branch(replace(counters, turns=counters.turns + 1))
    row = scope.put_turn("turn", row)
    for message in messages:
        scope.put_message("message", row, message)
    scope.settle(row.ordinal)
    check_stored_turn(scope, row)


def _turn_is_free(scope: Scope, turn_id: str) -> bool:
    return (
        scope.tx.connection.execute(
            "SELECT 1 FROM turn WHERE conversation = ? AND id = ? AND version = 1", (scope.conversation, turn_id)
        ).fetchone()
        is None
    )


def _put_raw(scope: Scope, record: LegacyRecord) -> None:
    body = {"role": record.role, "source": record.source, "text": record.text}
    scope.tx.record(
        "legacy",
        conversation=scope.conversation,
        branch=scope.branch,
        place=scope.next_sequence(None, "$.records"),
        turn=None,
        id=record.id,
        version=1,
        role="unclassified",
        protection=None,
        # Escaped, so that even text that has no UTF-8 form is kept to the letter.
        body=json.dumps(body, ensure_ascii=True, separators=(",", ":")),
    )


def read_unclassified(store: Store, conversation_id: str) -> tuple[tuple[str, str], ...]:
    """Return id and original JSON of every unclassified record of a conversation, by sequence."""
    with store.read("read records") as connection:
        key = conversation_key(connection, conversation_id)
        rows = []
        for (branch,) in connection.execute("SELECT key FROM branch WHERE conversation = ?", (key,)).fetchall():
            rows += connection.execute(
                "SELECT conversation, branch, sequence, event, turn, id, version, role, protection, body, salt, digest"
                " FROM message WHERE conversation = ? AND branch = ? AND turn IS NULL",
                (key, branch),
            ).fetchall()
        found = sorted((message_row(row) for row in rows), key=lambda row: row.sequence)
        return tuple((row.id, row.body or "") for row in found)
