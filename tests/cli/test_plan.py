"""`planner plan`: answers, exit codes, files, and what never appears."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from planner.planner import Planner
from planner.values.digest import final_input_digest
from planner.values.plan import Plan
from planner.wire.parse import parse_plan, parse_plan_file, parse_receipt, parse_refusal, parse_request
from tests.cli.support import CHAT, REQUEST, ROOT, TOOLS, planner, small_request, unread


def _write(folder: Path, data: bytes, name: str = "request.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_the_command_and_the_library_give_the_same_plan(tmp_path: Path) -> None:
    """The JSON of the command reads back to the ids, account and receipt of a library call."""
    done = planner("plan", _write(tmp_path, small_request()), "--json")
    assert (done.code, done.err) == (0, "")
    expected = Planner("reference").plan(parse_request(small_request()))
    assert isinstance(expected, Plan)
    read = parse_plan(done.out)
    assert (expected.ids, expected.account, expected.receipt) == (read.ids, read.account, read.receipt)


def test_every_file_is_written_and_agrees(tmp_path: Path) -> None:
    """Receipt, plan file, ids and prompt of one plan belong together; numpy reads the ids."""
    names = {name: tmp_path / name for name in ("r.json", "f.json", "ids.npy", "p.txt")}
    outputs = zip(("--receipt", "--plan-file", "--ids", "--prompt"), names.values(), strict=True)
    done = planner("plan", _write(tmp_path, small_request()), *(part for pair in outputs for part in pair))
    assert (done.code, done.err) == (0, "")
    import numpy as np

    ids = np.load(names["ids.npy"])
    receipt = parse_receipt(names["r.json"].read_bytes())
    plan_file = parse_plan_file(names["f.json"].read_bytes())
    assert ids.dtype == np.int32
    assert receipt.final_input_digest == final_input_digest(receipt.bundle_digest or "", array("i", ids.tolist()))
    assert sum(item.tokens for item in plan_file.items) == len(ids)
    assert "How many moons has Mars?" in names["p.txt"].read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "request.json"])


def test_ids_on_stdout_are_nothing_but_the_array(tmp_path: Path) -> None:
    """`--ids -` can be piped into a reader."""
    request = _write(tmp_path, small_request())
    target = tmp_path / "ids.npy"
    assert planner("plan", request, "--ids", target).code == 0
    assert planner("plan", request, "--ids", "-").out == target.read_bytes()


def test_a_refusal_prints_one_line_writes_a_receipt_and_no_ids(tmp_path: Path) -> None:
    """R184 on the command line: exit 2, typed line, receipt, advice; ids and prompt are not made."""
    request = _write(tmp_path, small_request())
    done = planner(
        "plan", request, "--window", "50", "--receipt", tmp_path / "r.json", "--ids", tmp_path / "i.npy",
        "--prompt", tmp_path / "p.txt",
    )  # fmt: skip
    assert done.code == 2
    assert done.err.startswith("context plan rejected: context_policy_overflow: what cannot move needs ")
    assert done.err.count("\n") == 1
    assert "tokens are missing" in done.text
    assert parse_receipt((tmp_path / "r.json").read_bytes()).outcome == "context_policy_overflow"
    assert not (tmp_path / "i.npy").exists()
    assert not (tmp_path / "p.txt").exists()


def test_a_refusal_as_json_reads_back(tmp_path: Path) -> None:
    """A program branches on the outcome without parsing a sentence."""
    done = planner("plan", _write(tmp_path, small_request()), "--window", "50", "--json")
    assert (done.code, parse_refusal(done.out).outcome) == (2, "context_policy_overflow")
    silent = planner("plan", _write(tmp_path, small_request()), "--window", "50", "--ids", "-")
    assert (silent.code, silent.out) == (2, b"")


def test_a_finer_reason_is_the_first_word_of_the_detail(tmp_path: Path) -> None:
    """The line of design.md §9: the outcome is the code, the reason leads the detail."""
    turn = {"id": "big", "sequence": 1, "state": "completed", "messages": [
        {"id": "m", "role": "user", "text": "word " * 600, "protectionReason": "pending-confirmation"},
        {"id": "n", "role": "assistant", "text": "yes"},
    ]}  # fmt: skip
    done = planner("plan", _write(tmp_path, small_request(turns=[turn])), "--window", "300")
    assert done.err.startswith("context plan rejected: context_policy_overflow: protected_history_overflow: ")


def test_stdin_and_overrides() -> None:
    """`-` is stdin; options on the command line win over the request."""
    done = planner("plan", "-", "--window", "300", "--reserve", "20", "--json", stdin=small_request())
    account = done.json["account"]
    assert (account["inputLimit"], account["reservedOutputTokens"]) == (300, 20)


def test_a_chat_file_is_planned_like_a_list(tmp_path: Path) -> None:
    """`--chat` and `--tools` take what a chat API takes; the result equals the one-line call."""
    given = ("--bundle", "reference", "--json")
    done = planner("plan", "--chat", CHAT, "--tools", TOOLS, "--window", "8192", *given)
    expected = Planner("reference").plan(
        messages=json.loads(CHAT.read_bytes()), tools=json.loads(TOOLS.read_bytes()), max_input_tokens=8192
    )
    assert isinstance(expected, Plan)
    assert (0, expected.receipt) == (done.code, parse_plan(done.out).receipt)
    body = {"messages": json.loads(CHAT.read_bytes()), "max_tokens": 100, "temperature": 0.5}
    path = _write(tmp_path, json.dumps(body).encode())
    both = planner("plan", "--chat", path, "--reserve", "64", *given)
    assert both.json["account"]["reservedOutputTokens"] == 64


def test_the_drawing_is_plain_text_in_a_pipe(tmp_path: Path) -> None:
    """No escape sequence, no markup, nothing beyond ASCII; the table adds up to the limit."""
    done = planner("plan", _write(tmp_path, small_request()))
    assert done.text.isascii()
    assert "\x1b" not in done.text
    figures = {}
    for line in done.text.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] in set("PTSQHMRFO-.") and words[-1] == "%":
            figures[words[0]] = int(words[-3].replace(",", ""))
    assert sum(figures.values()) == 400


@pytest.mark.parametrize("target", ["missing/r.json", "folder"])
def test_an_output_that_cannot_be_written_is_exit_2(tmp_path: Path, target: str) -> None:
    """A missing folder or a folder in the way is named; no half file stays."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    done = planner("plan", _write(tmp_path, small_request()), "--receipt", tmp_path / target)
    assert done.code == 2
    assert done.err.startswith("context plan rejected: file_not_readable: ")
    assert list(tmp_path.rglob("*.part")) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_exit_2_and_one_line(tmp_path: Path) -> None:
    """Output that cannot be written is a fault of the machine, never a traceback."""
    request = _write(tmp_path, small_request())
    for arguments in (["--json"], []):
        with Path("/dev/full").open("wb") as full:
            code = "import sys; from planner.cli.main import main; main()"
            done = subprocess.run(
                [sys.executable, "-c", code, "plan", str(request), *arguments],
                stdout=full, stderr=subprocess.PIPE, check=False, cwd=ROOT,
            )  # fmt: skip
        assert done.stderr == b"context plan rejected: environment: the disk is full\n"
        assert done.returncode == 2
    done_file = planner("plan", request, "--receipt", "/dev/full")
    assert (done_file.code, done_file.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("drawn", [["--json"], []])
def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path, drawn: list[str]) -> None:
    """`planner plan ... | head -c 1` ends without a traceback."""
    code, error = unread("plan", str(_write(tmp_path, small_request())), *drawn)
    assert "context plan rejected: environment: the reader of the output went away\n" == error
    assert 2 == code


def test_one_output_has_stdout_for_itself(tmp_path: Path) -> None:
    """A receipt or a prompt on stdout can be piped on; two of them are refused before anything is planned."""
    request = _write(tmp_path, small_request())
    assert "accepted" == planner("plan", request, "--receipt", "-").json["outcome"]
    assert "<|begin|>" == planner("plan", request, "--prompt", "-").text[:9]
    for arguments in (["--json", "--receipt", "-"], ["--ids", "-", "--prompt", "-"], ["--json", "--ids", "-"]):
        done = planner("plan", request, *arguments)
        assert (2, b"") == (done.code, done.out)
        assert done.err.endswith(" both want stdout\n")


def test_outputs_never_overwrite_inputs_or_each_other(tmp_path: Path) -> None:
    """A slip of the keyboard does not cost a request file."""
    request = _write(tmp_path, small_request())
    for arguments in (["--receipt", request], ["--receipt", tmp_path / "x", "--ids", tmp_path / "." / "x"]):
        done = planner("plan", request, *arguments)
        assert (done.code, done.err.count("names the file of")) == (2, 1)
    assert request.read_bytes() == small_request()
    assert not (tmp_path / "x").exists()


def test_an_existing_file_is_replaced_never_written_into(tmp_path: Path) -> None:
    """Who still reads the old file reads all of it; a link to the old bytes keeps them."""
    old, link = tmp_path / "r.json", tmp_path / "link"
    old.write_text("old")
    os.link(old, link)
    assert planner("plan", _write(tmp_path, small_request()), "--receipt", old).code == 0
    assert ("old", True) == (link.read_text(), old.read_text().startswith("{"))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Files are replaced whole: a folder without room or right keeps what stood there."""
    old = tmp_path / "locked" / "r.json"
    old.parent.mkdir()
    old.write_text("old")
    from planner.cli import files

    def fail(path: Path, data: bytes) -> None:
        raise OSError(28, "no space")

    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda _: fail(old, b""))
    try:
        with pytest.raises(Exception, match="the disk is full"):
            files.write_output(str(old), b"new")
    finally:
        patch.undo()
    assert old.read_text() == "old"
    assert [path.name for path in old.parent.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"modelBundleId": "reference", "secret canary": 1}', "invalid-input: $: has an unknown field"),
        (b"not json canary", "invalid-input: $: is not JSON at character 0"),
        (b'{"modelBundleId": "no-such-canary"', "invalid-input: $: is not JSON at character 34"),
        (b"\xff\xfe", "invalid-input: $: is not UTF-8"),
    ],
)
def test_broken_requests_are_one_line_without_their_text(data: bytes, expected: str) -> None:
    """R188 at the outermost edge."""
    done = planner("plan", "-", stdin=data)
    assert (done.code, done.out, done.err) == (2, b"", f"context plan rejected: {expected}\n")


def test_a_missing_file_is_named() -> None:
    """The path is the user's own word and no conversation text; it is shown in one ASCII line."""
    done = planner("plan", "no\nsuch\u00e9.json")
    assert done.err == "context plan rejected: file_not_readable: no\\nsuch\\xe9.json does not exist\n"


def test_a_bug_of_ours_is_exit_1_and_names_no_text(tmp_path: Path) -> None:
    """Exit 1 is kept for us: the line says where, and repeats nothing of the exception's message."""
    code = (
        "import planner.planner as p\n"
        "def broken(*_, **__): raise ValueError('canary of the conversation')\n"
        "p.Planner.plan = broken\n"
        "from planner.cli.main import run\n"
        f"raise SystemExit(run(['plan', {str(_write(tmp_path, small_request()))!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("planner bug: ValueError at cli/main.py:")
    assert "canary" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_receipts_of_the_demo_hold_no_word_of_it(tmp_path: Path) -> None:
    """R187 by a search of the written receipt for every text of the request."""
    receipt = tmp_path / "r.json"
    assert planner("plan", REQUEST, "--bundle", "reference", "--receipt", receipt).code == 0
    messages = [one for turn in json.loads(REQUEST.read_bytes())["turns"] for one in turn["messages"]]
    texts = [one["text"] for one in messages if len(one.get("text") or "") > 12]
    written = receipt.read_text(encoding="utf-8")
    assert len(texts) > 50
    assert [text for text in texts if text[:24] in written] == []
