"""Facts compared with their digests and the chain: the newest at every open, all of them in `verify`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import apsw

from planner.ledger.anchor import Anchored
from planner.ledger.facts import FIRST_CHAIN, TABLE_OF, TABLES, Value, fact_digest, next_chain
from planner.ledger.faults import corrupt
from planner.values.reasons import PlannerFault

OPEN_EVENTS = 200
_EVENTS = (
    "SELECT event, conversation, branch, revision, kind, place, digest, chain FROM event"
    " WHERE event BETWEEN ? AND ? ORDER BY event"
)


@dataclass(frozen=True, slots=True)
class Checked:
    """One event that agrees with its fact; `purged` where retention took the fact's text."""

    event: int
    conversation: int
    branch: int
    revision: int
    kind: str
    place: int
    purged: bool


def newest(connection: apsw.Connection) -> tuple[int, bytes]:
    """Return the newest event and the chain at it; 0 and the first chain for an empty ledger."""
    row = connection.execute("SELECT event, chain FROM event ORDER BY event DESC LIMIT 1").fetchone()
    return (0, FIRST_CHAIN) if row is None else (int(str(row[0])), bytes(row[1]))


def chain_before(connection: apsw.Connection, event: int) -> bytes:
    """Return the chain at the event before. Raises PlannerFault `ledger_corrupt` where that is missing."""
    if event <= 1:
        return FIRST_CHAIN
    row: Any = connection.execute("SELECT chain FROM event WHERE event = ?", (event - 1,)).fetchone()
    if row is None:
        corrupt(f"event {event - 1} is missing")
    return bytes(row[0])


def check_events(connection: apsw.Connection, first: int, last: int) -> Iterator[Checked]:
    """Yield events `first..last` after comparing each with its fact and with the chain.

    Raises PlannerFault `ledger_corrupt` at the first that differs.
    """
    chain = chain_before(connection, first)
    expected = first
    rows: Any = connection.execute(_EVENTS, (first, last))
    for event, conversation, branch, revision, kind, place, digest, stored in rows:
        if event != expected:
            corrupt(f"event {expected} is missing")
        head = (event, conversation, branch, revision, kind, place)
        chain = next_chain(chain, digest, head)
        if chain != stored:
            corrupt(f"chain at event {event}")
        purged = _check_fact(connection, head, digest)
        expected += 1
        yield Checked(event, conversation, branch, revision, kind, place, purged)
    if expected != last + 1:
        corrupt(f"event {expected} is missing")


def _check_fact(connection: apsw.Connection, head: Sequence[Any], digest: bytes) -> bool:
    event, conversation, branch, _, kind, place = head
    table = TABLES[TABLE_OF[kind]]
    key: tuple[Value, ...] = (conversation, branch, place, event) if table.key else (event,)
    row: Any = connection.execute(_select(table.name), key).fetchone()
    if row is None:
        corrupt(f"{table.name} of event {event} is missing")
    *columns, salt, stored = row
    # A summary that came too late never had a text, and its digest says so; without its text a purged row's does not.
    purged = table.salted and salt is None and fact_digest(table.name, columns) != stored
    if stored != digest or (not purged and fact_digest(table.name, columns, salt) != digest):
        corrupt(f"{table.name} of event {event}")
    return purged


@cache
def _select(name: str) -> str:
    table = TABLES[name]
    where = (*table.key, "event") if table.key else ("event",)
    columns = ", ".join((*table.columns, "salt" if table.salted else "NULL", "digest"))
    return f"SELECT {columns} FROM {name} WHERE {' AND '.join(f'{one} = ?' for one in where)}"  # noqa: S608


def check_anchor(connection: apsw.Connection, anchored: Anchored) -> None:
    """Compare the ledger with what its anchor says.

    Raises PlannerFault `ledger_rolled_back` where it ends before the anchored event, `ledger_forked` where that event
    is another one.
    """
    mark = anchored.mark
    if mark is None:
        return
    event, _ = newest(connection)
    if event < mark.event:
        raise PlannerFault("ledger_rolled_back", f"newest event {event}, anchored {mark.event}")
    if mark.event and chain_before(connection, mark.event + 1) != mark.chain:
        raise PlannerFault("ledger_forked", f"event {mark.event} is another one than the anchored")


def check_open(connection: apsw.Connection, anchored: Anchored) -> tuple[str, ...]:
    """Check the anchor and the newest events; without a sound anchor check every event, and say so.

    Returns the warnings `anchor_missing` and `anchor_torn`. Raises PlannerFault.
    """
    check_anchor(connection, anchored)
    last, _ = newest(connection)
    warnings: list[str] = []
    first = max(1, last - OPEN_EVENTS + 1)
    if last and (anchored.mark is None or anchored.torn):
        warnings.append("anchor_torn" if anchored.torn else "anchor_missing")
        first = 1
    for _ in check_events(connection, first, last) if last else ():
        pass
    return tuple(warnings)
