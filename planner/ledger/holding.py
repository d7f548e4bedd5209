"""What a view says of constraints and of turns that must not leave alone, from rows (X34, X44).

The same as `relations` of values/relations.py finds from the turns themselves; a law compares the two.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import apsw

from planner.ledger.heads import BranchRow
from planner.ledger.lineage import Segment
from planner.ledger.pages import constraint_text, shown_messages
from planner.ledger.relating import Relation, read_relations
from planner.ledger.rows import TurnRow, newest_messages, newest_turn
from planner.values.constraint import Constraint


@dataclass(frozen=True, slots=True)
class Held:
    """Constraints in force by sequence of their turn, and ordinals of the turns `View` names likewise.

    `lost` is what a purged turn would have to say: see `View`.
    """

    constraints: tuple[Constraint, ...]
    held: tuple[int, ...]
    withdrawing: tuple[int, ...]
    lost: tuple[str, ...] = ()


def read_held(
    connection: apsw.Connection,
    counters: BranchRow,
    line: Sequence[Segment],
    pinned: Collection[int],
    hidden: Collection[int],
    start: int = 0,
) -> Held:
    """Return the relations of a line: `pinned` and `hidden` are ordinals, `start` the first that was not purged.

    Raises PlannerFault `ledger_corrupt`.
    """
    rows = read_relations(connection, counters)
    live = _live(connection, counters.conversation, line, [row for row in rows if row[0] == "live"])
    held = {turn for kind, turn, _, _, _ in rows if kind in ("item", "unmarked")}
    held |= {ordinal for ordinal, _, constraint in live if constraint.text is None}
    pairs = [(turn, other) for kind, turn, _, other, _ in rows if kind == "withdrawn"]
    staying = set(pinned) | {
        turn for turn, _ in pairs if turn in hidden and _is_protected(connection, counters.conversation, line, turn)
    }
    while True:
        more = {other for turn, other in pairs if turn in staying or turn in held} - held
        if not more:
            break
        held |= more
    return Held(
        constraints=tuple(constraint for _, _, constraint in live),
        held=tuple(sorted(held - set(pinned) - set(hidden))),
        withdrawing=tuple(sorted({other for _, other in pairs} - set(hidden))),
        lost=(
            *(f"constraint/{one.id}" for ordinal, _, one in live if ordinal < start and one.text is None),
            *(
                f"item/{name}"
                for kind, turn, name, _, _ in rows
                if kind == "item"
                and turn < start
                and newest_turn(connection, counters.conversation, line, turn).state == "completed"
            ),
        ),
    )


def _live(
    connection: apsw.Connection, conversation: int, line: Sequence[Segment], rows: Sequence[Relation]
) -> list[tuple[int, int, Constraint]]:
    """Return constraints in force with ordinal and place: by their turn, within a turn in the order of its marks."""
    found: list[tuple[int, int, Constraint]] = []
    turns: dict[int, TurnRow] = {}
    for _, ordinal, name, _, part in rows:
        if ordinal not in turns:
            turns[ordinal] = newest_turn(connection, conversation, line, ordinal)
        row = turns[ordinal]
        place = [entry for entry, _ in row.marks].index(name)
        found.append((ordinal, place, Constraint(name, row.id, constraint_text(connection, conversation, part))))
    return sorted(found, key=lambda entry: entry[:2])


def _is_protected(connection: apsw.Connection, conversation: int, line: Sequence[Segment], ordinal: int) -> bool:
    row = newest_turn(connection, conversation, line, ordinal)
    messages = newest_messages(connection, conversation, line, ordinal, ordinal).get(ordinal, [])
    return any(entry.protection is not None for entry in shown_messages(row, messages))
