"""Index rows compared with the facts they spread out: parts, names of constraints and items, touches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw

from planner.ledger.bodies import constraint_ids
from planner.ledger.checks import Checked
from planner.ledger.facts import TABLE_OF
from planner.ledger.lineage import Segment, branch_row, lineage
from planner.ledger.relating import carriers_of
from planner.ledger.rows import TurnRow, newest_turn, turn_row
from planner.ledger.summary_checks import summary_index_problems
from planner.ledger.texts import get_text, part_digest

_TOUCHING = frozenset({"edit", "protection", "withdraw", "mark", "supersede", "item"})


def is_touch_missing(connection: apsw.Connection, checked: Checked) -> bool:
    """Tell whether an event changed a completed turn and left no touch, so that a stale summary would look current."""
    if checked.kind == "resolution":
        return connection.execute("SELECT 1 FROM touch WHERE event = ?", (checked.event,)).fetchone() is None
    if checked.kind == "branch":
        return _is_branch_untouched(connection, checked)
    if TABLE_OF[checked.kind] == "turn" and _is_any_carrier_untouched(connection, checked):
        return True
    if checked.kind not in _TOUCHING:
        return False
    ordinal: Any = checked.place
    if checked.kind in ("edit", "protection"):
        ordinal = connection.execute(
            "SELECT turn FROM message WHERE conversation = ? AND branch = ? AND sequence = ? AND event = ?",
            (checked.conversation, checked.branch, checked.place, checked.event),
        ).get
    line = lineage(connection, checked.branch, checked.event - 1)
    before = newest_turn(connection, checked.conversation, line, ordinal)
    return before.state == "completed" and not _is_touched(connection, checked, before)


def _is_any_carrier_untouched(connection: apsw.Connection, checked: Checked) -> bool:
    """Tell whether a turn's new version took a constraint from another turn or gave one back, and left no touch."""
    before = lineage(connection, checked.branch, checked.event - 1)
    after = lineage(connection, checked.branch, checked.event)
    turn = newest_turn(connection, checked.conversation, after, checked.place)
    changed: set[int] = set()
    for name in {*turn.supersedes, *(name for name, _ in turn.marks)}:
        changed |= _carriers(connection, checked, before, name) ^ _carriers(connection, checked, after, name)
    return _is_carrier_untouched(connection, checked, after, changed - {turn.ordinal})


def _carriers(connection: apsw.Connection, checked: Checked, line: Sequence[Segment], name: str) -> set[int]:
    return carriers_of(connection, checked.conversation, line, name)


def _is_carrier_untouched(
    connection: apsw.Connection, checked: Checked, line: Sequence[Segment], ordinals: Iterable[int]
) -> bool:
    """Tell whether one of these turns, whose constraints an event changed, is ended and was not touched by it."""
    turns = (newest_turn(connection, checked.conversation, line, ordinal) for ordinal in ordinals)
    return any(turn.state != "open" and not _is_touched(connection, checked, turn) for turn in turns)


def _is_touched(connection: apsw.Connection, checked: Checked, row: TurnRow) -> bool:
    found = connection.execute(
        "SELECT 1 FROM touch WHERE conversation = ? AND branch = ? AND sequence = ? AND event = ?",
        (checked.conversation, checked.branch, row.sequence, checked.event),
    ).fetchone()
    return found is not None


def _is_branch_untouched(connection: apsw.Connection, checked: Checked) -> bool:
    """Tell whether a branch began with a turn that carries a constraint there alone, and left no touch on it."""
    _, conversation, _, parent, at_ordinal, _, at_event = branch_row(connection, checked.branch)
    if parent is None:
        return False
    inner, outer = lineage(connection, checked.branch, checked.event), lineage(connection, parent, at_event)
    names: set[str] = set()
    for segment in outer:
        rows: Any = connection.execute(
            "SELECT DISTINCT name FROM mark WHERE conversation = ? AND branch = ? AND op IN ('mark', 'supersede')"
            " AND turn > ? AND turn <= ? AND event <= ?",
            (conversation, segment.branch, at_ordinal, segment.at_ordinal, segment.at_event),
        ).fetchall()
        names.update(str(name) for (name,) in rows)
    gained: set[int] = set()
    for name in names:
        gained |= _carriers(connection, checked, inner, name) - _carriers(connection, checked, outer, name)
    return _is_carrier_untouched(connection, checked, inner, gained)


def partial_index_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield partial indexes with more entries than rows: SQLite's own check does not count those of a partial one."""
    rows: Any = connection.execute(
        "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %' ORDER BY name"
    ).fetchall()
    for name, table, sql in rows:
        condition = sql.split(" WHERE ", 1)[1]
        indexed = connection.execute(
            f"SELECT count(*) FROM {table} INDEXED BY {name} WHERE {condition}"  # noqa: S608 - our own schema
        ).get
        # Without a WHERE no partial index is used.
        counted = connection.execute(f"SELECT total(({condition}) IS TRUE) FROM {table}").get  # noqa: S608
        if indexed != counted:
            yield f"index {name}"


def index_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield what of `mark`, `touch` and `part` does not agree with the facts."""
    yield from _part_problems(connection)
    yield from _name_problems(connection)
    yield from summary_index_problems(connection)
    rows = connection.execute(
        "SELECT t.event FROM touch t LEFT JOIN event e ON e.event = t.event"
        " WHERE e.event IS NULL OR e.conversation <> t.conversation"
    ).fetchall()
    yield from (f"touch of event {row[0]}" for row in rows)


def _part_problems(connection: apsw.Connection) -> Iterator[str]:
    rows: Any = connection.execute("SELECT kind, key, salt, body, digest FROM part")
    for kind, key, salt, body, digest in rows:
        if part_digest(kind, key, salt, body) != digest:
            yield f"part of kind {kind}"
    rows = connection.execute(
        "SELECT conversation FROM policy o WHERE NOT EXISTS (SELECT 1 FROM part p"
        " WHERE p.conversation = o.conversation AND p.kind = 'policy' AND p.key = o.part)"
    )
    yield from (f"part of kind policy of conversation {conversation}" for (conversation,) in rows)
    # Retention takes the words of a decision with the last turn it touched.
    rows = connection.execute(
        "SELECT r.event FROM resolution r JOIN head h ON h.conversation = r.conversation WHERE NOT EXISTS"
        " (SELECT 1 FROM part p WHERE p.conversation = r.conversation AND p.kind = 'fact' AND p.key = r.part)"
        " AND (SELECT max(t.sequence) FROM touch t WHERE t.conversation = r.conversation AND t.event = r.event)"
        " > ifnull(h.purged_through, -1)"
    )
    yield from (f"part of kind fact of event {event}" for (event,) in rows)


def _name_problems(connection: apsw.Connection) -> Iterator[str]:
    """Compare `mark` with the turn rows and messages that name constraints and items, in both directions."""
    expected: set[tuple[int, int, str, str, str | None]] = set()
    rows: Any = connection.execute(
        "SELECT conversation, branch, ordinal, event, id, sequence, version, messages, state, actor, material, marks,"
        " supersedes, items, digest FROM turn WHERE marks IS NOT NULL OR supersedes IS NOT NULL OR items IS NOT NULL"
    )
    for row in rows:
        turn = turn_row(row)
        key = (turn.conversation, turn.ordinal)
        expected |= {(*key, "mark", name, part) for name, part in turn.marks}
        expected |= {(*key, "supersede", name, None) for name in turn.supersedes}
        expected |= {(*key, "item", name, None) for name, _ in turn.items}
    rows = connection.execute("SELECT conversation, turn, body FROM message WHERE instr(body, '\"constraintIds\"')")
    for conversation, ordinal, body in rows:
        expected |= {(conversation, ordinal, "names", name, None) for name in constraint_ids(body)}
    found: set[tuple[int, int, str, str, str | None]] = set()
    rows = connection.execute(
        "SELECT m.conversation, m.branch, m.event, m.turn, m.sequence, m.op, m.name, m.part, h.purged_through"
        " FROM mark m JOIN head h ON h.conversation = m.conversation"
    )
    for conversation, branch, event, ordinal, sequence, op, name, part, purged_through in rows:
        found.add((conversation, ordinal, op, name, part))
        purged = purged_through is not None and sequence <= purged_through
        # A purged message no longer says what it named.
        known = (conversation, ordinal, op, name, part) in expected or (op == "names" and purged)
        turn = newest_turn(connection, conversation, lineage(connection, branch, event), ordinal)
        if not known or turn.sequence != sequence:
            yield f"mark of turn {ordinal}"
        elif not purged and part is not None and get_text(connection, conversation, "constraint", part) is None:
            yield f"part of kind constraint of turn {ordinal}"
    for _, ordinal, op, _, _ in sorted(expected - found, key=lambda entry: entry[:4]):
        yield f"a {op} of turn {ordinal} is not in the index"
