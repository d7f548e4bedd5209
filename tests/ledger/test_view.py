"""A view costs the same whatever stands before it, reads pages when they are looked at, and never what comes later."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.values.digest import chain_of
from planner.values.turn import Message, MustPreserve, OpenItem
from tests.ledger.support import chat, fill

BIG_TABLES = ("event", "message", "turn", "turn_chain", "mark", "touch", "part")


def _import(ledger: Ledger, count: int) -> None:
    records = []
    for number in range(count):
        records.append(LegacyRecord(f"q{number}", f"question {number}", "user", "old"))
        records.append(LegacyRecord(f"r{number}", f"answer {number}", "assistant", "old"))
    ledger.import_legacy("c", records)
    # The chain is filled in by writes, some turns each.
    for number in range(count // 512 + 1):
        ledger.append("c", f"w{number}", chat(number), state="completed")


def _work(ledger: Ledger) -> None:
    view = ledger.view("c")
    assert len(view.turns) > 40
    for place in range(1, 33):
        _ = view.turns[-place]


def _counted(ledger: Ledger, call: Any) -> tuple[int, list[tuple[str, Any]]]:
    """Return the virtual machine steps a call needs and the statements it makes."""
    connection = ledger._store.connection()
    statements: list[tuple[str, Any]] = []
    steps = [0]

    def profile(event: dict[str, Any]) -> None:
        steps[0] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def executed(_: Any, sql: str, bindings: Any) -> bool:
        statements.append((sql, bindings))
        return True

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
    connection.exec_trace = executed
    try:
        call(ledger)
    finally:
        connection.trace_v2(0, None)
        connection.exec_trace = None
    return steps[0], statements


def test_a_view_costs_the_same_whatever_the_length(tmp_path: Path) -> None:
    """Planning from the tail of 3,000 turns needs the virtual machine steps of 300 turns, give or take a tenth."""
    steps = []
    for count in (300, 3000):
        with Ledger.open(tmp_path / f"ledger-{count}") as ledger:
            _import(ledger, count)
            # A page border at the same place in both, so that both read the same number of pages.
            fill(ledger, (64 - ledger.head("c").turns) % 64, start=5000)
            assert chain_of(ledger.turns("c")).raw() == ledger.view("c").chain
            steps.append(_counted(ledger, _work)[0])
    assert steps[1] <= steps[0] * 1.1, steps


@pytest.mark.parametrize("work", ["view", "append", "edit"])
def test_no_statement_of_daily_work_scans_or_sorts(tmp_path: Path, work: str) -> None:
    """EXPLAIN QUERY PLAN: no table that grows is read whole, and nothing is sorted in a temporary tree."""

    def done(ledger: Ledger) -> None:
        if work == "view":
            _work(ledger)
        elif work == "edit":
            ledger.edit("c", "q5", Message("user", None, "edited"))
            ledger.protect("c", "q6", "audit-evidence")
            ledger.withdraw("c", "q7")
        else:
            ledger.append("c", "new", chat(999), state="completed", open_items=[OpenItem("i1", "pending")],
                          must_preserve=[MustPreserve("C1", "w")])  # fmt: skip
            ledger.append("c", "newer", chat(998), state="completed", supersedes=["C1"])

    with Ledger.open(tmp_path / "ledger") as ledger:
        _import(ledger, 60)
        ledger.branch("c", "b", at_turn_id="q50")
        ledger.switch("c", "b")
        _, statements = _counted(ledger, done)
        asked = [(sql, bindings) for sql, bindings in statements if sql.startswith("SELECT")]
        assert len(asked) > 10
        bad = []
        for sql, bindings in {sql: (sql, bindings) for sql, bindings in asked}.values():
            plan = [str(row[3]) for row in ledger._store.connection().execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
            tables = {match.group(1) for line in plan if (match := re.match(r"(?:SCAN|SEARCH) (\w+)", line))}
            # The newest event is read off the end of its table, which SQLite calls a scan.
            ends = sql.endswith("ORDER BY event DESC LIMIT 1")
            scans = [line for line in plan if line.startswith("SCAN") and not ends]
            sorts = [line for line in plan if "TEMP B-TREE" in line]
            if tables & set(BIG_TABLES) and scans + sorts:
                bad.append((sql, scans + sorts))
    assert [] == bad


def test_a_view_is_what_was_when_it_was_taken(tmp_path: Path) -> None:
    """Pages that are read later show the turns as of the view, whatever was written meanwhile."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        fill(ledger, 130)
        before = list(ledger.turns("c"))
        view, stream = ledger.view("c"), ledger.turns("c")
        first = next(stream)
        ledger.edit("c", "u5", Message("user", None, "edited"))
        ledger.withdraw("c", "t100")
        fill(ledger, 3, start=130)
        ledger.branch("c", "b", at_turn_id="t3")
        ledger.switch("c", "b")
        assert before == list(view.turns) == [first, *stream]
        assert chain_of(before).raw() == view.chain


def test_a_view_reads_what_is_looked_at(tmp_path: Path) -> None:
    """Length, pins and the index of an id need no page, a look elsewhere one turn, a second look its page."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        fill(ledger, 200)
        ledger.withdraw("c", "t70")
        ledger.protect("c", "u90", "audit-evidence")
        view = ledger.view("c")
        pages = view.turns._pages  # type: ignore[attr-defined]
        assert (199, (89,), 0) == (len(view.turns), tuple(view.pinned), len(pages))
        assert (69, None, 70) == tuple(view.turns.index_of(name) for name in ("t69", "t70", "t71"))  # type: ignore[attr-defined]
        assert 0 == len(pages)
        assert ("t199", "t90", "t69") == tuple(view.turns[place].id for place in (-1, 89, 69))
        assert (1, 2) == (len(pages), len(view.turns._alone))  # type: ignore[attr-defined]
        assert view.turns[89] is view.turns[89]
        lone = view.turns[89]
        assert ("t91", "t89") == tuple(view.turns[place].id for place in (90, 88))
        assert (2, 1) == (len(pages), len(view.turns._alone))  # type: ignore[attr-defined]
        assert lone is view.turns[89]
        assert ("t0", "t1") == tuple(turn.id for turn in view.turns[:2])
        for place in (199, -200):
            with pytest.raises(IndexError):
                _ = view.turns[place]


def test_an_old_edit_is_chained_again_by_later_writes(tmp_path: Path) -> None:
    """The chain of a view is right at once after an edit far back, and stored again by what is written next."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        _import(ledger, 700)
        ledger.edit("c", "q3", Message("user", None, "edited"))
        assert chain_of(ledger.turns("c")).raw() == ledger.view("c").chain
        for number in (900, 901):
            ledger.append("c", f"x{number}", chat(number), state="completed")
        with ledger._store.read("test") as connection:
            stored = connection.execute("SELECT max(turn) FROM turn_chain").get
        assert ledger.head("c").turns - 1 == stored
        assert () == ledger.verify().problems
