"""Refusals and revocations of the user: structured events that protect the message they stand in (X36, X37)."""

from __future__ import annotations

from typing import Literal

from planner.ledger.messages import put_protection
from planner.ledger.rows import known_message, newest_turn
from planner.ledger.scope import Appended, open_scope
from planner.ledger.store import Store
from planner.values.field_rules import invalid
from planner.values.turn import ProtectionReason

RefusalKind = Literal["refusal", "revocation"]


def record_refusal(
    store: Store,
    conversation_id: str,
    message_id: str,
    kind: RefusalKind,
    in_force: bool,
    generation: int | None,
) -> Appended:
    """Record that a message refuses or revokes: active-constraint while in force, audit-evidence afterwards.

    What is recorded already is a no-op. No permission is ever read from the message's words.
    """
    if kind not in ("refusal", "revocation"):
        invalid("$.kind", "is not refusal or revocation")
    reason: ProtectionReason = "active-constraint" if in_force else "audit-evidence"
    with store.write("record a refusal") as tx:
        scope = open_scope(tx, conversation_id, generation)
        message = known_message(tx.connection, scope.conversation, scope.line, message_id)
        row = newest_turn(tx.connection, scope.conversation, scope.line, message.turn or 0)
        last = None
        for segment in scope.line:
            last = (
                last
                or tx.connection.execute(
                    "SELECT kind, in_force FROM refusal WHERE conversation = ? AND message_id = ? AND branch = ?"
                    " AND event <= ? ORDER BY event DESC LIMIT 1",
                    (scope.conversation, message_id, segment.branch, segment.at_event),
                ).fetchone()
            )
        if last != (kind, int(in_force)):
            tx.record(
                "refusal",
                conversation=scope.conversation,
                branch=scope.branch,
                message_id=message_id,
                kind=kind,
                in_force=int(in_force),
            )
            put_protection(scope, message, reason)
        return scope.result(row.id, (message.sequence,))
