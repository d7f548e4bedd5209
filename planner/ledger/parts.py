"""Originals that replay needs and that are no message: content-addressed, restricted (R186, R189, design.md §8)."""

from __future__ import annotations

from planner.ledger.heads import conversation_key
from planner.ledger.store import Store
from planner.ledger.texts import get_text, put_text
from planner.values.field_rules import ID_RULE, invalid, is_id
from planner.values.reasons import PlannerFault

NO_CONVERSATION = 0
CANONICAL_REQUEST = "canonical_request"
EXCLUSIONS = "exclusions"
"""Kind of the part that names what admission excluded from a plan (R159); its key is the plan's id."""
"""Kind of the request a plan was made of; its key is the receipt's requestDigest."""


def put_part(store: Store, conversation_id: str | None, kind: str, data: bytes, key: str | None = None) -> str:
    """Store an original and return its key; under a key of the caller's a part that is there stays as it is.

    conversation_id  None for a part of no conversation.
    key              the requestDigest of a canonical request; without one the key is salted, so short texts cannot
                     be guessed from it.
    Raises PlannerFault `duplicate_id` for another content under the same key, `conversation_not_found`.
    """
    if not is_id(kind):
        invalid("$.kind", ID_RULE)
    if key is not None and not is_id(key):
        invalid("$.key", ID_RULE)
    with store.write("store a part") as tx:
        conversation = NO_CONVERSATION if conversation_id is None else conversation_key(tx.connection, conversation_id)
        known = None if key is None else get_text(tx.connection, conversation, kind, key)
        if known is not None:
            if known != data:
                raise PlannerFault("duplicate_id", "the key of a part holds other content")
            return key or ""
        tx.unchained = True
        found = put_text(tx, conversation, kind, data, key)
        tx.fail("after_part")
        return found


def get_part(store: Store, conversation_id: str | None, kind: str, key: str) -> bytes:
    """Return an original. Raises PlannerFault `part_missing:<kind>` where it is not, or no longer, there."""
    if not is_id(kind):
        invalid("$.kind", ID_RULE)
    with store.read("read a part") as connection:
        conversation = NO_CONVERSATION if conversation_id is None else conversation_key(connection, conversation_id)
        found = get_text(connection, conversation, kind, key)
    if found is None:
        raise PlannerFault(f"part_missing:{kind}", "not in the ledger")
    return found
