"""Receipts of planning calls and what runtimes reported about them; text-free, of one generation (R55, R185, R187)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import apsw

from planner.ledger.facts import fact_digest
from planner.ledger.faults import corrupt
from planner.ledger.heads import conversation_key
from planner.ledger.scope import open_scope
from planner.ledger.store import Store, require_generation
from planner.ledger.texts import get_text, put_text
from planner.values.field_rules import ID_RULE, invalid, is_id, is_whole
from planner.values.reasons import PlannerFault

OBSERVATION = "observation"
"""Kind of the part that holds a runtime's report about one plan; its key is the plan's id."""


def save_receipt(store: Store, conversation_id: str, receipt_json: bytes, *, generation: int) -> None:
    """Store the receipt of a plan of this generation. The same receipt again is a no-op.

    A failure here fails the plan, never the ledger (threats.md P5). Raises PlannerFault `stale_generation` for a plan
    of another generation, `duplicate_id` for another receipt under the plan's id, `conversation_not_found`;
    RefusalSignal `invalid-input` for what is no receipt of this conversation.
    """
    plan_id, request_digest, made_for = _named(receipt_json, conversation_id)
    with store.write("save a receipt") as tx:
        scope = open_scope(tx, conversation_id, None)
        known = receipt_row(tx.connection, scope.conversation, plan_id)
        if known is not None:
            if known[1] != receipt_json:
                raise PlannerFault("duplicate_id", "the plan id has another receipt")
            return
        require_generation(scope.head, generation)
        require_generation(scope.head, made_for)
        columns = (scope.conversation, plan_id, generation, scope.head.event, request_digest, receipt_json)
        tx.unchained = True
        tx.connection.execute(
            "INSERT INTO receipt (conversation, plan_id, generation, event, request_digest, body, digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*columns, fact_digest("receipt", columns)),
        )
        tx.fail("after_receipt")


def _named(receipt_json: bytes, conversation_id: str) -> tuple[str, str | None, int | None]:
    """Return plan id, request digest and generation of a receipt."""
    tree: Any = None
    with suppress(ValueError, RecursionError):
        tree = json.loads(receipt_json)
    if not isinstance(tree, dict):
        invalid("$", "is no receipt")
    if not is_id(tree.get("planId")):
        invalid("$.planId", ID_RULE)
    if tree.get("conversationId") not in (None, conversation_id):
        invalid("$.conversationId", "is another conversation")
    request_digest, generation = tree.get("requestDigest"), tree.get("generation")
    if request_digest is not None and not is_id(request_digest):
        invalid("$.requestDigest", ID_RULE)
    if generation is not None and not is_whole(generation):
        invalid("$.generation", "expected a whole number")
    return tree["planId"], request_digest, generation


def receipt_row(connection: apsw.Connection, conversation: int, plan_id: str) -> tuple[int, bytes] | None:
    """Return generation and body of a receipt, checked by its digest. Raises PlannerFault `ledger_corrupt`."""
    row: Any = connection.execute(
        "SELECT conversation, plan_id, generation, event, request_digest, body, digest FROM receipt"
        " WHERE conversation = ? AND plan_id = ?",
        (conversation, plan_id),
    ).fetchone()
    if row is None:
        return None
    *columns, digest = row
    if fact_digest("receipt", columns) != digest:
        corrupt(f"receipt of conversation {conversation}")
    return int(columns[2]), bytes(columns[5])


def read_receipt(store: Store, conversation_id: str, plan_id: str) -> bytes | None:
    """Return the receipt of a plan, None where there is none."""
    with store.read("read a receipt") as connection:
        found = receipt_row(connection, conversation_key(connection, conversation_id), plan_id)
    return None if found is None else found[1]


def save_observation(
    store: Store,
    conversation_id: str,
    plan_id: str,
    generation: int,
    reported_tokens: int,
    details: Mapping[str, int | str | None] | None = None,
) -> None:
    """Store how many tokens a runtime counted for a plan, beside its receipt; the first report stays (X60).

    details  what else an observation says: numbers, ids and words of ours, never text.
    Raises PlannerFault `stale_generation` for a plan of an older generation (R55), `duplicate_id` for another count,
    `conversation_not_found` for a plan without a receipt; RefusalSignal `invalid-input` for what is no count.
    """
    if not is_whole(reported_tokens):
        invalid("$.reportedTokens", "expected a whole number")
    own = {"planId": plan_id, "generation": generation, "reportedTokens": reported_tokens}
    body = json.dumps({**(details or {}), **own}).encode()
    with store.write("save an observation") as tx:
        scope = open_scope(tx, conversation_id, generation)
        receipt = receipt_row(tx.connection, scope.conversation, plan_id)
        if receipt is None:
            raise PlannerFault("conversation_not_found", "no receipt of this plan")
        require_generation(scope.head, receipt[0])
        known = get_text(tx.connection, scope.conversation, OBSERVATION, plan_id)
        if known is not None:
            if known != body:
                raise PlannerFault("duplicate_id", "the plan has another observation")
            return
        tx.unchained = True
        put_text(tx, scope.conversation, OBSERVATION, body, plan_id)
        tx.fail("after_part")
