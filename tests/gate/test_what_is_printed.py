"""What a hostile name can make of a line, a table, a JUnit file or a page, and which files a run may overwrite."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from planner.gate.junit import junit
from planner.gate.picture import Picture
from planner.gate.report import report
from planner.gate.verdict import Tally
from planner.values.candidate import MatrixCell
from planner.values.gate import FAMILIES, GateResult, Reason
from planner.wire.dump import dump_record
from tests.cli.support import planner as command
from tests.gate.gate_support import candidate, sample
from tests.gate.test_bundles_of_a_run import folder, run

__all__ = ["folder"]
HOSTILE = "a\x1b[2J\x07\n<script>alert(1)</script>\u202e\ufffe\x00 on b"


def closed(name: str) -> GateResult:
    """Return a verdict over a receipt of this name and a target of this vendor."""
    row = MatrixCell("1.0", "1" * 64, name, name, name, name, name)
    return Tally(candidate(), []).result(receipts=[Reason("receipt_simulated", name)], matrix=[row])


def test_a_reason_of_a_receipt_is_a_failure_in_junit_whatever_its_name() -> None:
    """Its file may be called like a cell; a CI system that reads this file alone must turn red."""
    for name in ("phone on desk.json", "s1 on reference: x.json"):
        tree = ET.fromstring(junit([], closed(name)))
        shown = [one.get("message") for one in tree.iter("failure")]
        assert f"receipt_simulated {name}" in shown


def test_no_name_breaks_the_junit_file_or_the_page() -> None:
    """Control characters are not XML, and markup is text."""
    result = closed(HOSTILE)
    data = junit([], result)
    assert b"\x1b" not in data
    assert any("script" in (one.get("message") or "") for one in ET.fromstring(data).iter("failure"))
    page = report(result, Picture()).decode()
    assert "<script" not in page
    assert not set(page) & set("\x1b\x07\x00\u202e\ufffe")


def test_a_name_is_one_line_on_a_terminal(folder: Path) -> None:
    """A receipt's file name and the words of a matrix can hold whatever a file system and JSON allow."""
    digest = candidate().bundle_digests[0]
    (folder / "receipts").mkdir()
    (folder / "receipts" / "a\x1b[2J\n\u202e.json").write_text("{}")
    row = json.loads(dump_record(MatrixCell("1.0", digest, "none", "\x1b[2J", "\x1b]0;x\x07", "arm64", "acme")))
    (folder / "matrix.json").write_text(json.dumps([row]))
    (folder / "candidate.json").write_bytes(dump_record(candidate()))
    done = command(
        "gate", "run", "--candidate", folder / "candidate.json", "--samples", folder / "samples", "--bundles",
        "reference", "--tiers", "4k", "--receipts", folder / "receipts", "--matrix", folder / "matrix.json",
    )  # fmt: skip
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert not set(done.err + done.text) & set("\x1b\x07\u202e")


def test_an_id_of_a_plan_file_is_one_line_on_a_terminal(tmp_path: Path) -> None:
    """The deep check names items of the file, and the file is somebody else's."""
    request = sample().request
    from planner.wire.dump import dump_request

    (tmp_path / "request.json").write_bytes(dump_request(request))
    assert 0 == command("plan", tmp_path / "request.json", "--plan-file", tmp_path / "plan.json").code
    tree = json.loads((tmp_path / "plan.json").read_text())
    tree["items"].append({"id": "a\x1b[2J\nb", "layer": "history", "tokens": 0})
    (tmp_path / "plan.json").write_text(json.dumps(tree))
    done = command("verify", tmp_path / "plan.json", "--request", tmp_path / "request.json")
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("option", "victim"), [("--results", "candidate.json"), ("--junit", "matrix.json"), ("--report", "out")]
)
def test_an_output_never_replaces_an_input_or_another_output(folder: Path, option: str, victim: str) -> None:
    """Refused before a cell is run."""
    digest = candidate().bundle_digests[0]
    (folder / "matrix.json").write_text("[]")
    other = "--report" if option != "--report" else "--junit"
    more: list[Any] = ["--matrix", folder / "matrix.json", option, folder / victim]
    more += [other, folder / "out"] if victim == "out" else []
    done = run(folder, "reference", (digest,), *map(str, more))
    assert 2 == done.code
    assert " names the file of " in done.err
    assert len(FAMILIES) == len(list((folder / "samples").iterdir()))
