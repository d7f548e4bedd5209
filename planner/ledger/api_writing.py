"""The writing calls of a Ledger. Each is one transaction, durable when it returns (R4, R5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack

from planner.ledger.branches import Branch, branch, new_generation, resend, store_policy, switch
from planner.ledger.legacy import LegacyRecord, import_legacy
from planner.ledger.marks import mark, set_item, supersede
from planner.ledger.messages import TurnChange, append, edit, protect
from planner.ledger.refusals import RefusalKind, record_refusal
from planner.ledger.resolutions import resolve_fact
from planner.ledger.scope import Appended
from planner.ledger.store import Store
from planner.ledger.turns import cancel, set_state, withdraw
from planner.values.resolution import FactDecision
from planner.values.turn import Material, Message, MustPreserve, OpenItem, ProtectionReason, TurnState


class TurnFields(TypedDict, total=False):
    """What an append may say of its turn beside the messages."""

    state: TurnState | None
    must_preserve: Sequence[MustPreserve]
    supersedes: Sequence[str]
    open_items: Sequence[OpenItem]
    material: Material | None
    sequence: int | None


class Writing:
    """Writing calls. `generation` None means no check; a number is compared, `stale_generation` where it differs.

    All raise PlannerFault for what is missing or wrong in the storage, RefusalSignal `invalid-input` for a turn that
    breaks a rule, and leave the ledger as it was then.
    """

    _store: Store

    def append(
        self,
        conversation_id: str,
        turn_id: str,
        messages: Sequence[Message],
        *,
        generation: int | None = None,
        **fields: Unpack[TurnFields],
    ) -> Appended:
        """Append finished messages to a new turn or an open one; an unknown conversation begins here.

        messages  with ids; each gets the conversation's next sequence, or its own where that is later. The answer of
                  a stream that did not finish is no message: cancel its turn (R59).
        fields    state, must_preserve, supersedes, open_items, material of the turn; `sequence` of a new turn that is
                  cancelled or superseded and has no message left, such as the terminal record of another store.
        Idempotent by message id; the same id with other fields is `duplicate_id`.
        """
        return append(self._store, conversation_id, turn_id, messages, TurnChange(**fields), generation)

    def set_state(
        self, conversation_id: str, turn_id: str, state: TurnState, *, generation: int | None = None
    ) -> Appended:
        """Move a turn to another state by the table of values/turn.py (R56)."""
        return set_state(self._store, conversation_id, turn_id, state, generation)

    def cancel(
        self, conversation_id: str, turn_id: str, *, actor: str | None = None, generation: int | None = None
    ) -> Appended:
        """Cancel an open turn; who did it is kept, what the assistant said is not shown any more (R58)."""
        return cancel(self._store, conversation_id, turn_id, actor, generation)

    def withdraw(self, conversation_id: str, turn_id: str, *, generation: int | None = None) -> Appended:
        """Withdraw a turn: it leaves every later context, its rows stay (X53)."""
        return withdraw(self._store, conversation_id, turn_id, generation)

    def edit(
        self, conversation_id: str, message_id: str, message: Message, *, generation: int | None = None
    ) -> Appended:
        """Put a new version of a message under the same id and sequence; its protection stays."""
        return edit(self._store, conversation_id, message_id, message, generation)

    def protect(
        self,
        conversation_id: str,
        message_id: str,
        reason: ProtectionReason | None,
        *,
        generation: int | None = None,
    ) -> Appended:
        """Set or clear the protection of a message: an event of the application (R8)."""
        return protect(self._store, conversation_id, message_id, reason, generation)

    def refuse(
        self,
        conversation_id: str,
        message_id: str,
        kind: RefusalKind = "refusal",
        *,
        in_force: bool = True,
        generation: int | None = None,
    ) -> Appended:
        """Record a refusal or revocation of the user: protected as active-constraint, later as audit-evidence (X36)."""
        return record_refusal(self._store, conversation_id, message_id, kind, in_force, generation)

    def mark(
        self,
        conversation_id: str,
        turn_id: str,
        must_preserve: Sequence[MustPreserve],
        *,
        generation: int | None = None,
    ) -> Appended:
        """Mark constraints on a turn, in the application's words (X61)."""
        return mark(self._store, conversation_id, turn_id, must_preserve, generation)

    def supersede(
        self, conversation_id: str, turn_id: str, constraint_ids: Sequence[str], *, generation: int | None = None
    ) -> Appended:
        """Take back constraints of earlier turns, from this turn (R151, X56)."""
        return supersede(self._store, conversation_id, turn_id, constraint_ids, generation)

    def set_item(
        self, conversation_id: str, turn_id: str, item: OpenItem, *, generation: int | None = None
    ) -> Appended:
        """Set the status of an open item of a turn (X32)."""
        return set_item(self._store, conversation_id, turn_id, item, generation)

    def resolve_fact(self, conversation_id: str, given: FactDecision, *, generation: int | None = None) -> Appended:
        """Record how the application ended a dispute about a fact; summaries that state it are stale (R156)."""
        return resolve_fact(self._store, conversation_id, given, generation)

    def branch(self, conversation_id: str, branch_id: str, *, at_turn_id: str) -> Branch:
        """Make a branch that leaves after a turn; `switch` goes on with it."""
        return branch(self._store, conversation_id, branch_id, at_turn_id)

    def switch(self, conversation_id: str, branch_id: str) -> int:
        """Go on with a branch; returns the new generation (R54)."""
        return switch(self._store, conversation_id, branch_id)

    def resend(self, conversation_id: str, turn_id: str) -> int:
        """Supersede a turn that is sent again; returns the new generation (R54)."""
        return resend(self._store, conversation_id, turn_id)

    def new_generation(self, conversation_id: str) -> int:
        """Begin a new generation, as a page switch does; returns it (R54). Rotation and restore do not call this."""
        return new_generation(self._store, conversation_id)

    def store_policy(self, conversation_id: str, policy_json: bytes) -> None:
        """Store the frame of this conversation's requests: what a plan uses where it is given none."""
        store_policy(self._store, conversation_id, policy_json)

    def import_legacy(self, conversation_id: str, records: Sequence[LegacyRecord]) -> Appended:
        """Take over records of another store; what cannot be classified is kept raw and never compacted (R14)."""
        return import_legacy(self._store, conversation_id, records)
