"""Constraint marks, supersedes relations and open items of a turn (R151, X32, X56, X61)."""

from __future__ import annotations

from collections.abc import Sequence

from planner.ledger.history import turn_versions
from planner.ledger.pages import constraint_text
from planner.ledger.relating import carriers_of
from planner.ledger.rows import TurnRow, newest_turn
from planner.ledger.scope import Appended, Scope, check_id, open_scope
from planner.ledger.store import Store
from planner.ledger.texts import put_text
from planner.values.field_rules import invalid, text_problem
from planner.values.reasons import PlannerFault
from planner.values.turn import MustPreserve, OpenItem

Marks = tuple[tuple[str, str | None], ...]
_STATUSES = ("pending", "blocked", "done")


def check_marks(must_preserve: Sequence[MustPreserve], items: Sequence[OpenItem]) -> None:
    """Refuse marks and items that break a rule of their fields. Raises RefusalSignal `invalid-input`."""
    for index, entry in enumerate(must_preserve):
        if type(entry) is not MustPreserve:
            invalid(f"$.mustPreserve[{index}]", "expected a MustPreserve")
        check_id(entry.constraint_id, f"$.mustPreserve[{index}].constraintId")
        # A turn with a mark that no plan takes could never be repaired: marks are not taken away again.
        problem = None if entry.text is None else text_problem(entry.text)
        if entry.text is not None and not problem and not entry.text.strip():
            problem = "is blank"
        if problem:
            invalid(f"$.mustPreserve[{index}].text", problem)
    for index, item in enumerate(items):
        if type(item) is not OpenItem or item.status not in _STATUSES:
            invalid(f"$.openItems[{index}].status", "is not pending, blocked or done")
        check_id(item.id, f"$.openItems[{index}].id")


def with_marks(scope: Scope, row: TurnRow, wanted: Sequence[MustPreserve]) -> tuple[Marks, Marks]:
    """Return a turn's marks with the wanted ones, and those that are new; a known one with other words is refused."""
    marks, added = list(row.marks), []
    for entry in wanted:
        known = next((part for name, part in marks if name == entry.constraint_id), "")
        if known == "":
            part = None
            if entry.text is not None:
                part = put_text(scope.tx, scope.conversation, "constraint", entry.text.encode())
            marks.append((entry.constraint_id, part))
            added.append((entry.constraint_id, part))
        elif constraint_text(scope.tx.connection, scope.conversation, known) != entry.text:
            raise PlannerFault("duplicate_id", "a constraint of this turn has other words")
    return tuple(marks), tuple(added)


def with_supersedes(row: TurnRow, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the ids a turn supersedes with the wanted ones."""
    return tuple(dict.fromkeys((*row.supersedes, *wanted)))


def with_items(scope: Scope, row: TurnRow, wanted: Sequence[OpenItem]) -> tuple[tuple[str, str], ...]:
    """Return a turn's items with the wanted ones.

    A status the item had before is a repeated call and changes nothing; `set_item` goes back to one.
    """
    if not wanted:
        return row.items
    items: dict[str, str] = dict(row.items)
    earlier = {
        pair
        for version in turn_versions(scope.tx.connection, scope.conversation, row.ordinal, row.id)
        for pair in version.items
    }
    for item in wanted:
        if (item.id, item.status) not in earlier:
            items[item.id] = item.status
    return tuple(items.items())


def check_supersedes(scope: Scope, row: TurnRow, wanted: Sequence[str]) -> None:
    """Refuse a target that no earlier turn of this line marks: unknown, later, or the turn's own (X56).

    A target whose turn was purged is still known: its mark stays.
    """
    for index, name in enumerate(wanted):
        path = f"$.supersedes[{index}]"
        check_id(name, path)
        if any(name == own for own, _ in row.marks):
            invalid(path, "names a constraint of the same turn")
        if not _is_marked_before(scope, row.ordinal, name):
            invalid(path, "names no constraint of an earlier turn")


def _is_marked_before(scope: Scope, ordinal: int, constraint_id: str) -> bool:
    return any(
        scope.tx.connection.execute(
            "SELECT 1 FROM mark WHERE conversation = ? AND branch = ? AND name = ? AND op = 'mark'"
            " AND turn < ? AND turn <= ? AND event <= ?",
            (scope.conversation, segment.branch, constraint_id, ordinal, segment.at_ordinal, segment.at_event),
        ).fetchone()
        for segment in scope.line
    )


def put_marks(scope: Scope, before: TurnRow, after: TurnRow, added: Marks) -> None:
    """Write the index rows of what a turn's new version marks, supersedes and leaves open, and what that touches."""
    superseded = [name for name in after.supersedes if name not in before.supersedes]
    if set(superseded) & {name for name, _ in after.marks}:
        invalid("$.supersedes", "names a constraint of the same turn")
    if set(after.supersedes) & {name for name, _ in added}:
        invalid("$.mustPreserve", "marks a constraint that the same turn takes back")
    for name, part in added:
        scope.put_name(after, after.event, "mark", name, part)
        scope.touch(before, after.event, "constraint", name)
        touch_carriers(scope, after, name)
    for name in {name for name, _ in set(after.items) - set(before.items)} - {name for name, _ in before.items}:
        scope.put_name(after, after.event, "item", name)
    for name, _ in set(after.items) - set(before.items):
        scope.touch(before, after.event, "item", name)
    for name in superseded:
        scope.put_name(after, after.event, "supersede", name)
        scope.touch(before, after.event, "constraint", name)
        touch_carriers(scope, after, name)


def touch_carriers(scope: Scope, after: TurnRow, constraint_id: str) -> None:
    """Touch the turn that carried a live constraint and the one that carries it now, where these are not the same.

    after  the turn whose change did it, which is touched for what changed there

    To be called once the change is recorded and before what is derived from it is brought up to date.
    """
    connection = scope.tx.connection
    rows = connection.execute(
        "SELECT turn FROM relation WHERE conversation = ? AND branch = ? AND name = ? AND kind = 'live'",
        (scope.conversation, scope.branch, constraint_id),
    )
    before = {int(str(turn)) for (turn,) in rows}
    changed = before ^ carriers_of(connection, scope.conversation, scope.line, constraint_id)
    for ordinal in sorted(changed - {after.ordinal}):
        carrier = newest_turn(connection, scope.conversation, scope.line, ordinal)
        scope.touch(carrier, after.event, "constraint", constraint_id)


def mark(
    store: Store, conversation_id: str, turn_id: str, must_preserve: Sequence[MustPreserve], generation: int | None
) -> Appended:
    """Mark constraints on a turn of any state but superseded; marks that are there already are a no-op."""
    check_marks(must_preserve, ())
    with store.write("mark") as tx:
        scope = open_scope(tx, conversation_id, generation)
        row = scope.turn(turn_id)
        if row.state == "superseded":
            invalid("$.turnId", "names a superseded turn")
        marks, added = with_marks(scope, row, must_preserve)
        if added:
            put_marks(scope, row, scope.change_turn("mark", row, marks=marks), added)
            scope.settle(row.ordinal)
        return scope.result(turn_id)


def supersede(
    store: Store, conversation_id: str, turn_id: str, constraint_ids: Sequence[str], generation: int | None
) -> Appended:
    """Record that a turn takes earlier constraints back (R151). Notes name targets that retention purged."""
    with store.write("supersede") as tx:
        scope = open_scope(tx, conversation_id, generation)
        row = scope.turn(turn_id)
        if row.state == "superseded":
            invalid("$.turnId", "names a superseded turn")
        check_supersedes(scope, row, constraint_ids)
        names = with_supersedes(row, constraint_ids)
        if names != row.supersedes:
            put_marks(scope, row, scope.change_turn("supersede", row, supersedes=names), ())
            scope.settle(row.ordinal)
        return scope.result(turn_id, notes=_purged(scope, constraint_ids))


def _purged(scope: Scope, names: Sequence[str]) -> tuple[str, ...]:
    through = scope.head.purged_through
    if through is None:
        return ()
    found = []
    for name in names:
        row = scope.tx.connection.execute(
            "SELECT max(sequence) FROM mark WHERE conversation = ? AND name = ? AND op = 'mark'",
            (scope.conversation, name),
        ).get
        if row is not None and row <= through:
            found.append(f"purged:{name}")
    return tuple(found)


def set_item(store: Store, conversation_id: str, turn_id: str, item: OpenItem, generation: int | None) -> Appended:
    """Set the status of an open item of a turn: an event of the application (X32)."""
    check_marks((), (item,))
    with store.write("set an item") as tx:
        scope = open_scope(tx, conversation_id, generation)
        row = scope.turn(turn_id)
        items = tuple({**dict(row.items), item.id: item.status}.items())
        if items != row.items:
            put_marks(scope, row, scope.change_turn("item", row, items=items), ())
            scope.settle(row.ordinal)
        return scope.result(turn_id)


def touch_marks(scope: Scope, after: TurnRow) -> None:
    """Touch the turns that carry a constraint again because this one has been superseded."""
    for name in dict.fromkeys((*after.supersedes, *(name for name, _ in after.marks))):
        touch_carriers(scope, after, name)
