"""What turns of a branch say about each other, as rows that a view reads: the same as values/relations.py finds.

A constraint is in force where, of all turns that are not superseded, the last one to name it marks it; a superseded
turn neither marks nor withdraws (X44, X56). An item is open where the last such turn to name it leaves it unfinished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from planner.ledger.bodies import constraint_ids
from planner.ledger.facts import NO_SUM, short_digest, with_rows
from planner.ledger.faults import corrupt
from planner.ledger.heads import BranchRow, with_relations
from planner.ledger.lineage import Segment
from planner.ledger.pages import shown_messages
from planner.ledger.rows import TurnRow, newest_messages, newest_turn
from planner.ledger.transaction import Transaction

Relation = tuple[str, int, str, int, str | None]
"""Kind, ordinal, id of the constraint or item, other ordinal or -1, key of the wording."""
_CONSTRAINT = ("mark", "supersede", "names")
_NONE = -1


def names_of(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], row: TurnRow
) -> dict[str, set[str]]:
    """Return the ids that a turn and its messages name, by op."""
    messages = newest_messages(connection, conversation, line, row.ordinal, row.ordinal).get(row.ordinal, [])
    shown = shown_messages(row, messages)
    return {
        "mark": {name for name, _ in row.marks},
        "supersede": set(row.supersedes),
        "item": {name for name, _ in row.items},
        "names": {name for entry in shown for name in constraint_ids(entry.body)},
    }


def _ops(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], name: str, ops: Sequence[str]
) -> list[tuple[int, str, str | None]]:
    """Return (turn, op, part) of every turn that ever named an id, by turn."""
    found: set[tuple[int, str, str | None]] = set()
    for segment in line:
        for op in ops:
            rows: list[Any] = connection.execute(
                "SELECT turn, op, part FROM mark WHERE conversation = ? AND branch = ? AND name = ? AND op = ?"
                " AND turn <= ? AND event <= ?",
                (conversation, segment.branch, name, op, segment.at_ordinal, segment.at_event),
            ).fetchall()
            found.update(rows)
    return sorted(found, key=lambda entry: entry[:2])


def relations_of(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], name: str, *, item: bool
) -> set[Relation]:
    """Return the relations that rest on one id, from the turns that name it."""
    turns: dict[int, TurnRow] = {}
    ops = _ops(connection, conversation, line, name, ("item",) if item else _CONSTRAINT)
    for ordinal, _, _ in ops:
        if ordinal not in turns:
            turns[ordinal] = newest_turn(connection, conversation, line, ordinal)
    spoken = [entry for entry in ops if turns[entry[0]].state != "superseded"]
    if item:
        last = next((ordinal for ordinal, _, _ in reversed(spoken)), None)
        if last is None or dict(turns[last].items).get(name) == "done":
            return set()
        return {("item", last, name, _NONE, None)}
    found: set[Relation] = set()
    marked: tuple[int, str | None] | None = None
    for ordinal, op, part in spoken:
        if op == "mark":
            marked = (ordinal, part)
        elif op == "supersede" and marked is not None:
            found.add(("withdrawn", marked[0], name, ordinal, None))
            marked = None
    if marked is not None:
        found.add(("live", marked[0], name, _NONE, marked[1]))
    if not found:
        naming = (ordinal for ordinal, op, _ in spoken if op == "names")
        found |= {
            ("unmarked", ordinal, name, _NONE, None)
            for ordinal in naming
            if name in names_of(connection, conversation, line, turns[ordinal])["names"]
        }
    return found


def carriers_of(connection: apsw.Connection, conversation: int, line: Sequence[Segment], name: str) -> set[int]:
    """Return the ordinal of the turn that carries a constraint in force, nothing where none does."""
    found = relations_of(connection, conversation, line, name, item=False)
    return {ordinal for kind, ordinal, _, _, _ in found if kind == "live"}


def gained_carriers(connection: apsw.Connection, conversation: int, branch: int, parent: int) -> list[tuple[str, int]]:
    """Return the constraints in force in a branch, with the turn that carries each, which its parent has not so."""
    live = "SELECT name, turn FROM relation WHERE conversation = ? AND branch = ? AND kind = 'live'"
    rows: Any = connection.execute(
        f"{live} EXCEPT {live} ORDER BY turn, name", (conversation, branch, conversation, parent)
    ).fetchall()
    return [(str(name), int(turn)) for name, turn in rows]


def settle_relations(
    tx: Transaction, conversation: int, line: Sequence[Segment], constraints: Iterable[str], items: Iterable[str]
) -> None:
    """Bring the rows of some ids in `relation` up to date."""
    branch = line[0].branch
    for names, item in ((sorted(set(constraints)), False), (sorted(set(items)), True)):
        for name in names:
            rows: Any = tx.connection.execute(
                "SELECT kind, turn, name, other, part FROM relation WHERE conversation = ? AND branch = ? AND name = ?",
                (conversation, branch, name),
            ).fetchall()
            before = {row for row in rows if (row[0] == "item") == item}
            after = relations_of(tx.connection, conversation, line, name, item=item)
            put_relations(tx.connection, (conversation, branch), before - after, after - before)
            tx.set_branch(with_relations(tx.branch(conversation, branch), before ^ after))


def put_relations(
    connection: apsw.Connection, key: tuple[int, int], gone: Iterable[Relation], new: Iterable[Relation]
) -> None:
    """Take rows out of `relation` and put others in; the caller keeps the sum."""
    for row in gone:
        connection.execute(
            "DELETE FROM relation WHERE conversation = ? AND branch = ? AND kind = ? AND turn = ? AND name = ?"
            " AND other = ?",
            (*key, *row[:4]),
        )
    for row in new:
        connection.execute(
            "INSERT INTO relation (conversation, branch, kind, turn, name, other, part) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, *row),
        )


def read_relations(connection: apsw.Connection, counters: BranchRow) -> list[Relation]:
    """Return the relations of a branch, checked against their sum. Raises PlannerFault `ledger_corrupt`."""
    rows: list[Any] = connection.execute(
        "SELECT kind, turn, name, other, part FROM relation WHERE conversation = ? AND branch = ?"
        " ORDER BY kind, turn, name, other",
        (counters.conversation, counters.branch),
    ).fetchall()
    if with_rows(NO_SUM, (short_digest("relation", *row) for row in rows)) != counters.relation_sum:
        corrupt(f"relations of branch {counters.branch}")
    return rows


def all_relations(connection: apsw.Connection, conversation: int, line: Sequence[Segment]) -> set[Relation]:
    """Return the relations of a line from its facts."""
    found: set[Relation] = set()
    names: set[tuple[str, bool]] = set()
    for segment in line:
        rows: Any = connection.execute(
            "SELECT DISTINCT name, op = 'item' FROM mark WHERE conversation = ? AND branch = ? AND turn <= ?"
            " AND event <= ?",
            (conversation, segment.branch, segment.at_ordinal, segment.at_event),
        ).fetchall()
        names |= {(str(name), bool(item)) for name, item in rows}
    for name, item in names:
        found |= relations_of(connection, conversation, line, name, item=item)
    return found
