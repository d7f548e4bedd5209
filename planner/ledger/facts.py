"""What a fact is: which table holds it, which columns its digest covers, and how the chain goes on.

digest = sha256(salt + JSON of [table, columns]); chain = sha256(previous chain + digest + JSON of the event's row).
Only tables that hold text are salted: retention takes text and salt, and what stays cannot be guessed from the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

Value = int | str | bytes | None
FIRST_CHAIN = hashlib.sha256(b"context-planner ledger").digest()


@dataclass(frozen=True, slots=True)
class Table:
    """One table of facts; `columns` in the order of the digest, without salt and digest."""

    name: str
    columns: tuple[str, ...]
    salted: bool = False
    # Columns besides `event` by which the row is found without another index; `place` of the event gives the last.
    key: tuple[str, ...] = ()


def _table(name: str, columns: str, *, salted: bool = False, key: str = "") -> Table:
    return Table(name, tuple(columns.split()), salted, tuple(key.split()))


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _table("conversation", "event key id"),
        _table("branch", "event key conversation id parent at_ordinal at_sequence at_event"),
        _table("generation", "event conversation branch generation cause"),
        _table("policy", "event conversation branch part"),
        _table(
            "message",
            "conversation branch sequence event turn id version role protection body",
            salted=True,
            key="conversation branch sequence",
        ),
        _table(
            "turn",
            "conversation branch ordinal event id sequence version messages state actor material marks supersedes"
            " items",
            key="conversation branch ordinal",
        ),
        _table("refusal", "event conversation branch message_id kind in_force"),
        _table("retention", "event conversation branch through_sequence turns messages parts summaries reason"),
        _table(
            "resolution",
            "event conversation branch fact_key decision resolved_by confirmation_id through_sequence part",
        ),
        _table(
            "plan",
            "event conversation branch id generation revision seen_event policy_version strategy_version replaces body",
        ),
        _table(
            "summary",
            "event conversation branch id version plan_id generation revision verified_event covers_from covers_to"
            " through_sequence source_fingerprint policy_version strategy_version status cause causing_id adopted_from"
            " diagnostics body",
            salted=True,
        ),
        _table("adoption", "event conversation branch generation summary verified_event"),
        _table("invalidation", "event conversation branch summary cause causing_id covers_from covers_to"),
        _table("rejection", "event conversation branch plan_id run source_fingerprint reason detail ids"),
    )
}

TABLE_OF: dict[str, str] = {
    **{name: name for name in TABLES},
    **dict.fromkeys(("edit", "protection", "legacy"), "message"),
    **dict.fromkeys(("state", "cancel", "withdraw", "mark", "supersede", "item", "material"), "turn"),
}
"""Kind of an event -> table of its fact."""

NO_CHANGE_OF_CONVERSATION = frozenset({"plan", "summary", "adoption", "invalidation", "rejection"})
"""Kinds that leave the revision as it is: they speak about the conversation, they do not change it."""


def pack(values: Sequence[Value]) -> bytes:
    """Return values as unambiguous bytes.

    >>> pack(["turn", 1, None, "a"])
    b'["turn",1,null,"a"]'
    """
    return f"[{','.join([_SPELLED[type(value)](value) for value in values])}]".encode()


def _hex(value: bytes) -> str:
    return f'"{value.hex()}"'


# JSON, one scalar at a time: a plan from a ledger checks some hundred rows, and a whole encoder costs twice as much.
_SPELLED: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    str: encode_basestring_ascii,
    bytes: _hex,
    type(None): lambda _: "null",
}


def fact_digest(table: str, values: Sequence[Value], salt: bytes | None = None) -> bytes:
    """Return the digest of a fact from its columns in the order of `TABLES`."""
    return hashlib.sha256((salt or b"") + pack([table, *values])).digest()


def next_chain(chain: bytes, digest: bytes, row: Sequence[Value]) -> bytes:
    """Return the chain after an event; `row` is event, conversation, branch, revision, kind, place."""
    return hashlib.sha256(chain + digest + pack(row)).digest()


def short_digest(*values: Value) -> bytes:
    """Return the digest of a derived row, 16 bytes."""
    return hashlib.sha256(pack(values)).digest()[:16]


NO_SUM = bytes(16)


def with_rows(total: bytes, rows: Iterable[bytes]) -> bytes:
    """Return the exclusive or of a sum and digests of rows: adding and taking away are the same step.

    >>> with_rows(with_rows(NO_SUM, [b"a" * 16]), [b"a" * 16]) == NO_SUM
    True
    """
    value = int.from_bytes(total, "big")
    for row in rows:
        value ^= int.from_bytes(row, "big")
    return value.to_bytes(16, "big")
