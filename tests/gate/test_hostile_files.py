"""Files made to bring the gate down or to speak through it: one line, exit code 2, and nothing of theirs in it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import run_cell
from planner.gate.deep import is_tool_schema
from planner.gate.evidence import read_evidence
from planner.gate.integration import read_integration
from planner.gate.plan_file import judge_bytes
from planner.gate.reading import read_candidate, read_samples
from planner.gate.receipts import check_receipts
from planner.gate.vectors_check import read_kit
from planner.values.gate import Event, Reason
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.wire.dump import dump_record
from tests.gate.gate_support import asked, candidate, cell, sample, subject
from tests.gate.plan_files import SOUND
from tests.gate.test_shipped_samples import samples


def test_no_depth_of_nesting_leaves_a_traceback() -> None:
    """Every depth around the one that the parser can no longer take (X21); the second reading is a little deeper."""
    head = json.dumps(SOUND)[:-1]
    lines = {judge_bytes(f'{head}, "x": {"[" * depth}{"]" * depth}}}'.encode()).message for depth in range(800, 1100)}
    nested = ('{"a":' * depth + "1" + "}" * depth for depth in range(800, 1100))
    lines |= {judge_bytes(f'{head}, "x": {inner}}}'.encode()).message for inner in nested}
    assert {None, "cannot parse plan: nested too deep"} == lines


def test_a_tool_that_requires_what_is_no_name_has_no_schema() -> None:
    """Objects and lists among the required names are no names, and no reason to stop."""
    for odd in ({}, [], None, 1):
        assert not is_tool_schema({"name": "f", "parameters": {"type": "object", "required": [odd]}})
    assert is_tool_schema({"name": "f", "parameters": {"properties": {"q": {}}, "required": ["q"]}})


WRONG_EVENTS: tuple[dict[str, Any], ...] = (
    {"kind": "edit", "fields": {"message": "u1", "text": 7}},
    {"kind": "edit", "fields": {"message": "u1"}},
    {"kind": "resend", "fields": {"turn": ["t6"]}},
    {"kind": "resend", "fields": {"turn": "t6", "also": "secret"}},
    {"kind": "kill", "fields": {"secret": 1}},
    {"kind": "late_answer", "fields": {"generation": "secret"}},
    {"kind": "late_answer", "fields": {"generation": True}},
    {"kind": "plan", "fields": {"secret": 1}},
    {"kind": "plan", "fields": {"kept": [["secret"]]}},
    {"kind": "plan", "fields": {"kept": "secret"}},
    {"kind": "plan", "fields": {"outcome": "accepted, or secret"}},
    {"kind": "plan", "fields": {"summaries": []}},
    {"kind": "plan", "fields": {"schemaVersion": "1.0"}},
    {"kind": "branch", "fields": {"at": {}}},
    {"kind": "switch_bundle", "fields": {"to": []}},
)


@pytest.mark.parametrize("event", WRONG_EVENTS)
def test_an_event_with_fields_of_another_form_is_refused_when_it_is_read(tmp_path: Path, event: dict[str, Any]) -> None:
    """Played, it would end in a traceback, or demand less than it seems to: a text holds every word of itself."""
    tree = json.loads(dump_record(sample(family="lifecycle"))) | {"events": [event]}
    (tmp_path / "lifecycle").mkdir()
    (tmp_path / "lifecycle" / "one.json").write_text(json.dumps(tree))
    with pytest.raises(RefusalSignal, match=r"lifecycle/one\.json") as told:
        list(read_samples(tmp_path))
    assert ("invalid-input", True) == (told.value.reason, "secret" not in told.value.detail)


def test_a_message_that_is_not_there_is_a_broken_step() -> None:
    """It is named like any other step that ends otherwise than it must."""
    events = (Event("edit", {"message": "u99", "text": "Where?"}), Event("plan"))
    one = cell(sample(family="lifecycle", events=events, request=asked(max_input_tokens=2000)))
    assert Reason("lifecycle_broken", "event 0 edit") in run_cell(one, subject()).reasons


def test_the_name_of_a_sample_is_an_id(tmp_path: Path) -> None:
    """It is printed in lines, tables, XML and HTML."""
    (tmp_path / "over_budget").mkdir()
    for name in ("two\nlines", "\x1b[2J", "a b", "", "a\u0001"):
        (tmp_path / "over_budget" / "one.json").write_bytes(dump_record(sample(name)))
        with pytest.raises(RefusalSignal, match=r"over_budget/one\.json: \$\.id"):
            list(read_samples(tmp_path))


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with files under which nothing can be read: a pipe, a folder, a broken link and one that fails."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "fails.json").symlink_to("/proc/self/mem")
    return tmp_path


ODD = ("pipe", "folder", "link", "fails")


def test_receipts_that_cannot_be_read_are_named_and_nothing_waits_for_a_pipe(odd: Path) -> None:
    """A gate that reads a pipe nobody writes to would never end."""
    sound, wrong = check_receipts(odd, candidate())
    assert (0, {Reason("receipt_unreadable", f"{name}.json") for name in ODD}) == (sound, set(wrong))


def test_evidence_that_cannot_be_read_blocks_and_is_no_bug(odd: Path) -> None:
    """An absent part is not evidenced; one that is there and cannot be read is wrong."""
    (odd / "link.json").unlink()
    for name, part in zip(("pipe", "folder", "fails"), ("summary_test_set", "tool_gateway_refusals",
                                                        "output_validation"), strict=True):  # fmt: skip
        (odd / f"{name}.json").rename(odd / f"{part}.json")
        parts, wrong = read_evidence(odd, candidate(), 0)
        assert [Reason("receipt_unreadable", part)] == wrong
        assert {"not evidenced"} == {one.detail for one in parts}
        (odd / f"{part}.json").rename(odd / f"{name}.old")


@pytest.mark.parametrize("name", ODD)
def test_samples_that_cannot_be_read_are_a_fault(odd: Path, name: str) -> None:
    """The file is named, not what the system said of it."""
    (odd / "samples" / "over_budget").mkdir(parents=True)
    (odd / f"{name}.json").rename(odd / "samples" / "over_budget" / "one.json")
    with pytest.raises(PlannerFault, match=r"over_budget/one\.json cannot be read"):
        list(read_samples(odd / "samples"))


def test_the_platforms_file_may_be_a_stream_and_one_that_fails_blocks(odd: Path) -> None:
    """A file named on the command line is read as it is; what cannot be read does not count."""
    assert [Reason("receipt_unreadable", "fails.json")] == read_integration(odd / "fails.json", candidate())[1]


def test_a_kit_that_is_larger_than_any_kit_is_a_fault(tmp_path: Path) -> None:
    """It is not read, and that it was not is no bug of ours."""
    with (tmp_path / "kit.json").open("wb") as kit:
        kit.truncate(65 * 1024 * 1024)
    with pytest.raises(PlannerFault, match=r"kit\.json cannot be read"):
        read_kit(tmp_path)


WRONG_CANDIDATES: tuple[dict[str, Any], ...] = (
    {"toolSetDigest": ""}, {"policyDigest": "secret"}, {"hardeningDigest": "A" * 64}, {"bundleDigests": ["1" * 63]},
    {"bundleDigests": []}, {"appVersion": ""}, {"appVersion": "two words"}, {"summarySchemaVersion": "\n"},
    {"templateVersion": ""}, {"caps": {"fixedShare": 7.5}}, {"caps": {"fixedShare": 0}}, {"caps": {"policy": -1}},
)  # fmt: skip


@pytest.mark.parametrize("change", WRONG_CANDIDATES)
def test_a_candidate_that_binds_nothing_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """An empty digest is the same after every change, and a share above one is no cap (R190, X15)."""
    path = tmp_path / "candidate.json"
    tree = json.loads(dump_record(candidate()))
    path.write_text(json.dumps(tree))
    assert candidate() == read_candidate(path)
    path.write_text(json.dumps(tree | change))
    with pytest.raises(RefusalSignal, match=r"candidate\.json: \$\.") as told:
        read_candidate(path)
    assert "secret" not in told.value.detail


def test_a_script_that_would_not_play_its_summaries_is_refused(tmp_path: Path) -> None:
    """Scripts write turns into a ledger of their own: a summary beside them would be dropped without a word."""
    (tmp_path / "lifecycle").mkdir()
    held = next(one for one in samples() if one.request.summaries)
    one = replace(held, family="lifecycle", boundary=None, events=(Event("plan"),))
    (tmp_path / "lifecycle" / "one.json").write_bytes(dump_record(one))
    with pytest.raises(RefusalSignal, match=r"lifecycle/one\.json: \$\.request\.summaries"):
        list(read_samples(tmp_path))
