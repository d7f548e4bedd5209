"""Messages enter, change and are protected: every version is a row of its own (R5..R10, R13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from planner.ledger.bodies import constraint_ids, message_body
from planner.ledger.history import message_versions
from planner.ledger.marks import (
    check_marks,
    check_supersedes,
    put_marks,
    touch_marks,
    with_items,
    with_marks,
    with_supersedes,
)  # fmt: skip
from planner.ledger.pages import message_value, turn_from
from planner.ledger.relating import names_of
from planner.ledger.rows import MessageRow, TurnRow, find_turn, known_message, newest_messages, newest_turn
from planner.ledger.scope import Appended, Scope, check_id, open_scope
from planner.ledger.store import Store
from planner.ledger.turns import moved
from planner.values.check_turn import check_turn
from planner.values.field_rules import invalid, is_whole
from planner.values.reasons import PlannerFault
from planner.values.turn import Material, Message, MustPreserve, OpenItem, ProtectionReason, Turn, TurnState

ROLES = ("user", "assistant", "tool")
_ENDED = ("cancelled", "superseded")


@dataclass(frozen=True, slots=True)
class TurnChange:
    """What an append says of its turn beside the messages; nothing means no change.

    sequence  of a turn that begins and ends without a message, the terminal record of another store (X37).
    """

    state: TurnState | None = None
    must_preserve: Sequence[MustPreserve] = field(default=(), repr=False)
    supersedes: Sequence[str] = ()
    open_items: Sequence[OpenItem] = ()
    material: Material | None = None
    sequence: int | None = None


def append(
    store: Store,
    conversation_id: str,
    turn_id: str,
    messages: Sequence[Message],
    change: TurnChange,
    generation: int | None,
) -> Appended:
    """Append finished messages to a new turn or to an open one, in one transaction.

    Idempotent by message id: same id and fields is a no-op with the same sequence. The turn is checked as a whole.
    A new turn has a message, or is cancelled or superseded: of such a one a terminal record may be all there is.
    Raises RefusalSignal `invalid-input`, PlannerFault `duplicate_id`, `stale_generation` and those of the storage.
    """
    check_id(turn_id, "$.turnId")
    if change.material not in (None, *get_args(Material)):
        invalid("$.material", "is not one of the materials")
    for index, message in enumerate(messages):
        check_message(message, f"$.messages[{index}]")
    if len({message.id for message in messages}) != len(messages):
        invalid("$.messages", "name one id twice")
    with store.write("append") as tx:
        scope = open_scope(tx, conversation_id, generation, create=True)
        before = _turn_of(scope, turn_id)
        _check_composed(scope, before, turn_id, messages)
        placed = _place(scope, messages, before)
        new = [message for message, is_new in placed if is_new]
        if before is not None and new and before.state != "open":
            invalid("$.turnId", "names a turn that is no longer open")
        if before is None and not new and change.state not in _ENDED:
            invalid("$.messages", "is empty, and the turn is new")
        # A cancelled turn shows less than it did, so it may name fewer constraints.
        named = set() if before is None else names_of(tx.connection, scope.conversation, scope.line, before)["names"]
        row = _put_turn(scope, turn_id, before, new, change)
        for message in new:
            scope.put_message("message", row, message)
        if tx.changed:
            scope.settle(row.ordinal, named)
            check_stored_turn(scope, row)
        return scope.result(turn_id, tuple(message.sequence or 0 for message, _ in placed))


def check_message(message: Message, path: str) -> None:
    """Refuse what the ledger does not keep as a message: no id, another role, a version (R6, R10)."""
    if type(message) is not Message:
        invalid(path, "expected a Message")
    check_id(message.id, f"{path}.id")
    if message.role not in ROLES:
        invalid(f"{path}.role", "is not user, assistant or tool")
    if message.sequence is not None and not is_whole(message.sequence):
        invalid(f"{path}.sequence", "expected a whole number, 0 or more")


def _turn_of(scope: Scope, turn_id: str) -> TurnRow | None:
    found = find_turn(scope.tx.connection, scope.conversation, scope.line, turn_id)
    taken = scope.tx.connection.execute(
        "SELECT 1 FROM turn WHERE conversation = ? AND id = ? AND version = 1", (scope.conversation, turn_id)
    ).fetchone()
    if found is None and taken is not None:
        raise PlannerFault("duplicate_id", "the turn's id is used in another branch")
    through = scope.head.purged_through
    if found is not None and through is not None and found.sequence <= through:
        invalid("$.turnId", "names a turn whose original was purged")
    return found


def _check_composed(scope: Scope, row: TurnRow | None, turn_id: str, messages: Sequence[Message]) -> None:
    """Check the turn's messages with the given ones among them, before anything of them is looked at or written."""
    given = {message.id: message for message in messages}
    old: list[MessageRow] = []
    if row is not None:
        found = newest_messages(scope.tx.connection, scope.conversation, scope.line, row.ordinal, row.ordinal)
        old = found.get(row.ordinal, [])
    # A known message stands in its place, so that a result still follows its call.
    known = [given.pop(entry.id) if entry.id in given else message_value(entry) for entry in old]
    check_turn(Turn(turn_id, 0, "open", (*known, *given.values())), "$.turn")


def _place(scope: Scope, messages: Sequence[Message], turn: TurnRow | None) -> list[tuple[Message, bool]]:
    """Give every message its sequence: the stored one where it is known, else the next; tell which are new."""
    placed = []
    for index, message in enumerate(messages):
        known = _known(scope, message, turn, f"$.messages[{index}]")
        if known is not None:
            placed.append((replace(message, sequence=known), False))
            continue
        sequence = scope.next_sequence(message.sequence, f"$.messages[{index}].sequence")
        placed.append((replace(message, sequence=sequence, version=1), True))
    return placed


def _known(scope: Scope, message: Message, turn: TurnRow | None, path: str) -> int | None:
    """Return the sequence of a message that is there with these very fields, None where its id is new."""
    rows = message_versions(scope.tx.connection, scope.conversation, str(message.id))
    if not rows:
        return None
    if turn is None or rows[0].turn != turn.ordinal:
        raise PlannerFault("duplicate_id", f"{path}.id is used in another turn")
    body = message_body(message)
    same = [
        row for row in rows if (row.body, row.role, row.protection) == (body, message.role, message.protection_reason)
    ]
    if not same or message.sequence not in (None, rows[0].sequence):
        raise PlannerFault("duplicate_id", f"{path}.id is used with other fields")
    return rows[0].sequence


def _put_turn(
    scope: Scope, turn_id: str, before: TurnRow | None, new: Sequence[Message], change: TurnChange
) -> TurnRow:
    """Record the turn's new version where something of it changes, and return the newest one."""
    check_marks(change.must_preserve, change.open_items)
    if before is None:
        first = new[0].sequence or 0 if new else scope.next_sequence(change.sequence, "$.sequence")
        counters = scope.counters
        row = TurnRow(
            conversation=scope.conversation,
            branch=scope.branch,
            ordinal=counters.turns,
            event=0,
            id=turn_id,
            sequence=first,
            version=0,
            messages=0,
            state="open",
        )
        scope.tx.set_branch(replace(counters, turns=counters.turns + 1))
    else:
        row = before
    check_supersedes(scope, row, change.supersedes)
    marks, added = with_marks(scope, row, change.must_preserve)
    fields: dict[str, object] = {
        "marks": marks,
        "supersedes": with_supersedes(row, change.supersedes),
        "items": with_items(scope, row, change.open_items),
        "state": moved(scope, row, change.state, is_new=before is None, has_messages=bool(new)),
        "material": row.material if change.material is None else change.material,
    }
    if before is not None and all(getattr(row, name) == value for name, value in fields.items()):
        return row
    fields["messages"] = len(new) + (0 if before is None else count_messages(scope, before))
    after = scope.change_turn("turn" if before is None else "state", row, **fields)
    put_marks(scope, row, after, added)
    if after.state == "superseded":
        touch_marks(scope, after)
    if after.material != row.material:
        scope.touch(row, after.event, "state", row.id)
    return after


def count_messages(scope: Scope, row: TurnRow) -> int:
    """Return how many messages a turn has now."""
    found = newest_messages(scope.tx.connection, scope.conversation, scope.line, row.ordinal, row.ordinal)
    return len(found.get(row.ordinal, []))


def check_stored_turn(scope: Scope, row: TurnRow) -> None:
    """Check a turn as it would be read back: pairs of calls and results, an accepted answer (R47, X63)."""
    connection = scope.tx.connection
    found = newest_messages(connection, scope.conversation, scope.line, row.ordinal, row.ordinal)
    check_turn(turn_from(connection, row, found.get(row.ordinal, [])), "$.turn")


def edit(store: Store, conversation_id: str, message_id: str, message: Message, generation: int | None) -> Appended:
    """Put a new version of a message under the same id and sequence (X9); the same fields again are a no-op.

    Protection is not changed by an edit: `protect` does that (R8).
    """
    if type(message) is not Message or message.id not in (None, message_id):
        invalid("$.message.id", "is not the id of the edited message")
    with store.write("edit") as tx:
        scope = open_scope(tx, conversation_id, generation)
        before = known_message(tx.connection, scope.conversation, scope.line, message_id)
        row = _editable(scope, before)
        after = replace(
            message,
            id=message_id,
            sequence=before.sequence,
            version=before.version + 1,
            protection_reason=before.protection,
        )
        check_message(after, "$.message")
        _check_composed(scope, row, row.id, (after,))
        if (message_body(after), after.role) != (before.body, before.role):
            event = scope.put_message("edit", row, after)
            scope.touch(row, event, "edit", message_id)
            scope.settle(row.ordinal, constraint_ids(before.body))
            check_stored_turn(scope, row)
        return scope.result(row.id, (before.sequence,))


def protect(
    store: Store,
    conversation_id: str,
    message_id: str,
    reason: ProtectionReason | None,
    generation: int | None,
) -> Appended:
    """Set or clear the protection of a message: an event of the application, never of a text (R7, R8, R9)."""
    with store.write("protect") as tx:
        scope = open_scope(tx, conversation_id, generation)
        before = known_message(tx.connection, scope.conversation, scope.line, message_id)
        put_protection(scope, before, reason)
        row = _editable(scope, before, ended_too=True)
        return scope.result(row.id, (before.sequence,))


def put_protection(scope: Scope, before: MessageRow, reason: ProtectionReason | None) -> None:
    """Record a message's version with another protection, unless it has it already."""
    if reason not in (None, "pending-confirmation", "active-constraint", "audit-evidence"):
        invalid("$.reason", "is not one of the reasons")
    if reason == before.protection:
        return
    row = _editable(scope, before, ended_too=True)
    value = replace(message_value(before), version=before.version + 1, protection_reason=reason)
    event = scope.put_message("protection", row, value)
    scope.touch(row, event, "protection", before.id)
    # Of a cancelled turn only what is protected is shown, so it may no longer name what this message names.
    scope.settle(row.ordinal, constraint_ids(before.body))


def _editable(scope: Scope, message: MessageRow, *, ended_too: bool = False) -> TurnRow:
    row = newest_turn(scope.tx.connection, scope.conversation, scope.line, message.turn or 0)
    if message.body is None:
        invalid("$.messageId", "names a message whose original was purged")
    if not ended_too and row.state not in ("open", "completed"):
        invalid("$.messageId", "names a message of a turn that has ended")
    return row
