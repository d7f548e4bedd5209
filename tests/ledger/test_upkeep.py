"""Damage is found, loss is noticed, and originals leave only by a run that says so."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.ledger import schema
from planner.ledger.anchor import anchor_path, read_anchor
from planner.ledger.ledger import Ledger
from planner.ledger.legacy import LegacyRecord
from planner.ledger.schema import migrations
from planner.values.constraint import Constraint
from planner.values.digest import chain_of
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.turn import Message, MustPreserve, OpenItem, ToolCall, ToolResult
from tests.ledger.support import chat, events, fault, fill, seen

NAMES = ("ledger", "ledger-wal", "ledger-shm", "ledger-anchor")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a ledger may be made."""
    return tmp_path / "ledger"


def _rich(ledger: Ledger) -> None:
    """Fill a ledger with every kind of fact a conversation has."""
    fill(ledger, 6)
    ledger.append("c", "t6", chat(6), state="completed", must_preserve=[MustPreserve("C1", "only read")])
    ledger.append("c", "t7", chat(7), state="completed", supersedes=["C1"], open_items=[OpenItem("i1", "pending")])
    ledger.edit("c", "u2", Message("user", None, "edited"))
    ledger.refuse("c", "u3")
    ledger.append("c", "t8", [Message("user", "u8", "x", constraint_ids=("C1", "C7"))])
    ledger.cancel("c", "t8", actor="user")
    ledger.withdraw("c", "t1")
    ledger.branch("c", "b", at_turn_id="t6")
    ledger.switch("c", "b")
    ledger.append("c", "n1", [Message("user", "n1", "on the branch")])
    ledger.import_legacy("c", [LegacyRecord("l1", "raw", None)])
    ledger.store_policy("c", b'{"policy":[]}')


def _copy(source: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    for name in NAMES:
        (target / name).unlink(missing_ok=True)
        if (source.parent / name).exists():
            shutil.copy(source.parent / name, target / name)
    return target / "ledger"


def _all(ledger: Ledger) -> object:
    return [
        (name, ledger.head(name), seen(ledger.view(name)), [list(ledger.turns(name, branch=one)) for one in
         ledger.branches(name)], ledger.unclassified(name), ledger.policy(name), ledger.versions(name, "u2"))
        for name in ledger.conversations()
    ]  # fmt: skip


def test_a_whole_ledger_verifies(path: Path) -> None:
    """Every kind of fact passes; derived tables equal what their facts give, and a rebuild changes nothing."""
    with Ledger.open(path) as ledger:
        _rich(ledger)
        before, count = _all(ledger), len(events(ledger))
        progress: list[tuple[int, int]] = []
        report = ledger.verify(rebuild=True, progress=lambda done, of: progress.append((done, of)))
        assert ((), (), True, count, 1) == (
            report.problems, report.warnings, report.rebuilt, report.events, report.conversations,
        )  # fmt: skip
        assert (before, [(count, count)], count) == (_all(ledger), progress, len(events(ledger)))


FACTS = ("event", "conversation", "branch", "generation", "policy", "message", "turn", "refusal", "mark", "touch",
         "part", "head", "branch_head", "relation", "pinned", "turn_chain")  # fmt: skip


def _changes(ledger: Ledger) -> Iterator[str]:
    """Yield statements that change or take away one row of one table."""
    connection = ledger._store.connection()
    for table in FACTS:
        columns = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]
        keys = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]
        row = connection.execute(f"SELECT {', '.join(keys)} FROM {table} ORDER BY 1 DESC LIMIT 1").fetchone()
        where = " AND ".join(f"{key} = {value!r}" for key, value in zip(keys, row, strict=True))
        # A row of the chain that is missing is computed by whoever reads.
        if table != "turn_chain":
            yield f"DELETE FROM {table} WHERE {where}"
        for name, kind in columns:
            if name not in keys and not (name == "salt" and table == "message"):
                new = {"INTEGER": "7777", "TEXT": "'open'", "BLOB": "zeroblob(32)"}[kind]
                yield f"UPDATE {table} SET {name} = {new} WHERE {where} AND {name} IS NOT {new}"


def test_every_changed_or_missing_row_is_found(path: Path, tmp_path: Path) -> None:
    """One column of one row after another is changed behind the ledger's back, one row after another deleted."""
    with Ledger.open(path) as ledger:
        _rich(ledger)
        whole = _all(ledger)
        changes = list(_changes(ledger))
    assert len(changes) > 80
    missed, different = [], []
    for change in changes:
        copy = _copy(path, tmp_path / "copy")
        with Ledger.open(copy, unchecked=True) as ledger:
            connection = ledger._store.connection()
            connection.config(1010, 0)  # SQLITE_DBCONFIG_DEFENSIVE
            connection.execute("PRAGMA ignore_check_constraints=on; PRAGMA foreign_keys=off")
            triggers = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for (name,) in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(change)
            if connection.changes() == 0:
                continue
            connection.execute("PRAGMA ignore_check_constraints=off")
            if ledger.verify().sound:
                missed.append(change)
            try:
                if _all(ledger) != whole:
                    different.append(change)
            except (PlannerFault, RefusalSignal):
                pass
    assert [] == missed, "\n".join(missed)
    # A read checks every row it reads and every derived set. A fact that is no longer found where it is looked for is
    # `verify`'s.
    derived = tuple(f"DELETE FROM {name}" for name in ("head", "branch_head", "relation", "pinned"))
    gone = ("DELETE", "UPDATE touch", "UPDATE mark", "UPDATE policy SET conversation", "UPDATE message SET turn",
            "UPDATE conversation SET id")  # fmt: skip
    left = [change for change in different if change.startswith(derived) or not change.startswith(gone)]
    assert [] == left, "\n".join(left)


def test_every_touch_that_is_missing_is_found(path: Path, tmp_path: Path) -> None:
    """Without its touch a summary of a changed turn would look current, so verify misses none of them."""
    with Ledger.open(path) as ledger:
        _rich(ledger)
        ledger.switch("c", "main")
        ledger.set_item("c", "t7", OpenItem("i1", "done"))
        ledger.mark("c", "t5", [MustPreserve("C9", "w")])
        with ledger._store.read("test") as connection:
            rows = connection.execute("SELECT sequence, event, cause FROM touch").fetchall()
    assert {"edit", "protection", "state", "constraint", "item"} == {row[2] for row in rows}
    for sequence, event, _ in rows:
        with Ledger.open(_copy(path, tmp_path / "copy")) as ledger:
            connection = ledger._store.connection()
            connection.execute("DROP TRIGGER touch_kept")
            connection.execute("DELETE FROM touch WHERE sequence = ? AND event = ?", (sequence, event))
            assert not ledger.verify().sound, (sequence, event)


FOUND = ("ledger_corrupt", "ledger_foreign", "ledger_rolled_back", "ledger_forked", "ledger_newer", "ledger_io")


def test_a_flipped_bit_never_gives_another_answer(path: Path, tmp_path: Path, seed: int, max_examples: int) -> None:
    """A bit of the file is flipped at random: the ledger says so, or every answer is the same."""
    with Ledger.open(path) as ledger:
        _rich(ledger)
        whole = _all(ledger)
    rng = random.Random(seed)
    data = path.read_bytes()
    kept = 0
    tries = 60 if max_examples <= 25 else 2000
    for _ in range(tries):
        copy = _copy(path, tmp_path / "copy")
        place = rng.randrange(len(data) * 8)
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        copy.write_bytes(broken)
        error = None
        try:
            with Ledger.open(copy) as ledger:
                if ledger.verify().sound:
                    assert whole == _all(ledger), place
                    kept += 1
        except PlannerFault as caught:
            error = caught
        if error is not None:
            assert error.code in FOUND, place
            assert (None, None) == (error.__cause__, error.__context__)
    assert 0 < kept < tries


@pytest.mark.parametrize("part", [0, 10, 50, 90])
def test_a_lost_tail_is_noticed(path: Path, tmp_path: Path, part: int) -> None:
    """A cut or missing -wal is a sound database to SQLite; the anchor says `ledger_rolled_back`."""
    ledger = Ledger.open(path)
    fill(ledger, 20)
    copy = _copy(path, tmp_path / "copy")
    ledger.close()
    log = copy.with_name("ledger-wal")
    data = log.read_bytes()
    log.write_bytes(data[: len(data) * part // 100]) if part else log.unlink()
    copy.with_name("ledger-shm").unlink()
    expected = {"ledger_rolled_back"} | ({"ledger_corrupt"} if part == 0 else set())
    assert fault(lambda: Ledger.open(copy)) in expected
    if part:
        with Ledger.open(copy, unchecked=True) as ledger:
            assert "ledger_rolled_back" in {code for code, _ in ledger.verify().problems}
            report = ledger.verify(reanchor=True)
            assert (True, True) == (report.reanchored, report.sound)
        with Ledger.open(copy) as ledger:
            fill(ledger, 1, start=90)


def test_a_restored_copy_that_went_on_is_a_fork(path: Path, tmp_path: Path) -> None:
    """A copy that was written apart holds other events where the anchor points, and is longer than it."""
    with Ledger.open(path) as ledger:
        fill(ledger, 2)
    copy = _copy(path, tmp_path / "copy")
    with Ledger.open(path) as ledger:
        fill(ledger, 3, start=10)
    with Ledger.open(copy) as ledger:
        fill(ledger, 9, start=20)
    shutil.copy(copy, path)
    assert "ledger_forked" == fault(lambda: Ledger.open(path))
    with Ledger.open(path, unchecked=True) as ledger:
        assert ledger.verify(reanchor=True).sound
    assert 11 == Ledger.open(path).head("c").turns


def test_an_emptied_file_with_an_anchor_is_a_loss(path: Path) -> None:
    """An empty file is a new ledger only where no anchor stands beside it."""
    with Ledger.open(path) as ledger:
        fill(ledger, 1)
    path.write_bytes(b"")
    assert "ledger_rolled_back" == fault(lambda: Ledger.open(path))
    path.write_bytes(b"something else " * 20)
    assert "ledger_corrupt" == fault(lambda: Ledger.open(path))


def test_a_missing_or_torn_anchor_is_a_warning_and_a_whole_check(path: Path, tmp_path: Path) -> None:
    """Without a sound anchor every event is checked; a sound ledger then opens with a warning, once."""
    with Ledger.open(path) as ledger:
        fill(ledger, 120)
        assert () == ledger.warnings
    makers: dict[str, Callable[[Path], object]] = {
        "anchor_missing": lambda anchor: anchor.unlink(),
        "anchor_torn": lambda anchor: anchor.write_bytes(anchor.read_bytes()[:40] + b"x" * 600),
    }
    for name, make in makers.items():
        make(anchor_path(path))
        with Ledger.open(path, read_only=True) as ledger:
            assert (name,) == ledger.warnings
        with Ledger.open(path) as ledger:
            assert (name,) == ledger.warnings
        with Ledger.open(path) as ledger:
            assert () == ledger.warnings
    # An old event is beyond the newest ones: with the anchor it is `verify`'s, without it the open finds it.
    with Ledger.open(path) as ledger:
        connection = ledger._store.connection()
        connection.execute("DROP TRIGGER event_stays; UPDATE event SET revision = 99 WHERE event = 3")
    Ledger.open(path).close()
    anchor_path(path).unlink()
    assert "ledger_corrupt" == fault(lambda: Ledger.open(path))


def test_the_anchor_survives_a_torn_write_and_never_fails_an_append(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slots take turns, so one of them is always whole; an anchor that cannot be written is no fault."""
    with Ledger.open(path) as ledger:
        fill(ledger, 1)
        first = read_anchor(anchor_path(path)).mark
        fill(ledger, 1, start=1)
        second = read_anchor(anchor_path(path)).mark
        assert first is not None
        assert second is not None
        assert (first.count + 1, len(events(ledger))) == (second.count, second.event)
        data = bytearray(anchor_path(path).read_bytes())
        data[second.count % 2 * 512 + 20] ^= 1
        anchor_path(path).write_bytes(data)
        assert (first, True) == (read_anchor(anchor_path(path)).mark, read_anchor(anchor_path(path)).torn)
        anchor_path(path).unlink()
        anchor_path(path).mkdir()
        fill(ledger, 1, start=2)
        anchor_path(path).rmdir()
    assert 3 == Ledger.open(path).head("c").turns


CANARIES = {name: f"kestrel{number}x" for number, name in enumerate(
    ("user", "assistant", "reasoning", "part", "argument key", "argument", "result", "short form", "constraint",
     "edited", "policy", "raw", "request"))}  # fmt: skip


def _with_canaries(ledger: Ledger) -> None:
    mark = CANARIES
    ledger.append("c", "t0", [
        Message("user", "u0", mark["user"]),
        Message("assistant", "a0", tool_calls=(ToolCall("k", "f", {mark["argument key"]: mark["argument"]}),),
                reasoning=mark["reasoning"]),
        Message("tool", "r0", tool_result=ToolResult("k", mark["result"], (mark["short form"],))),
        Message("assistant", "b0", mark["assistant"]),
    ], state="completed", must_preserve=[MustPreserve("C1", mark["constraint"])])  # fmt: skip
    ledger.edit("c", "u0", Message("user", None, mark["edited"]))
    ledger.append("c", "t1", chat(1), state="completed", supersedes=["C1"])
    ledger.store_policy("c", f'{{"policy":"{mark["policy"]}"}}'.encode())
    ledger.import_legacy("c", [LegacyRecord("l1", mark["raw"], None)])


def test_text_stands_in_three_columns_alone(path: Path) -> None:
    """No column but message.body, part.body and summary.body holds a word of a conversation, nor does a file beside."""
    with Ledger.open(path) as ledger:
        _with_canaries(ledger)
        connection = ledger._store.connection()
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = set()
        for table in tables:
            for name in (row[1] for row in connection.execute(f"PRAGMA table_info({table})")):
                text = " ".join(str(row[0]) for row in connection.execute(f"SELECT {name} FROM {table}"))
                if any(mark in text for mark in CANARIES.values()):
                    found.add((table, name))
        assert {("message", "body"), ("part", "body")} == found
        for name in ("ledger-anchor", "ledger-lock"):
            assert not any(mark.encode() in path.with_name(name).read_bytes() for mark in CANARIES.values())


def test_R146_purged_raw_is_recorded(path: Path) -> None:
    """A retention run takes text and salt out of file and -wal; boundary and reason stay, and so does the chain."""
    with Ledger.open(path) as ledger:
        _with_canaries(ledger)
        fill(ledger, 3, start=2)
        before = events(ledger)
        kept = [turn for turn in ledger.turns("c") if turn.id in ("t2", "t3", "t4")]
        boundary = ledger.retain("c", kept[0].sequence, "policy-30-days")
        assert ("policy-30-days", True, 2) == (boundary.reason, boundary.cleared, boundary.turns)
        assert (boundary,) == ledger.retentions("c")
        view = ledger.view("c")
        assert (boundary.through_sequence, kept) == (view.boundary, list(view.turns))
        assert kept == list(ledger.turns("c"))
        assert chain_of(kept).raw() == view.chain
        assert before == events(ledger)[: len(before)]
        assert () == ledger.verify(rebuild=True).problems
        assert kept == list(ledger.view("c").turns)
        assert [None] * 2 == [entry.text for entry in ledger.versions("c", "u0")]
        for name in NAMES:
            data = path.with_name(name).read_bytes()
            # The policy is the conversation's present one, no original of a turn.
            found = [key for key, mark in CANARIES.items() if mark.encode() in data and key != "policy"]
            assert [] == found, name
        # The same run again has nothing to take, an earlier border neither.
        count = len(events(ledger))
        assert None is ledger.retain("c", kept[0].sequence, "policy-30-days").event
        assert None is ledger.retain("c", 1, "policy-30-days").event
        assert count == len(events(ledger))


def test_no_page_keeps_a_copy_of_what_was_purged(path: Path) -> None:
    """Pages that were split while two conversations grew held copies of their rows; none is left, text or salt."""
    with Ledger.open(path) as ledger:
        for number in range(60):
            for name in ("c", "d"):
                messages = [Message("user", f"u{number}", f"kestrel{name}{number} " * (1 + number * 7 % 60)),
                            Message("assistant", f"a{number}", "x")]  # fmt: skip
                ledger.append(name, f"t{number}", messages, state="completed")
        with ledger._store.read("test") as connection:
            salts = [row[0] for row in connection.execute("SELECT salt FROM message WHERE conversation = 1")]
        ledger.retain("c", 120, "policy")
        data = b"".join(path.with_name(name).read_bytes() for name in NAMES)
        assert (0, 0) == (data.count(b"kestrelc"), sum(salt in data for salt in salts))
        assert data.count(b"kestreld") > 1000
        assert 60 == len(list(ledger.turns("d")))


def test_retention_takes_neither_open_nor_protected_turns(path: Path) -> None:
    """An open turn and a protected message stop the run before it has taken anything; reasons are ids."""
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        ledger.append("c", "open", [Message("user", "o1", "x")])
        fill(ledger, 1, start=3)
        ledger.protect("c", "u1", "audit-evidence")
        before = _raw(ledger)
        for border in (3, 7, 99):
            assert "invalid-input" == fault(lambda b=border: ledger.retain("c", b, "policy"))
        for reason in ("because I said so", ""):
            assert "invalid-input" == fault(lambda r=reason: ledger.retain("c", 2, r))
        assert before == _raw(ledger)
        ledger.protect("c", "u1", None)
        assert 5 == len(ledger.view("c").turns)
        assert 4 == ledger.retain("c", 6, "policy").through_sequence


def _raw(ledger: Ledger) -> list[tuple[object, ...]]:
    with ledger._store.read("test") as connection:
        return connection.execute("SELECT * FROM message ORDER BY event").fetchall()


def test_what_was_purged_is_left_alone(path: Path) -> None:
    """A purged turn takes no event any more; a constraint outlives its turn, and may still be taken back (X56)."""
    with Ledger.open(path) as ledger:
        ledger.append("c", "t0", chat(0), state="completed", must_preserve=[MustPreserve("C1", "only read")])
        fill(ledger, 3, start=1)
        ledger.retain("c", 4, "policy")
        for call in (
            lambda: ledger.edit("c", "u0", Message("user", None, "x")),
            lambda: ledger.protect("c", "u0", "audit-evidence"),
            lambda: ledger.withdraw("c", "t0"),
            lambda: ledger.mark("c", "t0", [MustPreserve("C2")]),
            lambda: ledger.append("c", "t0", chat(0)),
            lambda: ledger.branch("c", "b", at_turn_id="t0"),
        ):
            assert "invalid-input" == fault(call)
        assert (Constraint("C1", "t0", "only read"),) == ledger.view("c").constraints
        assert ("purged:C1",) == ledger.supersede("c", "t3", ["C1"]).notes
        assert () == ledger.view("c").constraints
        assert () == ledger.verify().problems


def test_a_view_that_is_older_than_a_purge_says_so(path: Path) -> None:
    """Turns that were not read before the purge cannot be read any more, and no other text stands in for them."""
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        view = ledger.view("c")
        ledger.retain("c", 4, "policy")
        assert "stale_generation" == fault(lambda: view.turns[0])
        assert ["t2"] == [turn.id for turn in ledger.view("c").turns]


def test_retention_reaches_every_branch(path: Path) -> None:
    """Versions that another branch wrote of a purged turn go too, and each branch reads on from the border."""
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        ledger.branch("c", "b", at_turn_id="t1")
        ledger.switch("c", "b")
        ledger.edit("c", "u0", Message("user", None, "kestrel on the branch"))
        fill(ledger, 2, start=5)
        ledger.retain("c", 2, "policy")
        assert [["t1", "t5", "t6"], ["t1", "t2"]] == [
            [turn.id for turn in ledger.turns("c", branch=name)] for name in ("b", "main")
        ]
        assert () == ledger.verify().problems
        assert b"kestrel" not in path.read_bytes()


def test_a_reader_that_stands_in_the_way_of_clearing_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another reader holds old pages the run is recorded and not cleared; the same run later clears them."""
    monkeypatch.setattr(schema, "BUSY_MS", 20)
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        ledger.append("c", "t0", [Message("user", "u0", "kestrel"), Message("assistant", "a0", "x")], state="completed")
        fill(ledger, 1, start=1)
        with other._store.read("test") as connection:
            connection.execute("SELECT * FROM message").fetchall()
            assert not ledger.retain("c", 2, "policy").cleared
        again = ledger.retain("c", 2, "policy")
        assert (True, None, 1) == (again.cleared, again.event, len(ledger.retentions("c")))
        assert not any(b"kestrel" in path.with_name(name).read_bytes() for name in NAMES)


def test_figures_count_what_is_there(path: Path) -> None:
    """Stats count turns and messages once, whatever their versions."""
    with Ledger.open(path) as ledger:
        _rich(ledger)
        stats = ledger.stats()
        assert (len(migrations()), 1, 2, 10, 19) == (
            stats.schema,
            stats.conversations,
            stats.branches,
            stats.turns,
            stats.messages,
        )
        assert stats.events == len(events(ledger))
        assert stats.size_bytes > 0
