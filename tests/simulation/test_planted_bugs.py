"""Bugs planted on purpose: a row of threats.md §1.2 that does not see its own is no test (mutation check).

P3 and P4 have theirs in tests/ledger/test_summary_mutations.py; P1, P5, P6, P7, P8 and P10 some more beside their rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.compaction import accept
from planner.compactor import judging
from planner.ledger import facts, faults, reading, retain, scope, store, summaries
from planner.ledger.ledger import Ledger
from planner.values.turn import Message
from tests.crash.canary import answer, build, opened
from tests.crash.support import CAUGHT, abandon, synchronous
from tests.crash.test_disk_full import fill_up
from tests.simulation.test_found import (
    test_a_retry_after_a_failed_sync_is_not_acknowledged_for_what_no_sync_reached as failed_sync,
)
from tests.simulation.test_simulator import OPERATIONS, simulate
from tests.simulation.test_state_machine import LedgerMachine

TRIES = 12


@pytest.fixture
def model() -> Iterator[LedgerMachine]:
    """The machine of row 6 with three ordinary turns; the tests below drive it by hand."""
    machine = LedgerMachine()
    machine.begin(3)
    yield machine
    abandon(machine.ledger)
    shutil.rmtree(machine.folder)


def seen_by_simulator(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> bool:
    """Tell whether one of the first seeds fails."""
    for number in range(TRIES):
        try:
            simulate(folder / str(number), f"{seed}/planted/{number}", OPERATIONS, monkeypatch)
        except CAUGHT:
            return True
    return False


def test_a_commit_that_is_not_synced_is_caught(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1, skip the fsync setting: with synchronous NORMAL a power loss takes what was acknowledged."""
    with synchronous("normal", 1):
        assert seen_by_simulator(tmp_path, monkeypatch, seed)


def test_a_retry_that_trusts_the_log_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1, the fault this row found: what lies in the -wal is taken for durable after a failed sync."""
    monkeypatch.setattr(store.Store, "settle", lambda self: None)
    caught = 0
    for luck in range(6):
        (tmp_path / str(luck)).mkdir()
        with monkeypatch.context() as patch:
            try:
                failed_sync(tmp_path / str(luck), patch, "error", luck)
            except CAUGHT:
                caught += 1
    assert caught


def _edit_in_place(put: Any) -> Any:
    def put_message(self: Any, kind: str, turn: Any, message: Any) -> int:
        if kind != "edit":
            return int(put(self, kind, turn, message))
        connection = self.tx.connection
        connection.execute("DROP TRIGGER IF EXISTS message_stays")
        names = ("conversation", "branch", "sequence", "event", "turn", "id", "version", "role", "protection")
        row = connection.execute(
            f"SELECT {', '.join(names)}, salt FROM message WHERE conversation = ? AND sequence = ?"
            " ORDER BY event DESC LIMIT 1",
            (self.conversation, message.sequence),
        ).fetchone()
        body = scope.message_body(message)
        digest = facts.fact_digest("message", [*row[:-1], body], row[-1])
        connection.execute(
            "UPDATE message SET body = ?, digest = ? WHERE conversation = ? AND sequence = ? AND event = ?",
            (body, digest, self.conversation, message.sequence, row[3]),
        )
        self.tx.unchained = True
        return int(row[3])

    return put_message


def test_an_edit_in_place_is_caught(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: an edit that overwrites the row, digest and all, instead of writing the next version."""
    monkeypatch.setattr(scope.Scope, "put_message", _edit_in_place(scope.Scope.put_message))
    assert seen_by_simulator(tmp_path, monkeypatch, seed)


def test_a_summary_that_is_stored_in_two_steps_is_caught(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: the pointer is moved and committed before the version is written; a crash between leaves it to nothing."""

    def early(scope_: Any, *args: Any) -> Any:
        version, sources, move = summaries.put_version, summaries.put_sources, summaries.move_pointer
        event = scope_.tx.event + 1
        connection = scope_.tx.connection
        connection.execute("COMMIT; PRAGMA foreign_keys=off; BEGIN IMMEDIATE")
        record = args[0]
        connection.execute(
            "INSERT OR REPLACE INTO active_run (conversation, branch, covers_from, covers_to, summary)"
            " VALUES (?, ?, ?, ?, ?)",
            (scope_.conversation, scope_.branch, record.covers_from, record.covers_to, event),
        )
        connection.execute("COMMIT; BEGIN IMMEDIATE")
        scope_.tx.fail("planted")
        event, stored = version(scope_, record, args[2], scope_.tx.event)
        sources(scope_, event, args[1] if isinstance(args[1], tuple) else ())
        move(scope_, event)
        return summaries.Saved("accepted", stored.id, stored.summary_version)

    monkeypatch.setattr(summaries, "write_accepted", early)
    plan = build(tmp_path / "ledger", summarised=False)

    def cut(name: str) -> None:
        if name == "planted":
            raise apsw.IOError("cut")

    with opened(tmp_path / "ledger", tmp_path / "copy", plan) as chat:
        chat.ledger._store.fail = cut
        chat.compactor().accept(plan, 0, answer())
        chat.ledger._store.fail = lambda _: None
        assert not chat.ledger.verify().sound


def test_a_late_summary_that_is_taken_is_caught(model: LedgerMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: neither the judge nor the store looks again; the model sees a summary of what is no longer so."""
    judge = judging.judge

    def lenient(answer: Any, case: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(accept, "_staleness", lambda _: None)
            try:
                return judge(answer, case)
            except Exception:
                return accept.Rejected("invalid-summary", "x: $")

    monkeypatch.setattr(judging, "judge", lenient)
    monkeypatch.setattr(summaries, "find_cause", lambda *_: None)
    model.freeze(replace_active=True)
    model.ledger.protect("c", "q1", "audit-evidence")
    model.plain.protect("q1", "audit-evidence")
    with pytest.raises(AssertionError, match="no longer so"):
        model.deliver_at(0)


def test_a_fault_that_is_not_named_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: an error of the storage that reaches the caller as it is."""
    monkeypatch.setattr(faults, "fault_of", lambda error, _: error)
    with Ledger.open(tmp_path / "ledger") as ledger:
        connection = ledger._store.connection()
        connection.pragma("max_page_count", connection.pragma("page_count"))
        with pytest.raises(apsw.FullError):
            fill_up(ledger, 0)


def test_retention_that_takes_a_protected_message_is_caught(
    model: LedgerMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: leaving happens only as the rules of retention say; the model sees a run that looks at no protection."""
    monkeypatch.setattr(retain, "_refuse_protected", lambda *_: None)
    model.ledger.protect("c", "q2", "audit-evidence")
    model.plain.protect("q2", "audit-evidence")
    with pytest.raises(AssertionError, match="protected"):
        model.retain(part=1.0)


def test_a_branch_that_sees_its_parent_s_future_is_caught(
    model: LedgerMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: a line without the cut of its events shows edits that its branch never saw."""
    of = reading.lineage

    def uncut(connection: Any, branch: int, cut: Any) -> Any:
        return tuple(replace(part, at_event=2**60) for part in of(connection, branch, cut))

    model.ledger.branch("c", "b1", at_turn_id="t2")
    model.plain.make_branch("b1", "t2")
    model.ledger.edit("c", "q1", Message("user", "q1", "edited later"))
    model.plain.generation, model.plain.branch = model.ledger.switch("c", "b1"), "b1"
    model.reads_like_the_plain_lists()
    monkeypatch.setattr(reading, "lineage", uncut)
    with pytest.raises(CAUGHT):
        model.reads_like_the_plain_lists()
