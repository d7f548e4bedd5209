"""`planner gate run` as a CI job calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.values.gate import FAMILIES, Event
from planner.wire.dump import dump_record
from tests.cli.support import planner as command
from tests.gate.gate_support import asked, candidate, sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A candidate and one sample of each family."""
    (tmp_path / "candidate.json").write_bytes(dump_record(candidate()))
    for family in FAMILIES:
        events = (Event("plan"), Event("kill"), Event("plan")) if family == "lifecycle" else ()
        one = sample(family, family=family, events=events)
        (tmp_path / "samples" / family).mkdir(parents=True)
        (tmp_path / "samples" / family / "one.json").write_bytes(dump_record(one))
    return tmp_path


def run(folder: Path, *more: str) -> Any:
    """Run the gate over the folder."""
    return command(
        "gate", "run", "--candidate", folder / "candidate.json", "--samples", folder / "samples", "--bundles",
        "reference", "--tiers", "4k", *more,
    )  # fmt: skip


def test_a_sound_candidate_passes_and_says_what_a_pass_is(folder: Path) -> None:
    """Exit 0, every family counted, and the limits of the claim (R178, R196)."""
    done = run(folder, "--json")
    assert 0 == done.code, done.err
    assert ("pass", 6, 0, 0) == tuple(done.json[name] for name in ("verdict", "cells", "blocked", "reused"))
    assert dict.fromkeys(FAMILIES, 1) == done.json["coverage"]["families"]
    assert "authorises nothing" in done.json["claim"]


def test_processes_give_the_same_bytes(folder: Path) -> None:
    """Two processes and one write the same results and print the same verdict."""
    here = run(folder, "--json", "--results", str(folder / "one.jsonl"))
    there = run(folder, "--json", "--jobs", "2", "--results", str(folder / "two.jsonl"))
    assert (0, here.out) == (there.code, there.out)
    assert (folder / "one.jsonl").read_bytes() == (folder / "two.jsonl").read_bytes()


def test_unchanged_cells_are_taken_from_before(folder: Path) -> None:
    """One sample changed: the others are reused, and the results are those of a run without."""
    run(folder, "--results", str(folder / "old.jsonl"))
    changed = sample("over_budget", request=asked(reserved_output_tokens=80))
    (folder / "samples" / "over_budget" / "one.json").write_bytes(dump_record(changed))
    done = run(folder, "--json", "--earlier", str(folder / "old.jsonl"), "--results", str(folder / "new.jsonl"))
    assert (0, 6, 5) == (done.code, done.json["cells"], done.json["reused"])
    run(folder, "--results", str(folder / "afresh.jsonl"))
    assert (folder / "afresh.jsonl").read_bytes() == (folder / "new.jsonl").read_bytes()


def test_what_blocks_is_one_line_and_exit_2(folder: Path) -> None:
    """A family without samples, and a candidate that ships another bundle."""
    (folder / "samples" / "lifecycle" / "one.json").unlink()
    done = run(folder)
    assert (2, "context plan rejected: release_blocked: family_missing: lifecycle on reference\n") == (
        done.code, done.err,
    )  # fmt: skip
    (folder / "candidate.json").write_bytes(dump_record(candidate(bundle_digests=("1" * 64,))))
    codes = {reason["code"] for reason in run(folder, "--json").json["reasons"]}
    assert {"bundle_missing", "family_missing"} == codes


def test_a_file_that_is_no_sample_is_named(folder: Path) -> None:
    """The file and the JSON path, no value of it."""
    (folder / "samples" / "lifecycle" / "odd.json").write_text(json.dumps({"id": "secret words", "family": "secret"}))
    done = run(folder)
    assert 2 == done.code
    assert done.err.startswith("context plan rejected: invalid-input: lifecycle/odd.json: $")
    assert "secret" not in done.err
