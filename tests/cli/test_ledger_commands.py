"""`planner ledger`: what comes in comes out, what is refused, and what is never said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.cli import opening
from planner.ledger.ledger import Ledger
from planner.ledger.schema import migrations
from planner.values.turn import Message, Turn
from planner.wire.parse import parse_record
from tests.cli.ledger_support import CANARY, chat, chat_file, here
from tests.cli.support import DEMO, REQUEST, ROOT, imported_by, planner
from tests.cli.test_start import HEAVY

Capture = pytest.CaptureFixture[bytes]
COMMANDS = [
    *(["ledger", name] for name in ("import", "export", "verify", "stats", "retain", "resolve")),
    *(
        ["compact", name]
        for name in ("propose", "prompt", "accept", "trial", "run", "status", "versions", "readopt")
    ),
]  # fmt: skip


@pytest.mark.parametrize("arguments", [["ledger"], ["compact"], *COMMANDS])
def test_help_of_the_ledger_imports_nothing_heavy(arguments: list[str]) -> None:
    """No database, no pydantic and no drawing for a help text."""
    assert "0 []" == imported_by([*arguments, "--help"], f"{HEAVY} apsw urllib.request").splitlines()[-1]


def test_what_is_imported_is_exported(tmp_path: Path, capsysbinary: Capture) -> None:
    """The demo's request goes in; out come its turns, and those give the same export again."""
    names = [tmp_path / name for name in ("a.db", "b.db", "out.jsonl")]
    done = here(capsysbinary, "ledger", "import", REQUEST, "--ledger", names[0], "--conversation", "c1", "--json")
    assert (0, "", 39) == (done.code, done.err, done.json["turns"])
    out = here(capsysbinary, "ledger", "export", "--ledger", names[0], "--conversation", "c1").out
    turns = [parse_record(Turn, line) for line in out.splitlines()]
    given = json.loads(REQUEST.read_bytes())["turns"]
    assert [turn["id"] for turn in given] == [turn.id for turn in turns]
    done = here(capsysbinary, "ledger", "export", "--ledger", names[0], "--conversation", "c1", "--out", names[2],
                "--json")  # fmt: skip
    assert (39, None) == (done.json["turns"], done.json["purgedThrough"])
    assert out == names[2].read_bytes()
    done = here(capsysbinary, "ledger", "import", names[2], "--ledger", names[1], "--conversation", "c1")
    assert b"c1: 39 turns, 131 messages; policy stored\n" == done.out


def test_an_import_again_changes_nothing(tmp_path: Path, capsysbinary: Capture) -> None:
    """The second run says that all of it was there, and the file is byte for byte what it was."""
    arguments = ("ledger", "import", chat_file(tmp_path), "--ledger", tmp_path / "a.db", "--conversation", "c1")
    assert b"c1: 13 turns, 25 messages; policy stored\n" == here(capsysbinary, *arguments).out
    before = (tmp_path / "a.db").read_bytes()
    assert b"c1: 13 turns, 25 messages; 13 of them were there already\n" == here(capsysbinary, *arguments).out
    assert before == (tmp_path / "a.db").read_bytes()


def test_stdin_is_a_file_too(tmp_path: Path) -> None:
    """`-` reads a history from a pipe."""
    done = planner("ledger", "import", "-", "--ledger", tmp_path / "a.db", "--conversation", "c1",
                   stdin=json.dumps(chat(2)).encode())  # fmt: skip
    assert (0, "c1: 3 turns, 5 messages; policy stored\n") == (done.code, done.text)


def test_a_killed_import_loses_no_turn_and_is_repeated(tmp_path: Path) -> None:
    """SIGKILL in the middle: whole turns are there, the same command again makes the rest, nothing twice."""
    lines = [
        b'{"id":"t%d","sequence":%d,"state":"completed","messages":[{"id":"m%d","role":"user","text":"x"}]}\n'
        % (at, at, at)
        for at in range(60)
    ]
    path = tmp_path / "a.db"
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from planner.cli.main import main; main()"
    words = ["ledger", "import", "-", "--ledger", str(path), "--conversation", "c1"]
    with subprocess.Popen([sys.executable, "-c", code, str(ROOT), *words], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(lines[:30]))
        process.stdin.flush()
        for _ in range(600):
            if _turns(path) >= 20:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    there = _turns(path)
    assert 20 <= there <= 30
    done = planner(*words, stdin=b"".join(lines))
    assert f"c1: 60 turns, 60 messages; {there} of them were there already; policy stored\n" == done.text
    assert (0, 60) == (planner("ledger", "verify", "--ledger", path).code, _turns(path))


def _turns(path: Path) -> int:
    if not path.exists() or path.stat().st_size < 100:
        return 0
    with Ledger.open(path) as ledger:
        return ledger.head("c1").turns if "c1" in ledger.conversations() else 0


def test_old_records_are_kept_raw(tmp_path: Path, capsysbinary: Capture) -> None:
    """`--legacy` says how many could not be classified; an export says that they are not in it."""
    old = tmp_path / "old.jsonl"
    old.write_text('{"id":"q","role":"user","source":"app","text":"Q?"}\n'
                   '{"id":"a","role":"assistant","source":"app","text":"A."}\n'
                   f'{{"id":"z","role":"oracle","text":"{CANARY}"}}\n', encoding="utf-8")  # fmt: skip
    where = ("--ledger", tmp_path / "a.db", "--conversation", "c1")
    done = here(capsysbinary, "ledger", "import", old, *where, "--legacy")
    assert (0, b"c1: 3 records; 1 unclassified, kept raw; policy stored\n", "") == (done.code, done.out, done.err)
    done = here(capsysbinary, "ledger", "export", *where)
    assert (0, "not exported: 1 records that could not be classified\n") == (done.code, done.err)
    assert 1 == len(done.out.splitlines())


def test_a_policy_file_is_stored(tmp_path: Path, capsysbinary: Capture) -> None:
    """`--policy` brings policy and tools for a history that has none; a plan without a file uses them."""
    frame = tmp_path / "frame.json"
    frame.write_text(json.dumps({"policyVersion": "v7", "policy": [{"id": "tone", "text": "Be short."}]}))
    where = ("--ledger", tmp_path / "a.db", "--conversation", "c1")
    assert 0 == here(capsysbinary, "ledger", "import", chat_file(tmp_path), *where, "--policy", frame).code
    done = here(capsysbinary, "plan", *where, "--bundle", "reference", "--json")
    assert ("v7", "policy/tone") == (done.json["receipt"]["policyVersion"], done.json["kept"][0])


def test_verify_says_what_is_wrong(tmp_path: Path, capsysbinary: Capture) -> None:
    """A sound ledger exits 0 with its figures, a copied anchor or a changed byte exits 2 with a code."""
    path = tmp_path / "a.db"
    here(capsysbinary, "ledger", "import", chat_file(tmp_path), "--ledger", path, "--conversation", "c1")
    done = here(capsysbinary, "ledger", "verify", "--ledger", path)
    assert (0, "") == (done.code, done.err)
    assert done.text.startswith("sound: ")
    assert here(capsysbinary, "ledger", "verify", "--ledger", path, "--json").json["sound"]
    older = path.read_bytes()
    with Ledger.open(path) as ledger:
        ledger.append("c1", "later", [Message("user", "ml", CANARY)])
    path.write_bytes(older)
    done = here(capsysbinary, "ledger", "verify", "--ledger", path)
    assert 2 == done.code
    assert done.err.startswith("context plan rejected: ledger_rolled_back: ")
    assert 1 == done.err.count("\n")
    done = here(capsysbinary, "ledger", "verify", "--ledger", path, "--reanchor")
    assert (0, "reanchored") == (done.code, done.text.splitlines()[-1])
    data = bytearray(path.read_bytes())
    at = data.index(CANARY.encode())
    data[at] ^= 1
    path.write_bytes(data)
    done = here(capsysbinary, "ledger", "verify", "--ledger", path, "--json")
    assert (2, False) == (done.code, done.json["sound"])
    assert done.err.startswith("context plan rejected: ledger_corrupt: ")
    assert CANARY[1:] not in done.text + done.err


def test_derived_rows_are_made_anew(tmp_path: Path, capsysbinary: Capture) -> None:
    """`--rebuild` says that it did."""
    path = tmp_path / "a.db"
    here(capsysbinary, "ledger", "import", chat_file(tmp_path), "--ledger", path, "--conversation", "c1")
    done = here(capsysbinary, "ledger", "verify", "--ledger", path, "--rebuild")
    assert (0, "rebuilt") == (done.code, done.text.splitlines()[-1])


def test_stats_count_what_is_there(tmp_path: Path, capsysbinary: Capture) -> None:
    """Figures for a person and for a program."""
    path = tmp_path / "a.db"
    here(capsysbinary, "ledger", "import", chat_file(tmp_path), "--ledger", path, "--conversation", "c1")
    found = here(capsysbinary, "ledger", "stats", "--ledger", path, "--json").json
    assert (1, 13, 25) == (found["conversations"], found["turns"], found["messages"])
    assert "messages" in here(capsysbinary, "ledger", "stats", "--ledger", path).text


def test_retention_is_recorded(tmp_path: Path, capsysbinary: Capture) -> None:
    """R146 on the command line: what was purged is counted, gone from the export, and the export says so."""
    where = ("--ledger", tmp_path / "a.db", "--conversation", "c1")
    here(capsysbinary, "ledger", "import", chat_file(tmp_path), *where)
    done = here(capsysbinary, "ledger", "retain", *where, "--before", "6", "--reason", "policy-30-days", "--dry-run")
    assert (0, b"would purge up to sequence 4: 2 turns, 4 messages, 0 parts, 0 summaries\n") == (done.code, done.out)
    done = here(capsysbinary, "ledger", "retain", *where, "--before", "6", "--reason", "policy-30-days", "--json")
    assert (0, 4, 2, 4) == (done.code, done.json["throughSequence"], done.json["turns"], done.json["messages"])
    done = here(capsysbinary, "ledger", "retain", *where, "--before", "6", "--reason", "again")
    assert b"nothing to purge\n" == done.out
    done = here(capsysbinary, "ledger", "export", *where)
    assert "not exported: turns up to sequence 4, which were purged\n" == done.err
    assert 11 == len(done.out.splitlines())
    with Ledger.open(tmp_path / "a.db") as ledger:
        ledger.branch("c1", "b", at_turn_id=next(iter(ledger.turns("c1"))).id)
    done = here(capsysbinary, "ledger", "export", *where, "--branch", "b", "--out", tmp_path / "b.jsonl", "--json")
    assert done.err.endswith("constraints in force of purged turns are told of the branch in use alone\n")
    assert (1, None) == (done.json["turns"], done.json["constraintsLeft"])
    done = here(capsysbinary, "ledger", "retain", *where, "--before", "99", "--reason", "again")
    assert (
        "context plan rejected: invalid-input: $.beforeSequence: takes in the open turn with sequence 26\n" == done.err
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["export", "--ledger", "none.db", "--conversation", "c1"], "ledger_io: no such file"),
        (["verify", "--ledger", "none.db"], "ledger_io: no such file"),
        (["stats", "--ledger", "none.db"], "ledger_io: no such file"),
        (["stats", "--ledger", "chat.json"], "ledger_foreign: the file has no SQLite header"),
        (
            ["retain", "--ledger", "none.db", "--conversation", "c1", "--before", "1", "--reason", "x"],
            "ledger_io: no such file",
        ),
        (["retain", "--ledger", "a.db", "--conversation", "c1"],
         "invalid-input: --before is missing; see planner ledger retain --help"),
        (["retain", "--ledger", "a.db", "--conversation", "c1", "--before", "1", "--reason", "two words"],
         "invalid-input: $.reason: expected 1 to 128 characters out of A-Z a-z 0-9 . _ : -"),
        (["export", "--ledger", "a.db", "--conversation", "nobody"],
         "conversation_not_found: no such conversation"),
        (["export", "--ledger", "a.db", "--conversation", "c1", "--branch", "side"],
         "conversation_not_found: no such branch"),
        (["export", "--ledger", "a.db", "--conversation", "c1", "--json"],
         "invalid-input: --json goes with --out; the lines themselves are JSON"),
        (["export", "--ledger", "a.db", "--conversation", "c1", "--out", "a.db"],
         "invalid-input: --out names the file of an input"),
        (["import", "none.json", "--ledger", "a.db", "--conversation", "c1"],
         "file_not_readable: none.json does not exist"),
        (["import", "chat.json", "--ledger", "a.db", "--conversation", "two words"],
         "invalid-input: turn t1: $.conversationId: expected 1 to 128 characters out of A-Z a-z 0-9 . _ : -"),
        (["import", "chat.json", "--ledger", "a.db", "--conversation", "c1", "--policy", "chat.json"],
         "invalid-input: $: expected an object"),
        (["import", "chat.json", "--ledger", "a.db", "--conversation", "c1", "--legacy"],
         "invalid-input: $[0]: has 1 fields a record does not know"),
        (["nonsense"], "invalid-input: no such command; see planner ledger --help"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(
    tmp_path: Path, capsysbinary: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    """Exit 2, nothing on stdout, no word of a value or a file, and no ledger made by the way."""
    monkeypatch.chdir(tmp_path)
    chat_file(tmp_path)
    here(capsysbinary, "ledger", "import", "chat.json", "--ledger", "a.db", "--conversation", "c1")
    done = here(capsysbinary, "ledger", *arguments)
    assert (2, b"", f"context plan rejected: {line}\n") == (done.code, done.out, done.err)
    assert not Path("none.db").exists()


def test_a_failed_export_leaves_the_older_file(tmp_path: Path, capsysbinary: Capture) -> None:
    """A file is written whole or not at all: an unknown branch leaves what stood there."""
    out = tmp_path / "out.jsonl"
    out.write_text("older")
    where = ("--ledger", tmp_path / "a.db", "--conversation", "c1")
    here(capsysbinary, "ledger", "import", chat_file(tmp_path), *where)
    assert 2 == here(capsysbinary, "ledger", "export", *where, "--branch", "side", "--out", out).code
    assert "older" == out.read_text()
    assert [] == [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_bars_are_for_terminals_and_stderr(tmp_path: Path) -> None:
    """A person who looks sees a bar; a pipe gets the result alone."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo terminals")
    main, side = pty.openpty()
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from planner.cli.main import main; main()"
    words = ["ledger", "import", str(DEMO / "building_desk.chat.json"), "--ledger", str(tmp_path / "a.db"),
             "--conversation", "c1"]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", code, str(ROOT), *words], stdout=subprocess.PIPE, stderr=side,
        env={**os.environ, "TERM": "xterm"},
    ) as process:  # fmt: skip
        out = process.communicate()[0]
    os.close(side)
    shown = os.read(main, 100_000).decode()
    os.close(main)
    assert (0, b"c1: 39 turns, 132 messages; policy stored\n") == (process.returncode, out)
    assert "import" in shown


def test_a_tree_of_a_value_is_plain_json() -> None:
    """Names on the wire are camelCase all the way down."""
    tree = opening.as_tree({"k": (Message("user", "m1", "x"),)})
    assert ("m1", None) == (tree["k"][0]["id"], tree["k"][0]["toolResult"])
    json.dumps(tree)


def test_how_a_dispute_ended_is_recorded_once(tmp_path: Path, capsysbinary: Capture) -> None:
    """The event comes as a file, the second time it is known; a value is nowhere in what is said."""
    path, event = tmp_path / "a.db", tmp_path / "event.json"
    shutil.copy(ROOT / "fixtures" / "ledgers" / f"schema_{len(migrations())}.db", path)
    given = {"factKey": "torque", "decision": "keep", "resolvedBy": "user", "confirmationId": "click-2",
             "value": CANARY}  # fmt: skip
    where = ("ledger", "resolve", event, "--ledger", path, "--conversation", "bolts")
    event.write_text(json.dumps(given), encoding="utf-8")
    first = here(capsysbinary, *where)
    assert (0, b"torque: keep\n") == (first.code, first.out)
    assert b"torque: known already\n" == here(capsysbinary, *where).out
    assert False is here(capsysbinary, *where, "--json").json["changed"]
    export = here(capsysbinary, "ledger", "export", "--ledger", path, "--conversation", "bolts")
    assert "not exported: how disputes about 1 facts ended, which belongs to summaries" in export.err
    for spoiled, line in (
        ({**given, "value": "6"}, "duplicate_id: the confirmation decided something else"),
        ({**given, "factKey": "mass", "confirmationId": "c"}, "invalid-input: $.factKey: names no confirmed fact"),
        ({**given, "extra": CANARY}, "invalid-input: "),
    ):
        event.write_text(json.dumps(spoiled), encoding="utf-8")
        done = here(capsysbinary, *where)
        assert (2, True, False) == (done.code, line in done.err, CANARY in done.err)
