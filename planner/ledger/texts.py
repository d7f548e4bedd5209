"""Texts that are no message: the wording of constraints, policies. They live in `part`, rows hold their keys.

A key is a digest with a salt of its own that stands in the part alone: once retention took the part, the key tells
nothing, however short the text was.
"""

from __future__ import annotations

import hashlib
import secrets

import apsw

from planner.ledger.facts import pack
from planner.ledger.faults import corrupt
from planner.ledger.transaction import SALT_BYTES, Transaction


def part_digest(kind: str, key: str, salt: bytes, body: bytes) -> bytes:
    """Return the digest of a part's row."""
    return hashlib.sha256(salt + pack([kind, key]) + body).digest()


def put_text(tx: Transaction, conversation: int, kind: str, body: bytes, key: str | None = None) -> str:
    """Store a text and return its key; with a key of the caller's (a request's digest) a known part stays as it is."""
    salt = secrets.token_bytes(SALT_BYTES)
    name = hashlib.sha256(salt + body).hexdigest() if key is None else key
    tx.connection.execute(
        "INSERT INTO part (conversation, kind, key, salt, body, digest) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (conversation, kind, name, salt, body, part_digest(kind, name, salt, body)),
    )
    return name


def get_text(connection: apsw.Connection, conversation: int, kind: str, key: str) -> bytes | None:
    """Return a text, None where retention took it. Raises PlannerFault `ledger_corrupt`."""
    row = connection.execute(
        "SELECT salt, body, digest FROM part WHERE conversation = ? AND kind = ? AND key = ?",
        (conversation, kind, key),
    ).fetchone()
    if row is None:
        return None
    salt, body, digest = row
    if part_digest(kind, key, salt, body) != digest:
        corrupt(f"part of kind {kind}")
    return bytes(body)
