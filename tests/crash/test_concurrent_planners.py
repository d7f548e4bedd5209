"""Planners in threads and processes beside writers: each plan is that of its revision (threats.md §1.2 row 11)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active
from planner.values.digest import canonical, digest
from planner.values.plan import Plan
from planner.wire.dump import dump_receipt
from tests.crash.support import CAUGHT, CHAT, FULL, ROOT, abandon, forked, read_all, said
from tests.crash.toy_planner import chat_of, request_of, toy
from tests.ledger.support import fault

THREADS, PROCESSES, WRITERS = 16, 4, 2
PLANS = 5_000 if FULL else 80
TURNS = 200 if FULL else 12
SEEDS = range(5) if FULL else (0, 3)
WINDOW = 3_000

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the planners of other processes are forked")


def told(answer: Any) -> tuple[int, str, str]:
    """Return what a plan says of itself: revision, ids and receipt."""
    assert isinstance(answer, Plan)
    ids = digest(canonical(list(answer.ids)))
    return answer.receipt.revision, ids, digest(dump_receipt(answer.receipt))


def plan_many(ledger: Ledger, count: int, add: Callable[[tuple[int, str, str]], object]) -> None:
    """Plan a number of times over one ledger, with a conversation kept and with a new one in turn."""
    kept = chat_of(ledger, CHAT)
    for number in range(count):
        chat = kept if number % 2 else chat_of(ledger, CHAT)
        add(told(chat.plan(request_of(window=WINDOW), record=number % 4 == 0)))


def write_many(ledger: Ledger, writer: int) -> None:
    """Append a writer's turns."""
    for number in range(TURNS):
        name = (writer + 1) * 10_000 + number
        ledger.append(CHAT, f"t{name}", said(name, 200), state="completed")


def sequential(ledger: Ledger, revisions: set[int]) -> dict[int, tuple[int, str, str]]:
    """Return the plan of each revision from its turns sent on the wire: the n-th append made revision n."""
    turns = list(ledger.turns(CHAT))
    found = {}
    for revision in revisions:
        request = replace(
            request_of(window=WINDOW), conversation_id=CHAT, generation=1, revision=revision,
            turns=tuple(turns[:revision]),
        )  # fmt: skip
        found[revision] = told(toy().plan(request))
    return found


def concurrent(path: Path) -> tuple[int, int]:
    """Let threads and forked processes plan over one ledger while two processes append; compare every plan.

    The children use the Ledger and the Planner that were opened and loaded before the fork. Returns the number of
    plans and how many revisions they saw.
    """
    ledger = Ledger.open(path)
    for number in range(6):
        ledger.append(CHAT, f"t{number}", said(number, 200), state="completed")
    each = max(1, PLANS // (THREADS + PROCESSES))
    results: list[tuple[int, str, str]] = [told(chat_of(ledger, CHAT).plan(request_of(window=WINDOW)))]

    def planner(out: int) -> None:
        plan_many(ledger, each, lambda one: os.write(out, (json.dumps(one) + "\n").encode()))

    children = [forked(planner) for _ in range(PROCESSES)]
    children += [forked(lambda _, number=number: write_many(ledger, number)) for number in range(WRITERS)]
    errors: list[BaseException] = []

    def work() -> None:
        try:
            plan_many(ledger, each, results.append)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child, reading in children:
        results += [tuple(json.loads(line)) for line in read_all(reading).splitlines()]
        assert 0 == os.waitpid(child, 0)[1], "a child met an error"
    assert [] == errors
    wanted = sequential(ledger, {one[0] for one in results})
    assert [] == [one for one in results if one != wanted[one[0]]]
    assert 6 + WRITERS * TURNS == len(list(ledger.turns(CHAT)))
    assert ledger.verify().sound
    ledger.close()
    return len(results), len(wanted)


def test_each_plan_is_the_sequential_plan_of_its_revision(tmp_path: Path) -> None:
    """Whatever is written meanwhile and by whom, a plan is that of the turns of its revision; no caller meets busy."""
    plans, revisions = concurrent(tmp_path / "ledger")
    print(f"{plans} plans of {revisions} revisions")
    assert plans > THREADS + PROCESSES
    assert revisions > 1


def test_a_plan_that_depends_on_its_process_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug of P7: a digest with the process in it."""
    from planner import pipeline

    digest_of = pipeline.request_digest
    parent = os.getpid()

    def tainted(*args: Any) -> str:
        return digest_of(*args) if os.getpid() == parent else digest(digest_of(*args).encode())

    monkeypatch.setattr(pipeline, "request_digest", tainted)
    with pytest.raises(AssertionError):
        concurrent(tmp_path / "ledger")


def test_a_plan_that_writes_to_the_conversation_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug of P5: recording a receipt begins a new generation."""
    from planner import prepare

    record = prepare.LedgerConversation._record

    def writing(self: Any, request: Any, view: Any, answer: Any) -> None:
        record(self, request, view, answer)
        self._ledger.new_generation(self._conversation_id)

    monkeypatch.setattr(prepare.LedgerConversation, "_record", writing)
    with pytest.raises(AssertionError):
        concurrent(tmp_path / "ledger")


SCRIPT = (
    "import sys; from pathlib import Path; from planner.ledger.ledger import Ledger\n"
    "from tests.crash.test_concurrent_planners import told\n"
    "from tests.crash.toy_planner import chat_of, request_of\n"
    "ledger = Ledger.open(sys.argv[1], read_only=True)\n"
    "print(*told(chat_of(ledger, 'c').plan(request_of(), record=False)))\n"
)


def test_the_seed_of_hashing_changes_no_plan(tmp_path: Path) -> None:
    """Other processes with another PYTHONHASHSEED give the same ids and the same receipt."""
    with Ledger.open(tmp_path / "ledger") as ledger:
        for number in range(9):
            ledger.append(CHAT, f"t{number}", said(number), state="completed")
        here = " ".join(map(str, told(chat_of(ledger, CHAT).plan(request_of()))))
    for seed in SEEDS:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "ledger")], cwd=ROOT, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=True,
        )  # fmt: skip
        assert here == done.stdout.strip()


def stranger_between(path: Path) -> str:
    """Let a writer that knows no lock try to write between the ledger's reading and writing; return how it ended."""
    told: list[str] = []

    def cut_in(name: str) -> None:
        if name == "after_reread" and not told:
            other = apsw.Connection(str(path))
            other.set_busy_timeout(0)
            try:
                other.execute("BEGIN IMMEDIATE; INSERT INTO meta VALUES ('stranger', x'00'); COMMIT")
                told.append("wrote")
            except apsw.BusyError:
                told.append("busy")
            finally:
                other.close()

    from tests.ledger.summary_support import deliver, fill, freeze, summary_of

    with Ledger.open(path) as ledger:
        fill(ledger, 1, 2, 3)
        record = summary_of(freeze(ledger, "p1", ("t1", "t2")))
        ledger._store.fail = cut_in
        saved = deliver(ledger, record, active=Active("policy-1"))
        assert "accepted" == saved.status, saved
    assert ["busy"] == told, "a stranger wrote between reading and writing, or the point was not reached"
    return told[0]


def test_nobody_writes_between_reading_and_writing(tmp_path: Path) -> None:
    """A write transaction begins as one, so even a writer without the lock waits; nothing is upgraded later."""
    assert "busy" == stranger_between(tmp_path / "ledger")


def test_a_transaction_that_begins_as_a_reader_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug of P8: BEGIN instead of BEGIN IMMEDIATE; the stranger slips in and the upgrade fails."""
    from planner.ledger import store

    connect = store.connect

    class Deferring:
        def __init__(self, connection: apsw.Connection) -> None:
            self._connection = connection

        def execute(self, sql: str, *args: Any) -> Any:
            return self._connection.execute(sql.replace("BEGIN IMMEDIATE", "BEGIN"), *args)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    monkeypatch.setattr(store, "connect", lambda *args, **fields: Deferring(connect(*args, **fields)))
    with pytest.raises(AssertionError):
        stranger_between(tmp_path / "ledger")


def stranger_closes(path: Path) -> list[str]:
    """Open a ledger twice in a process, let another program read the file and close it, write on; return the turns."""
    script = (
        "import sqlite3, sys; other = sqlite3.connect(sys.argv[1]);"
        "other.execute('SELECT * FROM event').fetchall(); other.close()"
    )
    first = Ledger.open(path)
    first.append(CHAT, "t0", said(0), state="completed")
    second = Ledger.open(path)
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    first.append(CHAT, "t1", said(1), state="completed")
    # Both end as a killed process does: a proper close would bring even a deleted -wal into the file.
    for ledger in (first, second):
        abandon(ledger)
    with Ledger.open(path) as again:
        return [turn.id for turn in again.turns(CHAT)]


def test_opening_twice_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Another program that closes the file deletes the -wal where nobody seems to use it: what came after was lost."""
    assert ["t0", "t1"] == stranger_closes(tmp_path / "ledger")


def test_reading_the_header_past_sqlite_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug of P1, which this found: a plain open and close of the file drops this process's locks on it."""
    from planner.ledger import schema

    monkeypatch.setattr(schema, "_first_bytes", lambda path: path.read_bytes()[:100])
    with pytest.raises(CAUGHT):
        assert ["t0", "t1"] == stranger_closes(tmp_path / "ledger")


def test_a_ledger_that_stays_locked_is_busy_and_no_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger that never ends its transaction is `ledger_busy` once the time is over; planning goes on meanwhile."""
    from planner.ledger import schema

    monkeypatch.setattr(schema, "BUSY_MS", 20)
    path = tmp_path / "ledger"
    with Ledger.open(path) as ledger:
        ledger.append(CHAT, "t0", said(0), state="completed")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        assert "ledger_busy" == fault(lambda: ledger.append(CHAT, "t1", said(1), state="completed"))
        assert isinstance(chat_of(ledger, CHAT).plan(request_of(), record=False), Plan)
        other.execute("ROLLBACK")
        other.close()
        assert ledger.append(CHAT, "t1", said(1), state="completed").changed
