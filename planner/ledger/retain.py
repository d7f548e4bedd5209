"""Retention: the only way originals leave, by an explicit run that records what can no longer be had (R2, R146).

Text and salt go, digest and chain stay, so the chain stays whole and what was said cannot be guessed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw

from planner.ledger.chains import extend_chain, first_ordinal
from planner.ledger.current import Line, moved_on
from planner.ledger.faults import mapped
from planner.ledger.heads import conversation_key
from planner.ledger.lineage import NO_CUT, Segment, lineage
from planner.ledger.lock import lock_of
from planner.ledger.purge_effects import current_in, effects
from planner.ledger.relating import settle_relations
from planner.ledger.rows import newest_messages, newest_turn
from planner.ledger.scope import Scope, check_id, open_scope
from planner.ledger.store import Store
from planner.ledger.stored import Active
from planner.ledger.summary_rows import SummaryRow, is_visible, rows_where
from planner.ledger.transaction import Transaction
from planner.values.field_rules import invalid, is_whole

KEPT_PARTS = ("constraint", "fact", "policy")
"""Kinds of parts that a retention run does not take as a whole: a constraint outlives its turn.

How a dispute ended goes with the last turn its fact rested on: no summary of it can be built again.
"""


@dataclass(frozen=True, slots=True)
class Boundary:
    """One retention run: turns up to `through_sequence` have no originals any more, and `reason` says why.

    `cleared` is false where a reader or a full disk kept old pages from being overwritten; the same run again does it.
    `voided` are ids of current summaries that end with the run, `lost` what plans are refused for afterwards
    (`unrecoverable_history`); both are told by the run itself and not by its record.
    """

    conversation_id: str
    through_sequence: int | None
    reason: str
    turns: int = 0
    messages: int = 0
    parts: int = 0
    summaries: int = 0
    event: int | None = None
    cleared: bool = True
    voided: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class _Rehearsed(Exception):  # noqa: N818 - it says no error
    """Ends the transaction of a rehearsal: nothing of it stays."""

    def __init__(self, boundary: Boundary) -> None:
        super().__init__()
        self.boundary = boundary


def retain(
    store: Store, conversation_id: str, before_sequence: int, reason: str, *, rehearse: bool = False
) -> Boundary:
    """Purge the originals of every turn that began before a sequence, in every branch.

    reason    an id such as `policy-30-days`, no sentence.
    rehearse  do all of it and take it back: the answer is that of the run, without event, and nothing is written.
    Open and protected turns are no one's to purge: RefusalSignal `invalid-input` names the sequence. Constraints in
    force keep their words; every other part of the conversation goes, requests kept for replay among them.
    """
    check_id(reason, "$.reason")
    if not is_whole(before_sequence):
        invalid("$.beforeSequence", "expected a whole number, 0 or more")
    if rehearse:
        return _rehearsal(store, conversation_id, before_sequence, reason)
    _secure_delete(store, "on")
    try:
        with store.write("retain") as tx:
            boundary = _purge(open_scope(tx, conversation_id, None), before_sequence, reason)
        return replace(boundary, cleared=boundary.through_sequence is None or _clear(store))
    finally:
        _secure_delete(store, "fast")


def _rehearsal(store: Store, conversation_id: str, before_sequence: int, reason: str) -> Boundary:
    try:
        with store.write("rehearse retention") as tx:
            raise _Rehearsed(_purge(open_scope(tx, conversation_id, None), before_sequence, reason))
    except _Rehearsed as end:
        return replace(end.boundary, event=None, cleared=True)


def _secure_delete(store: Store, value: str) -> None:
    with mapped("set secure_delete"):
        store.connection().execute(f"PRAGMA secure_delete={value}").fetchall()


def _purge(scope: Scope, before_sequence: int, reason: str) -> Boundary:
    tx = scope.tx
    lines = _lines(tx, scope.conversation)
    starts = [first_ordinal(tx.connection, scope.conversation, line, before_sequence - 1) for line in lines]
    for line, start in zip(lines, starts, strict=True):
        _refuse_protected(tx.connection, scope.conversation, line, start)
    through = _through(tx.connection, scope.conversation, before_sequence)
    known = scope.head.purged_through
    if through is None or (known is not None and through <= known):
        return Boundary(scope.conversation_id, known, reason)
    before = current_in(scope, lines, known)
    tx.connection.execute("INSERT INTO retention_switch (open) VALUES (1)")
    counts: dict[str, Any] = {
        "turns": _touch_purged(tx, scope.conversation, through, -1 if known is None else known),
        "messages": _purge_messages(tx, scope.conversation, lines, starts, before_sequence),
        "parts": _purge_parts(tx, scope.conversation, lines, starts) + _purge_facts(tx, scope.conversation, through),
        "summaries": _purge_summaries(tx, scope.conversation, lines, (before_sequence, through)),
    }
    _settle_names(tx, scope.conversation, lines, through)
    tx.fail("after_purge")
    event = tx.record("retention", conversation=scope.conversation, through_sequence=through, reason=reason, **counts)
    tx.connection.execute("DELETE FROM retention_switch")
    tx.set_head(replace(scope.head, purged_through=through))
    tx.connection.execute("DELETE FROM turn_chain WHERE conversation = ?", (scope.conversation,))
    extend_chain(tx, scope.conversation, scope.line)
    found = effects(scope, lines, before, through)
    return Boundary(
        scope.conversation_id, through, reason, **counts, event=event, cleared=False, voided=found.voided,
        lost=found.lost,
    )  # fmt: skip


def _lines(tx: Transaction, conversation: int) -> list[tuple[Segment, ...]]:
    keys = tx.connection.execute("SELECT key FROM branch WHERE conversation = ? ORDER BY key", (conversation,))
    return [lineage(tx.connection, int(str(row[0])), NO_CUT) for row in keys.fetchall()]


def _through(connection: apsw.Connection, conversation: int, before_sequence: int) -> int | None:
    """Return the highest sequence that a run takes: of a turn, or of a record that is in none."""
    row: Any = connection.execute(
        "SELECT (SELECT max(sequence) FROM turn WHERE conversation = ?1 AND version = 1 AND sequence < ?2),"
        " (SELECT max(sequence) FROM message WHERE conversation = ?1 AND turn IS NULL AND sequence < ?2)",
        (conversation, before_sequence),
    ).fetchone()
    return max((one for one in row if one is not None), default=None)


def _refuse_protected(connection: apsw.Connection, conversation: int, line: Sequence[Segment], start: int) -> None:
    candidates: set[int] = set()
    for segment in line:
        for sql in (
            "SELECT DISTINCT turn FROM message WHERE conversation = ? AND branch = ? AND turn < ? AND protection"
            " IS NOT NULL AND body IS NOT NULL",
            "SELECT DISTINCT ordinal FROM turn WHERE conversation = ? AND branch = ? AND ordinal < ?"
            " AND state = 'open'",
        ):
            rows = connection.execute(sql, (conversation, segment.branch, min(start, segment.at_ordinal + 1)))
            candidates |= {int(str(row[0])) for row in rows.fetchall()}
    for ordinal in sorted(candidates):
        row = newest_turn(connection, conversation, line, ordinal)
        messages = newest_messages(connection, conversation, line, ordinal, ordinal).get(ordinal, [])
        if row.state == "open":
            invalid("$.beforeSequence", f"takes in the open turn with sequence {row.sequence}")
        if row.state != "superseded" and any(entry.protection is not None for entry in messages):
            invalid("$.beforeSequence", f"takes in a protected message of the turn with sequence {row.sequence}")


def _touch_purged(tx: Transaction, conversation: int, through: int, after: int) -> int:
    """Touch the turns that lose their originals; the run's own event is the next one."""
    rows: list[Any] = tx.connection.execute(
        "SELECT branch, sequence, id FROM turn WHERE conversation = ? AND version = 1 AND sequence > ?"
        " AND sequence <= ?",
        (conversation, after, through),
    ).fetchall()
    tx.connection.execute("PRAGMA defer_foreign_keys=on").fetchall()
    for branch, sequence, name in rows:
        tx.connection.execute(
            "INSERT INTO touch (conversation, branch, sequence, event, cause, causing_id)"
            " VALUES (?, ?, ?, ?, 'purge', ?)",
            (conversation, branch, sequence, tx.event + 1, name),
        )
    return len(rows)


def _purge_messages(
    tx: Transaction, conversation: int, lines: Sequence[Sequence[Segment]], starts: Sequence[int], before: int
) -> int:
    count = 0
    update = "UPDATE message SET body = NULL, salt = NULL WHERE conversation = ? AND branch = ? AND body IS NOT NULL"
    for line, start in zip(lines, starts, strict=True):
        branch = line[0].branch
        tx.connection.execute(f"{update} AND turn < ?", (conversation, branch, start))
        count += tx.connection.changes()
        tx.connection.execute(f"{update} AND turn IS NULL AND sequence < ?", (conversation, branch, before))
        count += tx.connection.changes()
    return count


def _settle_names(tx: Transaction, conversation: int, lines: Sequence[Sequence[Segment]], through: int) -> None:
    """Bring relations up to date that rested on what a purged message named: it names nothing any more."""
    rows: list[Any] = tx.connection.execute(
        "SELECT DISTINCT name FROM mark WHERE conversation = ? AND op = 'names' AND sequence <= ?",
        (conversation, through),
    ).fetchall()
    for line in lines:
        settle_relations(tx, conversation, line, (name for (name,) in rows), ())


def _purge_parts(tx: Transaction, conversation: int, lines: Sequence[Sequence[Segment]], starts: Sequence[int]) -> int:
    kept = "', '".join(KEPT_PARTS)
    tx.connection.execute(f"DELETE FROM part WHERE conversation = ? AND kind NOT IN ('{kept}')", (conversation,))  # noqa: S608
    count = tx.connection.changes()
    for line, start in zip(lines, starts, strict=True):
        tx.connection.execute(
            "DELETE FROM part WHERE conversation = ?1 AND kind = 'constraint' AND key IN"
            " (SELECT part FROM mark WHERE conversation = ?1 AND branch = ?2 AND turn < ?3 AND part IS NOT NULL)"
            " AND key NOT IN"
            " (SELECT part FROM relation WHERE conversation = ?1 AND kind = 'live' AND part IS NOT NULL)",
            (conversation, line[0].branch, start),
        )
        count += tx.connection.changes()
    return count


def _purge_facts(tx: Transaction, conversation: int, through: int) -> int:
    tx.connection.execute(
        "DELETE FROM part WHERE conversation = ?1 AND kind = 'fact' AND key IN (SELECT r.part FROM resolution r"
        " WHERE r.conversation = ?1 AND (SELECT max(t.sequence) FROM touch t WHERE t.conversation = ?1"
        " AND t.event = r.event) <= ?2)",
        (conversation, through),
    )
    return tx.connection.changes()


def _purge_summaries(
    tx: Transaction, conversation: int, lines: Sequence[Sequence[Segment]], border: tuple[int, int]
) -> int:
    """Take the text of old versions; one that stands for purged turns stays, as the declared border (X41, R77).

    What a change made stale in every line stands for nothing, and its sources are gone, so it can never be verified
    again. `border` is the sequence retention goes up to, and that of the last turn below it.
    """
    before, through = border
    count = 0
    for row in rows_where(
        tx.connection, "conversation = ? AND covers_to < ? AND body IS NOT NULL", (conversation, before)
    ):
        used = tx.connection.execute(
            "SELECT 1 FROM active_run WHERE summary = ?1 UNION ALL SELECT 1 FROM adoption WHERE summary = ?1",
            (row.event,),
        ).fetchone()
        if row.status == "accepted" and used is not None and _stands(tx.connection, conversation, lines, row, through):
            continue
        tx.connection.execute("UPDATE summary SET body = NULL, salt = NULL WHERE event = ?", (row.event,))
        count += 1
    return count


def _stands(
    connection: apsw.Connection, conversation: int, lines: Sequence[Sequence[Segment]], row: SummaryRow, through: int
) -> bool:
    """Tell whether some line still sees a summary whose turns nothing changed; versions in force are not looked at."""
    return any(
        is_visible(row, line)
        and moved_on(connection, Line(conversation, tuple(line), row.generation, through), row, Active(None, None))
        is None
        for line in lines
    )


def _clear(store: Store) -> bool:
    """Overwrite what is left of deleted text in free pages and in the -wal; false where that cannot be done now."""
    with mapped("clear free pages"), lock_of(store.path).held():
        store.fail("before_vacuum")
        emptied = store.checkpoint()
        try:
            store.connection().execute("VACUUM")
        except (apsw.BusyError, apsw.FullError):
            return False
        return store.checkpoint() and emptied


def retentions(store: Store, conversation_id: str) -> tuple[Boundary, ...]:
    """Return every retention run of a conversation, oldest first: what is gone and why (R146)."""
    with store.read("read retention runs") as connection:
        rows: list[Any] = connection.execute(
            "SELECT through_sequence, reason, turns, messages, parts, summaries, event FROM retention"
            " WHERE conversation = ? ORDER BY event",
            (conversation_key(connection, conversation_id),),
        ).fetchall()
        return tuple(Boundary(conversation_id, *row) for row in rows)
