"""Derived rows compared with the facts they come from, and made again from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from planner.ledger.chains import first_ordinal, put_chain
from planner.ledger.derived import all_pinned, read_pinned
from planner.ledger.facts import short_digest
from planner.ledger.heads import BranchRow, HeadRow, read_branch, read_head, with_pinned, with_relations
from planner.ledger.lineage import NO_CUT, Segment, lineage
from planner.ledger.pages import PAGE_TURNS, load_turns
from planner.ledger.relating import all_relations, put_relations, read_relations
from planner.ledger.store import Store
from planner.ledger.summary_checks import pointer_problems, rebuild_pointers
from planner.ledger.transaction import Transaction
from planner.values.digest import TurnChain
from planner.values.reasons import PlannerFault


def head_from_facts(connection: apsw.Connection, conversation: int) -> HeadRow:
    """Return a conversation's head as its facts say it."""
    event: Any = connection.execute("SELECT max(event) FROM event WHERE conversation = ?", (conversation,)).get
    revision: Any = connection.execute("SELECT revision FROM event WHERE event = ?", (event,)).get
    generation: Any = connection.execute(
        "SELECT branch, generation FROM generation WHERE conversation = ? ORDER BY generation DESC LIMIT 1",
        (conversation,),
    ).fetchone()
    # A terminal record takes a sequence although it has no message (X37).
    last: Any = connection.execute(
        "SELECT max(sequence) FROM (SELECT sequence FROM message WHERE conversation = ?1"
        " UNION ALL SELECT sequence FROM turn WHERE conversation = ?1)",
        (conversation,),
    ).get
    purged: Any = connection.execute(
        "SELECT max(through_sequence) FROM retention WHERE conversation = ?", (conversation,)
    ).get
    branch, number = generation
    return HeadRow(conversation, branch, number, revision, event, -1 if last is None else last, purged)


def turns_of_line(connection: apsw.Connection, conversation: int, line: tuple[Segment, ...]) -> int:
    """Return how many turns a line has, from its rows."""
    found = -1
    for segment in line:
        ordinal: Any = connection.execute(
            "SELECT max(ordinal) FROM turn WHERE conversation = ? AND branch = ? AND ordinal <= ? AND event <= ?",
            (conversation, segment.branch, segment.at_ordinal, segment.at_event),
        ).get
        cut = segment.at_ordinal if segment.at_ordinal != NO_CUT else -1
        found = max(found, cut, -1 if ordinal is None else ordinal)
    return found + 1


def branches_of(connection: apsw.Connection) -> list[tuple[int, int]]:
    """Return (conversation, branch) of every branch."""
    rows = connection.execute("SELECT conversation, key FROM branch ORDER BY key").fetchall()
    return [(int(str(conversation)), int(str(branch))) for conversation, branch in rows]


def derived_problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield every derived row or set that differs from what the facts give: a table and numbers."""
    for (key,) in connection.execute("SELECT key FROM conversation ORDER BY key").fetchall():
        conversation = int(str(key))
        if _differs(lambda at=conversation: read_head(connection, at), head_from_facts(connection, conversation)):
            yield f"head of conversation {conversation}"
    for conversation, branch in branches_of(connection):
        line = lineage(connection, branch, NO_CUT)
        turns = turns_of_line(connection, conversation, line)
        try:
            counters = read_branch(connection, conversation, branch)
        except PlannerFault:
            yield f"counters of branch {branch}"
            continue
        if counters.turns != turns:
            yield f"number of turns of branch {branch}"
            continue
        if _differs(lambda at=counters: read_pinned(connection, at), all_pinned(connection, conversation, line, turns)):
            yield f"pinned turns of branch {branch}"
        if _differs(
            lambda at=counters: set(read_relations(connection, at)), all_relations(connection, conversation, line)
        ):
            yield f"relations of branch {branch}"
        yield from _chain_problems(connection, conversation, line, turns)
    yield from pointer_problems(connection)


def _differs(read: Any, expected: object) -> bool:
    try:
        return bool(read() != expected)
    except PlannerFault:
        return True


def _chain_problems(
    connection: apsw.Connection, conversation: int, line: tuple[Segment, ...], turns: int
) -> Iterator[str]:
    branch = line[0].branch
    start = first_ordinal(connection, conversation, line, head_from_facts(connection, conversation).purged_through)
    chain = TurnChain()
    for first in range(start, turns, PAGE_TURNS):
        last = min(first + PAGE_TURNS, turns) - 1
        rows: Any = connection.execute(
            "SELECT turn, event, chain, digest FROM turn_chain WHERE conversation = ? AND branch = ?"
            " AND turn BETWEEN ? AND ?",
            (conversation, branch, first, last),
        ).fetchall()
        stored = {row[0]: row[1:] for row in rows}
        for ordinal, turn in enumerate(load_turns(connection, conversation, line, first, last), first):
            chain.add(turn)
            event, value, digest = stored.pop(ordinal, (None, None, None))
            if event is None:
                continue
            good = short_digest("turn_chain", conversation, branch, ordinal, event, value) == digest
            if value != chain.raw() or not good:
                yield f"chain of turn {ordinal} of branch {branch}"
                return


def derive(connection: apsw.Connection, conversation: int, line: tuple[Segment, ...], turns: int) -> BranchRow:
    """Write `pinned` and `relation` of a branch from its facts, and return its counters."""
    branch = line[0].branch
    pinned = all_pinned(connection, conversation, line, turns)
    for ordinal in pinned:
        connection.execute(
            "INSERT INTO pinned (conversation, branch, turn) VALUES (?, ?, ?)", (conversation, branch, ordinal)
        )
    relations = all_relations(connection, conversation, line)
    put_relations(connection, (conversation, branch), (), relations)
    return with_relations(with_pinned(BranchRow(conversation, branch, turns), *pinned), relations)


def rebuild(store: Store) -> None:
    """Make every derived table again from the facts, in one transaction. Raises PlannerFault."""
    with store.write("rebuild") as tx:
        for table in ("head", "branch_head", "relation", "pinned", "turn_chain"):
            tx.connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table
        for (key,) in tx.connection.execute("SELECT key FROM conversation").fetchall():
            tx.set_head(head_from_facts(tx.connection, int(str(key))))
        for conversation, branch in branches_of(tx.connection):
            _rebuild_branch(tx, conversation, branch)
        rebuild_pointers(tx)
        tx.unchained = True


def _rebuild_branch(tx: Transaction, conversation: int, branch: int) -> None:
    line = lineage(tx.connection, branch, NO_CUT)
    turns = turns_of_line(tx.connection, conversation, line)
    tx.set_branch(derive(tx.connection, conversation, line, turns))
    start = first_ordinal(tx.connection, conversation, line, tx.head(conversation).purged_through)
    chain = TurnChain()
    for first in range(start, turns, PAGE_TURNS):
        page = load_turns(tx.connection, conversation, line, first, min(first + PAGE_TURNS, turns) - 1)
        for ordinal, turn in enumerate(page, first):
            if turn.state == "open" and ordinal == turns - 1:
                return
            chain.add(turn)
            put_chain(tx, conversation, branch, ordinal, chain.raw())
