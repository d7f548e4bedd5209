"""A candidate states versions and digests; what a bundle, a sample or a device states of the same must be that."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import cells_of, run_cell
from planner.gate.identity import IDENTITY
from planner.gate.reading import read_candidate, read_samples
from planner.gate.receipts import check_receipts
from planner.gate.verdict import Tally
from planner.values.gate import Event, Reason, Sample, WrittenFor
from planner.values.reasons import RefusalSignal
from planner.wire.dump import dump_record
from tests.cli.support import ROOT
from tests.cli.support import planner as command
from tests.gate.gate_support import ZERO, asked, candidate, cell, sample, subject
from tests.gate.test_evidence import receipt_of, written

OTHER = {"template_version": "7", "tool_set_digest": "7" * 64, "summary_schema_version": "7",
         "hardening_digest": "7" * 64, "policy_digest": "7" * 64}  # fmt: skip
SAME = {"template_version": "1", "tool_set_digest": ZERO, "summary_schema_version": "1.0", "hardening_digest": ZERO,
        "policy_digest": ZERO}  # fmt: skip


def named(name: str) -> str:
    """Return the name of a field as files spell it."""
    return IDENTITY[[entry.name for entry in fields(WrittenFor)].index(name)]


def test_R194_verdict_tied_to_one_candidate_and_what_its_bundles_state() -> None:
    """The label of a template is in no digest of a bundle: only the comparison sees another one."""
    assert () == run_cell(cell(sample()), subject()).reasons
    wrong = run_cell(cell(sample(), template_version="2"), subject())
    assert ("block", (Reason("identity_differs", "templateVersion"),)) == (wrong.verdict, wrong.reasons)
    several = run_cell(cell(sample(), template_version="2,1"), subject())
    assert ("pass", ("templateVersion",)) == (several.verdict, several.compared)


@pytest.mark.parametrize("name", OTHER)
def test_each_field_that_a_sample_states_is_compared(name: str) -> None:
    """Equal passes, another one blocks and is named; what the sample does not say is compared with nothing."""
    same = run_cell(cell(sample(written_for=WrittenFor(**{name: SAME[name]}))), subject())
    assert ("pass", {"templateVersion", named(name)}) == (same.verdict, set(same.compared))
    other = run_cell(cell(sample(written_for=WrittenFor(**{name: OTHER[name]}))), subject())
    assert ("block", (Reason("identity_differs", named(name)),)) == (other.verdict, other.reasons)


def test_an_answer_of_any_kind_is_compared() -> None:
    """A refusal, a script, and a sample that does not fit: the candidate is the wrong one in each."""
    told = WrittenFor(policy_digest="7" * 64)
    kinds: list[Sample] = [
        sample(request=asked(max_input_tokens=100)), sample(events=(Event("plan"),), family="lifecycle"),
        sample(boundary="half"),
    ]  # fmt: skip
    for one in kinds:
        found = run_cell(cell(replace(one, written_for=told)), subject())
        assert Reason("identity_differs", "policyDigest") == found.reasons[0]


def test_a_side_that_says_nothing_is_compared_in_no_cell_and_the_verdict_says_so() -> None:
    """A bundle without a label, four samples of which one states a digest."""
    bare = subject()
    manifest = replace(bare.bundle.manifest, template_version=None)

    class Bare:
        """The same bundle without the label."""

        def __getattr__(self, name: str) -> Any:
            return getattr(bare.bundle, name)

    unlabelled: Any = Bare()
    unlabelled.manifest = manifest
    made = candidate(template_version="9")
    tally = Tally(made, [("reference", made.bundle_digests[0])])
    for number in range(4):
        one = sample(f"s{number}", written_for=WrittenFor(tool_set_digest=ZERO if number == 2 else None))
        for each in cells_of([one], [("reference", made.bundle_digests[0])], [], made):
            tally.add(run_cell(each, replace(bare, bundle=unlabelled)))
    assert dict.fromkeys(IDENTITY, 0) | {"toolSetDigest": 1} == tally.result().compared
    assert "identity_differs" not in {reason.code for reason in tally.result().reasons}


def test_a_device_receipt_with_another_label_is_no_evidence(tmp_path: Path) -> None:
    """The app on the device had another template than the release names."""
    made = candidate(template_version="2")
    receipt = receipt_of(made)
    assert (0, [Reason("identity_differs", "device.json")]) == check_receipts(written(tmp_path / "r", receipt), made)
    silent = replace(receipt, template_version=None)
    assert (1, []) == check_receipts(written(tmp_path / "s", silent), made)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A second bundle whose template is called 2, and a release of both."""
    shutil.copytree(ROOT / "model_bundles" / "reference", tmp_path / "second")
    manifest = json.loads((tmp_path / "second" / "bundle.json").read_bytes())
    manifest["id"], manifest["template"]["version"] = "second", "2"
    (tmp_path / "second" / "bundle.json").write_text(json.dumps(manifest), encoding="utf-8")
    done = command("gate", "init", tmp_path / "release", "--app-version", "1", "--bundles", bundles(tmp_path))
    assert 0 == done.code, done.err
    return tmp_path


def bundles(folder: Path) -> str:
    """Name both bundles."""
    return f"reference,{folder / 'second'}"


def run(folder: Path, *more: str) -> Any:
    """Run the gate over the release."""
    return command(
        "gate", "run", "--candidate", folder / "release" / "candidate.json", "--samples", folder / "release/samples",
        "--bundles", bundles(folder), "--tiers", "4k", *more,
    )  # fmt: skip


def test_a_release_of_bundles_with_two_labels_names_both(release: Path) -> None:
    """The command takes them from the bundles; with one of them alone the other bundle's cells block."""
    path = release / "release" / "candidate.json"
    tree = json.loads(path.read_bytes())
    assert "1,2" == tree["templateVersion"]
    passed = run(release)
    assert 0 == passed.code, passed.text
    assert "templateVersion  compared with bundle or sample in 12 of 12 cells" in passed.text
    silent = "toolSetDigest, summarySchemaVersion, hardeningDigest, policyDigest"
    assert f"not compared  {silent}: no bundle and no sample states it" in passed.text
    path.write_text(json.dumps(tree | {"templateVersion": "1"}))
    blocked = run(release, "--json", "--report", str(release / "gate.html"))
    assert (2, 6) == (blocked.code, blocked.json["blocked"])
    assert {"identity_differs"} == {reason["code"] for reason in blocked.json["reasons"]}
    assert all("on second: templateVersion" in reason["id"] for reason in blocked.json["reasons"])
    assert 12 == blocked.json["compared"]["templateVersion"]
    assert 'policyDigest</td><td class="n">0 of 12' in (release / "gate.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [("policyDigest", "secret"), ("toolSetDigest", "A" * 64), ("templateVersion", "two words"), ("more", "1")],
)
def test_what_a_sample_states_is_a_digest_or_a_version(tmp_path: Path, name: str, value: str) -> None:
    """The path is named, no value of it."""
    tree = json.loads(dump_record(sample())) | {"writtenFor": {name: value}}
    (tmp_path / "over_budget").mkdir()
    (tmp_path / "over_budget" / "one.json").write_text(json.dumps(tree))
    with pytest.raises(RefusalSignal, match=r"over_budget/one\.json: \$\.(writtenFor|\*: has an unknown)") as told:
        list(read_samples(tmp_path))
    assert ("invalid-input", True) == (told.value.reason, "secret" not in told.value.detail)


@pytest.mark.parametrize("versions", ["1,", ",1", "1,,2", "1, 2"])
def test_a_list_of_versions_has_no_gaps(tmp_path: Path, versions: str) -> None:
    """An empty name would be the label of a bundle that has none."""
    path = tmp_path / "candidate.json"
    path.write_bytes(dump_record(candidate(template_version=versions)))
    with pytest.raises(RefusalSignal, match=r"candidate\.json: \$\.templateVersion"):
        read_candidate(path)
    path.write_bytes(dump_record(candidate(template_version="1,2.1.0+build7")))
    assert ("1", "2.1.0+build7") == read_candidate(path).template_versions
