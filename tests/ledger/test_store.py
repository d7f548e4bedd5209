"""The file: created for its owner, set up as stated, refused where it is not ours, whole after a fault at any step."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from planner.ledger import lock, schema, store
from planner.ledger.ledger import Ledger
from planner.values.reasons import PlannerFault
from planner.values.turn import Message, MustPreserve
from tests.ledger.support import chat, events, fault, fill

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a ledger may be made."""
    return tmp_path / "ledger"


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_file_is_its_owner_s_alone(path: Path) -> None:
    """Ledger, -wal, anchor and lock are 0600 from the start; the folder is left as it is, nothing else is made."""
    path.parent.chmod(0o755)
    old = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            fill(ledger, 1)
            made = {entry.name: _mode(entry) for entry in path.parent.iterdir()}
    finally:
        os.umask(old)
    names = {"ledger", "ledger-wal", "ledger-shm", "ledger-anchor", "ledger-lock"}
    assert (names, {0o600}, 0o755) == (set(made), set(made.values()), _mode(path.parent))


def test_every_setting_is_read_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of threats.md 1.3 hold in every thread; one that does not take refuses the open."""
    expected = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "trusted_schema": 0, "cell_size_check": 1,
                "recursive_triggers": 1, "secure_delete": 2, "mmap_size": 0, "wal_autocheckpoint": 1000}  # fmt: skip
    found: list[dict[str, object]] = []
    with Ledger.open(path) as ledger:

        def look() -> None:
            connection = ledger._store.connection()
            found.append({name: connection.pragma(name) for name in expected})

        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert [expected, expected] == found
    monkeypatch.setattr(schema, "_PRAGMAS", (("synchronous", "full", 1),))
    assert "ledger_io" == fault(lambda: Ledger.open(path))


def _other(path: Path, script: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(script)
    connection.close()


def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(path: Path) -> None:
    """Another application's database, one without a mark, and a text file are `ledger_foreign`, bytes unchanged."""
    makers: list[Callable[[], object]] = [
        lambda: _other(path, "CREATE TABLE a (b); PRAGMA application_id=7"),
        lambda: _other(path, "CREATE TABLE a (b)"),
        lambda: path.write_bytes(b"no database at all" * 20),
        lambda: path.write_bytes(b"short"),
    ]
    for make in makers:
        path.unlink(missing_ok=True)
        make()
        before = path.read_bytes()
        assert "ledger_foreign" == fault(lambda: Ledger.open(path))
        assert "ledger_foreign" == fault(lambda: Ledger.open(path, read_only=True))
        assert before == path.read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_regular_file_is_not_opened(path: Path) -> None:
    """To open a pipe would wait for ever, and SQLite would write its files beside a device."""
    os.mkfifo(path)
    assert "ledger_foreign" == fault(lambda: Ledger.open(path))
    assert [path.name] == [entry.name for entry in path.parent.iterdir()]


def test_a_relative_path_names_one_file_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that comes later opens the very file that was opened, also where SQLite reads a name in its own way."""
    for name in ("chat.db", ":memory:"):
        home, away = tmp_path / "home", tmp_path / "away"
        for folder in (home, away):
            folder.mkdir(exist_ok=True)
        monkeypatch.chdir(home)
        with Ledger.open(name) as ledger:
            ledger.append("c", "t1", [Message("user", "u1", "here")])
            monkeypatch.chdir(away)
            later = threading.Thread(target=ledger.append, args=("c", "t2", [Message("user", "u2", "there")]))
            later.start()
            later.join()
            assert ["t1", "t2"] == [turn.id for turn in ledger.turns("c")]
        assert [] == list(away.iterdir())
        assert (home / name).is_file()


def test_a_later_schema_is_refused(path: Path) -> None:
    """A ledger of a later version is `ledger_newer` and not touched."""
    Ledger.open(path).close()
    _other(path, "PRAGMA user_version=99")
    assert "ledger_newer" == fault(lambda: Ledger.open(path))


def test_an_empty_file_becomes_a_ledger(path: Path) -> None:
    """A process that died between creating the file and its tables leaves nothing that stops the next one."""
    path.touch()
    with Ledger.open(path) as ledger:
        fill(ledger, 1)
    connection = apsw.Connection(str(path.with_name("half")))
    connection.execute("PRAGMA journal_mode=wal")
    connection.close()
    with Ledger.open(path.with_name("half")) as ledger:
        assert (True, ()) == (ledger.verify().sound, ledger.conversations())


def test_a_read_only_ledger_reads_and_refuses_to_write(path: Path) -> None:
    """Reading works, every write is `ledger_read_only`, no file appears, an absent ledger is not made."""
    assert "ledger_io" == fault(lambda: Ledger.open(path, read_only=True))
    with Ledger.open(path) as ledger:
        fill(ledger, 2)
    before = {entry.name: entry.stat().st_size for entry in path.parent.iterdir()}
    with Ledger.open(path, read_only=True) as ledger:
        assert ["t0", "t1"] == [turn.id for turn in ledger.view("c").turns]
        assert "ledger_read_only" == fault(lambda: fill(ledger, 3))
        assert ledger.verify().sound
    assert before == {entry.name: entry.stat().st_size for entry in path.parent.iterdir()}
    for name in ("-wal", "-shm", "-lock"):
        path.with_name(f"ledger{name}").unlink()
    with Ledger.open(path, read_only=True) as ledger:
        assert 2 == ledger.head("c").turns


def test_another_writer_is_waited_for_and_then_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that another process or thread keeps is `ledger_busy` after the wait; nothing was written."""
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.02)
    script = (
        "import fcntl, sys; f = open(sys.argv[1] + '-lock', 'r+'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with Ledger.open(path) as ledger:
        fill(ledger, 1)
        other = subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert other.stdin is not None
        assert other.stdout is not None
        assert b"held\n" == other.stdout.readline()
        assert "ledger_busy" == fault(lambda: fill(ledger, 2))
        assert 1 == ledger.view("c").turns.__len__()
        other.stdin.close()
        other.wait()
        other.stdout.close()
        held = threading.Event()
        done = threading.Event()

        def keep() -> None:
            with lock.lock_of(path).held():
                held.set()
                done.wait()

        thread = threading.Thread(target=keep)
        thread.start()
        held.wait()
        assert "ledger_busy" == fault(lambda: fill(ledger, 2))
        done.set()
        thread.join()
        fill(ledger, 2)
        assert 2 == ledger.head("c").turns


def test_a_reader_is_not_stopped_by_a_writer(path: Path) -> None:
    """A view is taken while a write transaction is open, and shows what was committed before it."""
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        fill(ledger, 1)
        with ledger._store.write("test") as tx:
            tx.record("generation", conversation=1, branch=1, generation=2, cause="page")
            assert 1 == other.head("c").generation


def test_threads_and_a_forked_child_write_one_chain(path: Path) -> None:
    """Every thread and the child has its own connection; all their turns are there and the chain is whole."""
    with Ledger.open(path) as ledger:
        fill(ledger, 1)

        def work(name: str) -> None:
            fill(ledger, 5, conversation=name)

        threads = [threading.Thread(target=work, args=(f"c{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        own = ledger._store.connection()
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                assert ledger._store.connection() is not own
                fill(ledger, 5, conversation="child")
                ledger.close()
                status = 0
            os._exit(status)
        assert 0 == os.waitpid(child, 0)[1]
        fill(ledger, 5, conversation="parent")
        assert [1, 5, 5, 5, 5, 5, 5] == [ledger.head(name).turns for name in ledger.conversations()]
        assert ledger.verify().sound


def _points(path: Path, call: Callable[[Ledger], object]) -> list[str]:
    names: list[str] = []
    with Ledger.open(path) as ledger:
        _begun(ledger)
    with Ledger.open(path, failpoint=names.append) as ledger:
        names.clear()
        call(ledger)
        # Closing has steps of its own.
        return list(names)


def _begun(ledger: Ledger) -> None:
    fill(ledger, 2)
    ledger.append("c", "open", [Message("user", "o1", "x")], must_preserve=[MustPreserve("C1", "w")])


CALLS: dict[str, Callable[[Ledger], object]] = {
    "append": lambda ledger: ledger.append("c", "t9", chat(9), state="completed", supersedes=["C1"]),
    "edit": lambda ledger: ledger.edit("c", "u0", Message("user", None, "edited")),
    "cancel": lambda ledger: ledger.cancel("c", "open"),
    "branch": lambda ledger: ledger.branch("c", "b", at_turn_id="t1"),
    "retain": lambda ledger: ledger.retain("c", 2, "policy"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_at_any_step_leaves_the_old_state_or_the_new(tmp_path: Path, name: str) -> None:
    """At each failpoint the call is broken off; reopened, all is as before or as after, and a repeat gets there."""
    call = CALLS[name]
    points = _points(tmp_path / "whole", call)
    with Ledger.open(tmp_path / "whole") as ledger:
        new = (list(ledger.turns("c")), ledger.branches("c"), len(events(ledger)))
    assert {"before_begin", "after_heads", "before_commit", "after_commit", "before_ack"} <= set(points)
    for place, point in enumerate(points):
        path = tmp_path / f"broken-{place}"
        with Ledger.open(path) as ledger:
            _begun(ledger)
            old = (list(ledger.turns("c")), ledger.branches("c"), len(events(ledger)))
        left = [place]

        def fail(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise RuntimeError("broken off")

        ledger = Ledger.open(path)
        ledger._store.fail = fail
        with pytest.raises(RuntimeError):
            call(ledger)
        ledger._store.fail = lambda _: None
        with Ledger.open(path) as again:
            found = (list(again.turns("c")), again.branches("c"), len(events(again)))
            committed = "after_commit" in points[: place + 1]
            assert (new if committed else old) == found, point
            assert again.verify().sound
            call(again)
            assert new == (list(again.turns("c")), again.branches("c"), len(events(again))), point
        ledger.close()


def test_R4_ledger_is_durable(path: Path) -> None:
    """What a process printed as stored is there after it was killed, and the next writer is not held up."""
    script = (
        "import sys; from planner.ledger.ledger import Ledger; from tests.ledger.support import fill\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "for number in range(10**6):\n"
        "    fill(ledger, 1, start=number)\n"
        "    print(number, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert writer.stdout is not None
    for _ in range(12):
        last = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.wait()
    writer.stdout.close()
    acknowledged = int(rest[-1]) if rest else last
    with Ledger.open(path) as ledger:
        stored = [turn.id for turn in ledger.turns("c")]
        assert [f"t{number}" for number in range(acknowledged + 1)] == stored[: acknowledged + 1]
        assert (True, ()) == (ledger.verify().sound, ledger.warnings)
        fill(ledger, 1, start=len(stored))


def test_a_full_disk_is_named_and_reading_goes_on(path: Path) -> None:
    """With no page left a write is `ledger_full`; what was acknowledged is there, and with room it goes on."""
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        connection = ledger._store.connection()
        connection.pragma("max_page_count", connection.pragma("page_count") + 1)
        big = Message("user", "big", "x" * 100_000)
        assert "ledger_full" == fault(lambda: ledger.append("c", "t9", [big]))
        assert ["t0", "t1", "t2"] == [turn.id for turn in ledger.view("c").turns]
        connection.pragma("max_page_count", 1_000_000)
        ledger.append("c", "t9", [big])
        assert ledger.verify().sound


def test_a_virtual_file_system_may_be_put_under_it(path: Path) -> None:
    """The name of an apsw VFS reaches every connection, so that a test may lose writes."""

    class Counting(apsw.VFS):
        opened = 0

        def __init__(self) -> None:
            super().__init__("counting", "")

        def xOpen(self, name: str, flags: list[int]) -> apsw.VFSFile:
            Counting.opened += 1
            return apsw.VFSFile("", name, flags)

    layer = Counting()
    with Ledger.open(path, vfs="counting") as ledger:
        fill(ledger, 1)
    assert Counting.opened >= 2
    layer.unregister()


def test_an_older_ledger_is_brought_up_to_date_and_its_copy_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration is one transaction: done, with the old file beside it, or not begun."""
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        before = list(ledger.turns("c"))
    today = len(schema.migrations())
    good = (*schema.migrations(), "CREATE TABLE later (a INTEGER) STRICT;")
    for steps, code in (
        ((*good[:today], "CREATE TABLE later (a INTEGER) STRICT; broken"), "ledger_corrupt"),
        (good, None),
    ):
        monkeypatch.setattr(schema, "migrations", lambda steps=steps: steps)
        monkeypatch.setattr(store, "migrations", lambda steps=steps: steps)
        if code is not None:
            assert code == fault(lambda: Ledger.open(path))
            monkeypatch.setattr(schema, "migrations", lambda: good[:today])
            monkeypatch.setattr(store, "migrations", lambda: good[:today])
            assert today == Ledger.open(path).stats().schema
            continue
        assert "ledger_read_only" == fault(lambda: Ledger.open(path, read_only=True))
        with Ledger.open(path) as ledger:
            assert (today + 1, before) == (ledger.stats().schema, list(ledger.turns("c")))
    copy = path.with_name(f"ledger.schema-{today}")
    assert 0o600 == _mode(copy)
    monkeypatch.undo()
    shutil.copy(copy, path.with_name("restored"))
    with Ledger.open(path.with_name("restored")) as ledger:
        assert (today, before) == (ledger.stats().schema, list(ledger.turns("c")))


def test_a_closed_ledger_says_so(path: Path) -> None:
    """Closing empties the -wal, closing twice is fine, and a later call is a named fault."""
    ledger = Ledger.open(path)
    fill(ledger, 2)
    assert path.with_name("ledger-wal").stat().st_size > 0
    ledger.close()
    ledger.close()
    assert 0 == path.with_name("ledger-wal").stat().st_size
    assert "ledger_io" == fault(lambda: ledger.head("c"))


def test_faults_hold_no_words_of_the_storage(path: Path) -> None:
    """A fault is a code, our own words and numbers; neither its cause nor its text is the library's (R188)."""
    with Ledger.open(path) as ledger:
        fill(ledger, 1)
        with pytest.raises(PlannerFault) as caught, ledger._store.write("test") as tx:
            tx.connection.execute("INSERT INTO part VALUES ('canary', 'canary', 'canary', 1, 2, 3)")
    assert (None, None) == (caught.value.__cause__, caught.value.__context__)
    assert "canary" not in repr(caught.value.args)
