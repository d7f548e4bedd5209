"""Branches and generations: which line a conversation is on, and which results are still its own (R53..R55, R61)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from apsw import Connection

from planner.ledger.chains import chain_at, first_ordinal, put_chain
from planner.ledger.facts import fact_digest
from planner.ledger.faults import corrupt
from planner.ledger.lineage import NO_CUT, branch_name, lineage
from planner.ledger.rebuild import derive
from planner.ledger.relating import gained_carriers
from planner.ledger.rows import newest_turn
from planner.ledger.scope import Scope, check_id, open_scope, put_branch
from planner.ledger.store import Store
from planner.ledger.texts import get_text, put_text
from planner.ledger.turns import end
from planner.values.reasons import PlannerFault


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch and where it leaves its parent; the first branch has no parent."""

    id: str
    parent: str | None
    at_sequence: int | None
    at_event: int | None


def branch(store: Store, conversation_id: str, branch_id: str, at_turn_id: str) -> Branch:
    """Make a branch that sees this line up to a turn, as it stands now; the old line is not superseded.

    The same call again is a no-op as long as the branch leaves after the same turn. Switching is a call of its own.
    Raises PlannerFault `duplicate_id`, `conversation_not_found`.
    """
    check_id(branch_id, "$.branchId")
    with store.write("branch") as tx:
        scope = open_scope(tx, conversation_id, None)
        row = scope.turn(at_turn_id)
        known = tx.connection.execute(
            "SELECT parent, at_ordinal, at_sequence, at_event FROM branch WHERE conversation = ? AND id = ?",
            (scope.conversation, branch_id),
        ).fetchone()
        if known is not None:
            if known[1] != row.ordinal or known[0] != scope.branch:
                raise PlannerFault("duplicate_id", "the branch's id is used at another turn")
            return Branch(branch_id, branch_name(tx.connection, scope.branch), row.sequence, int(str(known[3])))
        key = int(str(tx.connection.execute("SELECT max(key) FROM branch").get)) + 1
        at_event = scope.head.event
        put_branch(tx, scope.conversation, (key, branch_id), (scope.branch, row.ordinal, row.sequence, at_event))
        _derive(scope, key, row.ordinal)
        _touch_carriers(scope, key)
        return Branch(branch_id, branch_name(tx.connection, scope.branch), row.sequence, at_event)


def _derive(scope: Scope, key: int, ordinal: int) -> None:
    """Fill in what is derived for a new branch: what the parent derived later must not show in it."""
    tx, conversation = scope.tx, scope.conversation
    line = lineage(tx.connection, key, NO_CUT)
    tx.set_branch(derive(tx.connection, conversation, line, ordinal + 1))
    start = first_ordinal(tx.connection, conversation, line, tx.head(conversation).purged_through)
    if start <= ordinal:
        put_chain(tx, conversation, key, ordinal, chain_at(tx.connection, conversation, line, (start, ordinal + 1)))
    tx.fail("after_derived")


def _touch_carriers(scope: Scope, key: int) -> None:
    """Touch, in the new branch, every turn that carries a constraint there and does not in its parent.

    A later turn of the parent marked it again or took it back, and the branch does not see that turn: a summary of the
    parent lacks the constraint.
    """
    tx = scope.tx
    inner = replace(scope, line=lineage(tx.connection, key, NO_CUT))
    for name, ordinal in gained_carriers(tx.connection, scope.conversation, key, scope.branch):
        inner.touch(newest_turn(tx.connection, scope.conversation, inner.line, ordinal), scope.head.event,
                    "constraint", name)  # fmt: skip


def switch(store: Store, conversation_id: str, branch_id: str) -> int:
    """Go on with a branch: a new generation that names it, no row is copied. Returns the generation (R54)."""
    with store.write("switch") as tx:
        scope = open_scope(tx, conversation_id, None)
        row = tx.connection.execute(
            "SELECT key FROM branch WHERE conversation = ? AND id = ?", (scope.conversation, branch_id)
        ).fetchone()
        if row is None:
            raise PlannerFault("conversation_not_found", "no such branch")
        return _bump(scope, "switch", int(str(row[0])))


def new_generation(store: Store, conversation_id: str) -> int:
    """Begin a new generation on the same branch, as a page switch does (R54). Returns it."""
    with store.write("new generation") as tx:
        scope = open_scope(tx, conversation_id, None)
        return _bump(scope, "page", scope.branch)


def resend(store: Store, conversation_id: str, turn_id: str) -> int:
    """Supersede a turn because its message is sent again; the answer begins a new generation (R54, X53)."""
    with store.write("resend") as tx:
        scope = open_scope(tx, conversation_id, None)
        end(scope, scope.turn(turn_id), "superseded", "withdraw")
        return _bump(scope, "resend", scope.branch)


def _bump(scope: Scope, cause: str, branch_key: int) -> int:
    tx = scope.tx
    generation = scope.head.generation + 1
    tx.record("generation", conversation=scope.conversation, branch=branch_key, generation=generation, cause=cause)
    tx.set_head(replace(scope.head, branch=branch_key, generation=generation))
    return generation


def store_policy(store: Store, conversation_id: str, policy: bytes) -> None:
    """Store the frame of a conversation's requests, as JSON; the newest counts."""
    with store.write("store a policy") as tx:
        scope = open_scope(tx, conversation_id, None, create=True)
        if read_policy(tx.connection, scope.conversation) != policy:
            part = put_text(tx, scope.conversation, "policy", policy)
            tx.record("policy", conversation=scope.conversation, part=part)


def read_policy(connection: Connection, conversation: int) -> bytes | None:
    """Return the newest policy of a conversation, None where there is none."""
    row: Any = connection.execute(
        "SELECT event, conversation, branch, part, digest FROM policy WHERE conversation = ?"
        " ORDER BY event DESC LIMIT 1",
        (conversation,),
    ).fetchone()
    if row is None:
        return None
    if fact_digest("policy", row[:-1]) != row[-1]:
        corrupt(f"policy of conversation {conversation}")
    return get_text(connection, conversation, "policy", row[3])
