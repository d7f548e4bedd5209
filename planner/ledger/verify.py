"""The whole ledger compared with itself: structure, chain, facts, index and derived rows, anchor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from planner.ledger.anchor import anchor_path, read_anchor, renew_anchor
from planner.ledger.checks import Checked, check_anchor, check_events, newest
from planner.ledger.facts import TABLE_OF, TABLES
from planner.ledger.faults import mapped
from planner.ledger.index_rows import index_problems, is_touch_missing, partial_index_problems
from planner.ledger.lock import lock_of
from planner.ledger.rebuild import derived_problems, rebuild
from planner.ledger.store import Store
from planner.values.reasons import PlannerFault

CHUNK_EVENTS = 5_000
_MANY = 100


@dataclass(frozen=True, slots=True)
class Report:
    """What was compared and what differed: (code, table and numbers), the first hundred, never text."""

    events: int
    conversations: int
    problems: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()
    reanchored: bool = False
    rebuilt: bool = False

    @property
    def sound(self) -> bool:
        """True when nothing differed."""
        return not self.problems


def verify(
    store: Store, *, reanchor: bool = False, remake: bool = False, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Compare everything, in short reads so that writers go on; what is appended meanwhile is left to the next run.

    reanchor  write the anchor anew if the facts are whole: after a restore that was wanted.
    remake    make derived rows anew if the facts are whole.
    progress  called with events done and events in all.
    """
    with store.read("read the newest event") as connection:
        last, _ = newest(connection)
        count = int(str(connection.execute("SELECT count(*) FROM conversation").get))
    problems = _facts(store, last, progress)
    facts_whole = not problems
    rebuilt = remake and facts_whole and not store.read_only
    if rebuilt:
        rebuild(store)
    if facts_whole:
        try:
            with store.read("compare derived rows") as connection:
                problems += [("ledger_corrupt", where) for where in _bounded(derived_problems(connection))]
        except PlannerFault as fault:
            problems.append((fault.code, fault.detail))
    reanchored = False
    if reanchor and facts_whole and not store.read_only:
        reanchored = _reanchor(store)
    problems += _anchor(store)
    return Report(last, count, tuple(problems), store.warnings, reanchored, rebuilt)


def _facts(store: Store, last: int, progress: Callable[[int, int], None] | None) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    try:
        with store.read("check the structure") as connection:
            # Not quick_check: it does not compare an index with its table, and views read by index.
            for (line,) in connection.execute("PRAGMA integrity_check(20)").fetchall():
                if line != "ok":
                    problems.append(("ledger_corrupt", "structure of the file"))
                    break
            problems += [("ledger_corrupt", where) for where in partial_index_problems(connection)]
            if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
                problems.append(("ledger_corrupt", "a reference leads nowhere"))
        if problems:
            return problems
        for first in range(1, last + 1, CHUNK_EVENTS):
            end = min(first + CHUNK_EVENTS - 1, last)
            with store.read("check the chain") as connection:
                for checked in check_events(connection, first, end):
                    problems += _pointers(connection, checked)
            if progress is not None:
                progress(end, last)
        with store.read("check the index rows") as connection:
            problems += [("ledger_corrupt", where) for where in _bounded(_orphans(connection, last))]
            problems += [("ledger_corrupt", where) for where in _bounded(index_problems(connection))]
    except PlannerFault as fault:
        problems.append((fault.code, fault.detail))
    return problems[:_MANY]


def _bounded(found: Iterator[str]) -> list[str]:
    return [where for _, where in zip(range(_MANY), found, strict=False)]


def _pointers(connection: apsw.Connection, checked: Checked) -> list[tuple[str, str]]:
    """Check what an event's row must lead to: a purge inside its boundary, a touch where one is due."""
    found: list[tuple[str, str]] = []
    if checked.purged and not _is_in_boundary(connection, checked):
        found.append(("ledger_corrupt", f"event {checked.event} has no text and is no purged one"))
    if is_touch_missing(connection, checked):
        found.append(("ledger_corrupt", f"event {checked.event} touched nothing"))
    return found


def _is_in_boundary(connection: apsw.Connection, checked: Checked) -> bool:
    purged = connection.execute(
        "SELECT max(through_sequence) FROM retention WHERE conversation = ?", (checked.conversation,)
    ).get
    if purged is None:
        return False
    if TABLE_OF[checked.kind] != "message":
        return True
    turn: Any = connection.execute(
        "SELECT turn FROM message WHERE conversation = ? AND branch = ? AND sequence = ? AND event = ?",
        (checked.conversation, checked.branch, checked.place, checked.event),
    ).get
    if turn is None:
        return bool(checked.place <= purged)
    first = connection.execute(
        "SELECT min(sequence) FROM turn WHERE conversation = ? AND ordinal = ?", (checked.conversation, turn)
    ).get
    return first is not None and bool(first <= purged)


def _orphans(connection: apsw.Connection, last: int) -> Iterator[str]:
    """Yield tables that hold another number of facts than there are events of their kinds."""
    for name in TABLES:
        kinds = "', '".join(kind for kind, table in TABLE_OF.items() if table == name)
        events = connection.execute(
            f"SELECT count(*) FROM event WHERE kind IN ('{kinds}') AND event <= ?",  # noqa: S608
            (last,),
        ).get
        rows = connection.execute(f"SELECT count(*) FROM {name} WHERE event <= ?", (last,)).get  # noqa: S608
        if events != rows:
            yield f"{name} holds {rows} facts of {events}"


def _reanchor(store: Store) -> bool:
    with mapped("write the anchor"), lock_of(store.path).held():
        store.settle()
        with store.read("read the newest event") as connection:
            event, chain = newest(connection)
        renew_anchor(anchor_path(store.path), event, chain)
        return True


def _anchor(store: Store) -> list[tuple[str, str]]:
    with mapped("read the anchor"):
        anchored = read_anchor(anchor_path(store.path))
    try:
        with store.read("compare the anchor") as connection:
            check_anchor(connection, anchored)
    except PlannerFault as fault:
        return [(fault.code, fault.detail)]
    return []
