"""What turns say about each other: constraints in force, open items, withdrawals (R151, X32, X34, X44, X56)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from planner.values.constraint import Constraint
from planner.values.field_rules import invalid
from planner.values.turn import MustPreserve, Turn


@dataclass(frozen=True, slots=True)
class Relations:
    """Constraints in force by sequence of their turn, and two sets of turn ids.

    held         completed unprotected turns that may leave only through a summary: an open item was last named
                 there, a live constraint of theirs has no text, a message of theirs names a constraint that no
                 turn marks, or they withdraw what a turn marks that stays.
    withdrawing  turns that withdraw a constraint which an older turn marks.
    """

    constraints: tuple[Constraint, ...] = ()
    held: frozenset[str] = frozenset()
    withdrawing: frozenset[str] = frozenset()


NO_RELATIONS = Relations()


def relates(turn: Turn) -> bool:
    """Tell whether `relations` needs this turn; the others say nothing."""
    if turn.must_preserve or turn.supersedes or turn.open_items:
        return True
    return any(message.constraint_ids for message in turn.messages)


def relations(turns: Iterable[Turn]) -> Relations:
    """Return the relations of turns given by sequence; those for which `relates` is false may be left out.

    The newest mark of a constraint counts, and a later withdrawal ends it. What a superseded turn said counts
    no more: what it marked is not in force, what it withdrew is in force again.
    """
    spoken = [turn for turn in turns if turn.state != "superseded"]
    marks: dict[str, tuple[Turn, MustPreserve]] = {}
    ever: set[str] = set()
    withdrawn: list[tuple[Turn, Turn]] = []
    items: dict[str, tuple[Turn, bool]] = {}
    for turn in spoken:
        withdrawn += [(marks.pop(name)[0], turn) for name in turn.supersedes if name in marks]
        for mark in turn.must_preserve:
            marks[mark.constraint_id] = (turn, mark)
        ever.update(mark.constraint_id for mark in turn.must_preserve)
        for item in turn.open_items:
            items[item.id] = (turn, item.status == "done")
    held = {turn.id for turn, done in items.values() if not done}
    held |= {turn.id for turn, mark in marks.values() if mark.text is None}
    held |= {
        turn.id for turn in spoken if any(not ever.issuperset(message.constraint_ids) for message in turn.messages)
    }
    _hold_withdrawals(withdrawn, held)
    movable = {turn.id for turn in spoken if turn.state == "completed" and not turn.pinned}
    ordered = sorted(marks.values(), key=lambda entry: (entry[0].sequence, entry[0].must_preserve.index(entry[1])))
    return Relations(
        tuple(Constraint(mark.constraint_id, turn.id, mark.text) for turn, mark in ordered),
        frozenset(held & movable),
        frozenset(turn.id for _, turn in withdrawn),
    )


def _hold_withdrawals(withdrawn: Sequence[tuple[Turn, Turn]], held: set[str]) -> None:
    """Hold each turn that withdraws what a staying turn marks: the old rule must not stand alone (X44)."""
    while True:
        found = {
            later.id
            for marker, later in withdrawn
            if later.id not in held and (marker.id in held or marker.pinned or marker.state == "open")
        }
        if not found:
            return
        held |= found


def check_supersedes(turn: Turn, marked: Container[str], path: str) -> None:
    """Refuse a target that no earlier turn marks: unknown, later, or the turn's own (X56).

    marked  constraints that earlier turns mark, of any state, and those that retention purged.
    Raises RefusalSignal `invalid-input`.
    """
    for index, name in enumerate(turn.supersedes):
        if name not in marked:
            invalid(f"{path}.supersedes[{index}]", "names a constraint that no earlier turn marks")
        if any(mark.constraint_id == name for mark in turn.must_preserve):
            invalid(f"{path}.supersedes[{index}]", "names a constraint of the same turn")


def check_relations(turns: Sequence[tuple[str, Turn]]) -> None:
    """Check the withdrawals of turns given by sequence, each with its path. Raises RefusalSignal `invalid-input`."""
    marked: set[str] = set()
    for path, turn in turns:
        check_supersedes(turn, marked, path)
        marked.update(mark.constraint_id for mark in turn.must_preserve)
