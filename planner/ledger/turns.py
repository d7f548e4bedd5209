"""States of a turn: they move by the table of values/turn.py, and never back (R56)."""

from __future__ import annotations

from typing import get_args

from planner.ledger.history import turn_versions
from planner.ledger.relating import names_of
from planner.ledger.rows import TurnRow
from planner.ledger.scope import Appended, Scope, check_id, open_scope
from planner.ledger.store import Store
from planner.values.field_rules import invalid
from planner.values.turn import TurnState, may_become

_STATES = get_args(TurnState)


def history_has(scope: Scope, row: TurnRow, state: TurnState) -> bool:
    """Tell whether a turn had a state before: a repeated call then changes nothing."""
    return any(
        version.state == state
        for version in turn_versions(scope.tx.connection, scope.conversation, row.ordinal, row.id)
    )


def moved(scope: Scope, row: TurnRow, state: TurnState | None, *, is_new: bool, has_messages: bool) -> TurnState:
    """Return the state a turn takes where an append asks for `state`; `row` is the turn before."""
    if state is None or state == row.state:
        return row.state
    if state not in _STATES:
        invalid("$.state", "is not one of the states of a turn")
    if not is_new and not has_messages and history_has(scope, row, state):
        return row.state
    if not may_become(row.state, state):
        invalid("$.state", f"a turn does not go from {row.state} to {state}")
    return state


def set_state(store: Store, conversation_id: str, turn_id: str, state: TurnState, generation: int | None) -> Appended:
    """Move a turn to another state; the state it has is a no-op.

    Raises RefusalSignal `invalid-input` for a move the table does not know.
    """
    kinds: dict[TurnState, str] = {"cancelled": "cancel", "superseded": "withdraw"}
    with store.write("set a state") as tx:
        scope = open_scope(tx, conversation_id, generation)
        row = scope.turn(turn_id)
        if state not in _STATES:
            invalid("$.state", "is not one of the states of a turn")
        end(scope, row, state, kinds.get(state, "state"))
        return scope.result(turn_id)


def cancel(store: Store, conversation_id: str, turn_id: str, actor: str | None, generation: int | None) -> Appended:
    """Cancel an open turn; turn id, sequence, state and actor are its terminal record (R58, X37)."""
    if actor is not None:
        check_id(actor, "$.actor")
    with store.write("cancel") as tx:
        scope = open_scope(tx, conversation_id, generation)
        end(scope, scope.turn(turn_id), "cancelled", "cancel", actor)
        return scope.result(turn_id)


def end(scope: Scope, row: TurnRow, state: TurnState, kind: str, actor: str | None = None) -> None:
    """Record a move between states, with what it touches and what is derived from it."""
    from planner.ledger.marks import touch_marks
    from planner.ledger.messages import check_stored_turn, count_messages

    if state == row.state:
        return
    if not may_become(row.state, state):
        invalid("$.state", f"a turn does not go from {row.state} to {state}")
    names = names_of(scope.tx.connection, scope.conversation, scope.line, row)["names"]
    after = scope.change_turn(kind, row, state=state, actor=actor, messages=count_messages(scope, row))
    scope.touch(row, after.event, "state", row.id)
    if state == "superseded":
        touch_marks(scope, after)
    scope.settle(row.ordinal, names)
    check_stored_turn(scope, after)


def withdraw(store: Store, conversation_id: str, turn_id: str, generation: int | None) -> Appended:
    """Withdraw a turn: it is superseded and leaves every later context; its rows stay (X53)."""
    return set_state(store, conversation_id, turn_id, "superseded", generation)
