"""What nobody ran or looked at is said to be so, and never more than was (R208, R211, R213)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from planner.gate.evidence import read_evidence
from planner.gate.integration import read_integration
from planner.gate.picture import Picture
from planner.gate.receipts import measured
from planner.gate.report import report
from planner.gate.verdict import Tally
from planner.values.candidate import CellStatus, MatrixCell
from planner.values.gate import GateResult
from planner.values.integration import RECHECK, PlatformCheck
from planner.values.observation import Observation
from tests.gate import test_device_counts, test_lifecycle
from tests.gate.gate_support import candidate

ROOT = Path(__file__).resolve().parents[2]
DEVICE = [item.id for item in RECHECK if item.kind == "device"]
ROW = MatrixCell("1.0", "1" * 64, "llama.cpp", "b1", "android 16", "arm64", "acme", status="measured")
RAN = Observation(
    "p-1", "exact", 9, 9, 9, "whole_prompt", "reference", "1" * 64, "llama.cpp", runtime_version="b1"
)  # fmt: skip


def written(folder: Path, **fields: Any) -> Path:
    """Write a file about one platform."""
    platform = {"platform": "Android 16", "documentation": "API 36", "checked": ["rotation"]}
    tree = {"schemaVersion": "1.0", "candidateId": candidate().candidate_id, "platforms": [platform], **fields}
    (folder / "integration.json").write_text(json.dumps(tree))
    return folder / "integration.json"


def closed(**parts: Any) -> GateResult:
    """Close a run in which nothing was handed in, apart from `parts`."""
    return Tally(candidate(), []).result(evidence=read_evidence(None, candidate(), 0)[0], **parts)


def test_R208_device_tests_listed() -> None:
    """Six device tests, each with one of ours that plays it here, and each named as not checked until it was."""
    expected = [
        "on_device_tokenizer", "template_wrapping", "process_rebuild", "rotation", "background_restore",
        "offline_model_switch",
    ]  # fmt: skip
    assert expected == DEVICE
    for name in DEVICE:
        assert hasattr(test_lifecycle, f"test_life_{name}") or hasattr(test_device_counts, f"test_life_{name}")
    one = PlatformCheck("Android 16", "API 36", ("rotation",))
    assert set(DEVICE) - set(one.unchecked) == {"rotation"}


def test_R211_not_run_is_said() -> None:
    """With nothing handed in: no evidence, no device, no platform; and `measured` without a receipt is not measured."""
    nothing = closed()
    assert {"not evidenced"} == {part.detail for part in nothing.evidence}
    page = report(nothing, Picture()).decode()
    for words in ("nothing is said about any device", "Not checked on any platform", "not evidenced"):
        assert words in page
    for other in (
        replace(RAN, bundle_digest="2" * 64), replace(RAN, runtime="onnx"), replace(RAN, runtime_version="b2"),
    ):  # fmt: skip
        assert ("uncovered",) == tuple(one.status for one in measured([ROW], [other]))
    assert (ROW,) == measured([ROW], [RAN])
    for status in get_args(CellStatus):
        row = replace(ROW, status=status)
        assert (1, (replace(row, status="uncovered" if status == "measured" else status),)) == (
            closed(matrix=measured([row], [])).coverage.targets, closed(matrix=measured([row], [])).coverage.uncovered,
        )  # fmt: skip


def test_R213_integration_recheck_list(tmp_path: Path) -> None:
    """The page holds the list; the report says of each platform and item whether it was checked."""
    page = (ROOT / "docs" / "integration.md").read_text(encoding="utf-8")
    assert [(item.id, item.what) for item in RECHECK] == re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    integration = {"model_interface", "type_constraints", "storage_transactions", "retention_rules"}
    assert integration == {item.id for item in RECHECK if item.kind == "integration"}
    platforms, wrong = read_integration(written(tmp_path), candidate())
    assert ((PlatformCheck("Android 16", "API 36", ("rotation",)),), []) == (platforms, wrong)
    shown = report(closed(integration=platforms), Picture()).decode()
    assert (1, len(RECHECK) - 1) == (shown.count(">checked<"), shown.count(">not checked<"))
    assert "Android 16, after the documentation of API 36" in shown


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"candidateId": "other"}, "receipt_of_other_candidate"),
        ({"platforms": [{"platform": "A", "documentation": " ", "checked": []}]}, "receipt_unreadable"),
        ({"platforms": [{"platform": "A", "documentation": "1", "checked": ["everything"]}]}, "receipt_unreadable"),
        ({"platforms": [{"platform": "A", "documentation": "1"}] * 2}, "receipt_unreadable"),
        ({"platforms": "all"}, "receipt_unreadable"),
    ],
)
def test_a_file_that_says_more_than_it_may_blocks(tmp_path: Path, fields: dict[str, Any], code: str) -> None:
    """And none of its platforms is shown as checked."""
    platforms, wrong = read_integration(written(tmp_path, **fields), candidate())
    assert ((), [code]) == (platforms, [reason.code for reason in wrong])
    assert ["receipt_unreadable"] == [one.code for one in read_integration(tmp_path / "absent", candidate())[1]]
