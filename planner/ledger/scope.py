"""Where a write happens: conversation, the branch of its generation, and the steps every write of a turn shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from planner.ledger.bodies import message_body
from planner.ledger.chains import drop_chain, extend_chain
from planner.ledger.derived import settle_pinned
from planner.ledger.heads import BranchRow, HeadRow, conversation_key
from planner.ledger.lineage import NO_CUT, Segment, branch_name, lineage
from planner.ledger.relating import names_of, settle_relations
from planner.ledger.rows import TurnRow, find_turn, newest_turn
from planner.ledger.store import require_generation
from planner.ledger.transaction import Transaction
from planner.values.field_rules import ID_RULE, invalid, is_id
from planner.values.reasons import PlannerFault
from planner.values.turn import Message

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Appended:
    """What a write left behind: where the conversation stands, and the sequences of the call's messages in order.

    `changed` is false where everything was there already. `notes` names what was allowed and is worth knowing.
    """

    conversation_id: str
    turn_id: str | None
    branch: str
    generation: int
    revision: int
    event: int
    sequences: tuple[int, ...] = ()
    changed: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """One write transaction inside the branch of a conversation's generation."""

    tx: Transaction
    conversation: int
    conversation_id: str
    line: tuple[Segment, ...]

    @property
    def head(self) -> HeadRow:
        """The conversation's head as the transaction leaves it."""
        return self.tx.head(self.conversation)

    @property
    def branch(self) -> int:
        """Key of the branch that is written."""
        return self.line[0].branch

    @property
    def counters(self) -> BranchRow:
        """The branch's counters as the transaction leaves them."""
        return self.tx.branch(self.conversation, self.branch)

    def turn(self, turn_id: str) -> TurnRow:
        """Return a turn of this line. Raises PlannerFault `conversation_not_found`."""
        check_id(turn_id, "$.turnId")
        found = find_turn(self.tx.connection, self.conversation, self.line, turn_id)
        if found is None:
            raise PlannerFault("conversation_not_found", "no such turn in this line")
        if self.head.purged_through is not None and found.sequence <= self.head.purged_through:
            invalid("$.turnId", "names a turn whose original was purged")
        return found

    def next_sequence(self, wanted: int | None, path: str) -> int:
        """Take the next sequence, or the caller's own where it is a later one; gaps are allowed (R13, X6)."""
        last = self.head.last_sequence
        taken = last + 1 if wanted is None else wanted
        if taken <= last:
            invalid(path, "is not above the conversation's last sequence")
        self.tx.set_head(replace(self.head, last_sequence=taken))
        return taken

    def put_message(self, kind: str, turn: TurnRow, message: Message) -> int:
        """Record one version of a message, whose id, sequence and version are set; return its event."""
        event = self.tx.record(
            kind,
            conversation=self.conversation,
            branch=self.branch,
            place=message.sequence or 0,
            turn=turn.ordinal,
            id=message.id,
            version=message.version,
            role=message.role,
            protection=message.protection_reason,
            body=message_body(message),
        )
        for name in dict.fromkeys(message.constraint_ids):
            self.put_name(turn, event, "names", name)
        return event

    def put_turn(self, kind: str, row: TurnRow) -> TurnRow:
        """Record one version of a turn and return it with its event."""
        event = self.tx.record(
            kind, conversation=self.conversation, branch=self.branch, place=row.ordinal, **row.columns()
        )
        return replace(row, branch=self.branch, event=event)

    def change_turn(self, kind: str, row: TurnRow, **changes: Any) -> TurnRow:
        """Record the next version of a turn with some fields changed."""
        return self.put_turn(kind, replace(row, version=row.version + 1, **changes))

    def touch(self, row: TurnRow, event: int, cause: str, causing_id: str) -> None:
        """Note that something a summary may rest on changed: no summary reaches over an open turn (R57).

        An ended turn may lie inside an interval, and a protection or constraint ends the run there (X37).
        """
        if row.state == "open":
            return
        self.tx.connection.execute(
            "INSERT OR IGNORE INTO touch (conversation, branch, sequence, event, cause, causing_id)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (self.conversation, self.branch, row.sequence, event, cause, causing_id),
        )
        self.tx.fail("after_touch")

    def put_name(self, row: TurnRow, event: int, op: str, name: str, part: str | None = None) -> None:
        """Write the index row that says which turn names an id of a constraint or item."""
        self.tx.connection.execute(
            "INSERT INTO mark (conversation, branch, name, op, event, turn, sequence, part)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self.conversation, self.branch, name, op, event, row.ordinal, row.sequence, part),
        )

    def settle(self, ordinal: int, constraints: Iterable[str] = ()) -> None:
        """Bring what is derived from a changed turn up to date: pins, relations, the chain.

        constraints  ids that the turn no longer names and that its change concerns.
        """
        settle_pinned(self.tx, self.conversation, self.line, ordinal)
        row = newest_turn(self.tx.connection, self.conversation, self.line, ordinal)
        names = names_of(self.tx.connection, self.conversation, self.line, row)
        concerned = {*constraints, *names["mark"], *names["supersede"], *names["names"]}
        settle_relations(self.tx, self.conversation, self.line, concerned, names["item"])
        drop_chain(self.tx, self.conversation, self.branch, ordinal)
        extend_chain(self.tx, self.conversation, self.line)
        self.tx.fail("after_derived")

    def result(self, turn_id: str | None, sequences: tuple[int, ...] = (), notes: tuple[str, ...] = ()) -> Appended:
        """Return what the call answers."""
        head = self.head
        return Appended(
            conversation_id=self.conversation_id,
            turn_id=turn_id,
            branch=branch_name(self.tx.connection, head.branch),
            generation=head.generation,
            revision=head.revision,
            event=head.event,
            sequences=sequences,
            changed=self.tx.changed,
            notes=notes,
        )


def check_id(value: object, path: str) -> None:
    """Refuse what is no id. Raises RefusalSignal `invalid-input`."""
    if not is_id(value):
        invalid(path, ID_RULE)


def branch_id(tx: Transaction, key: int) -> str:
    """Return the id of a branch."""
    return branch_name(tx.connection, key)


def open_scope(tx: Transaction, conversation_id: str, generation: int | None, *, create: bool = False) -> Scope:
    """Return the scope of a conversation; an unknown one is begun where `create` says so.

    Raises PlannerFault `conversation_not_found`, `stale_generation`.
    """
    check_id(conversation_id, "$.conversationId")
    try:
        key = conversation_key(tx.connection, conversation_id)
    except PlannerFault:
        if not create:
            raise
        key = _begin(tx, conversation_id)
    head = tx.head(key)
    require_generation(head, generation)
    return Scope(tx, key, conversation_id, lineage(tx.connection, head.branch, NO_CUT))


def _begin(tx: Transaction, conversation_id: str) -> int:
    connection = tx.connection
    key = (connection.execute("SELECT max(key) FROM conversation").get or 0) + 1
    branch = (connection.execute("SELECT max(key) FROM branch").get or 0) + 1
    tx.record("conversation", conversation=key, key=key, id=conversation_id)
    put_branch(tx, key, (branch, MAIN), None)
    tx.set_branch(BranchRow(key, branch))
    tx.set_head(replace(tx.head(key), branch=branch, generation=1))
    tx.record("generation", conversation=key, branch=branch, generation=1, cause="start")
    return key


def put_branch(
    tx: Transaction, conversation: int, name: tuple[int, str], cut: tuple[int, int, int, int] | None
) -> None:
    """Record a branch; `name` is key and id, `cut` is parent, ordinal, sequence and event of the branch point."""
    parent, ordinal, sequence, event = cut or (None, None, None, None)
    tx.record(
        "branch",
        conversation=conversation,
        branch=name[0],
        key=name[0],
        id=name[1],
        parent=parent,
        at_ordinal=ordinal,
        at_sequence=sequence,
        at_event=event,
    )
