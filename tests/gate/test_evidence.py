"""What may sign for a candidate: receipts and evidence of this candidate, this bundle, really executed (R192..R196)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import cells_of, run_cell
from planner.gate.checks import check_answer
from planner.gate.earlier import with_earlier
from planner.gate.engine import Taken
from planner.gate.evidence import read_evidence
from planner.gate.receipts import check_receipts
from planner.gate.verdict import CLAIM, Tally
from planner.values.candidate import EVIDENCE_PARTS, Candidate, MatrixCell
from planner.values.gate import FAMILIES, CellResult, Expectation, Reason
from planner.values.observation import Observation
from planner.values.plan import Plan
from planner.values.policy_file import Caps
from planner.values.receipt import Receipt
from planner.wire.dump import dump_receipt, dump_record
from tests.gate.gate_support import asked, candidate, cell, planner, sample, subject


def receipt_of(one: Candidate) -> Receipt:
    """Return the receipt of a plan made for a candidate."""
    answer = planner().plan(asked(candidate_id=one.candidate_id, app_version=one.app_version))
    assert isinstance(answer, Plan)
    return answer.receipt


def written(folder: Path, receipt: Receipt, **fields: Any) -> Path:
    """Write a receipt with an observation that says what was planned, apart from `fields`."""
    planned = receipt.account.input_tokens if receipt.account else 0
    observation = Observation(**{
        "plan_id": receipt.plan_id, "verdict": "exact", "planned_tokens": planned, "reported_tokens": planned,
        "prompt_tokens": planned, "meaning": "whole_prompt", "model_bundle_id": receipt.model_bundle_id,
        "bundle_digest": receipt.bundle_digest, "candidate_id": receipt.candidate_id, "runtime": receipt.runtime,
        "runtime_version": receipt.runtime_version, "generation": receipt.generation,
        "conversation_id": receipt.conversation_id, **fields,
    })  # fmt: skip
    folder.mkdir(exist_ok=True)
    tree = {"receipt": json.loads(dump_receipt(receipt)), "observation": json.loads(dump_record(observation))}
    (folder / "device.json").write_text(json.dumps(tree))
    return folder


def codes(folder: Path, one: Candidate | None = None) -> list[str]:
    """Return the codes of what is wrong with a folder of receipts."""
    return [reason.code for reason in check_receipts(folder, one or candidate())[1]]


def test_a_receipt_that_was_executed_and_counted_as_planned_counts(tmp_path: Path) -> None:
    """One sound receipt."""
    assert (1, []) == check_receipts(written(tmp_path / "r", receipt_of(candidate())), candidate())


def test_gate_old_receipt_cannot_sign_new_bundle(tmp_path: Path) -> None:
    """A receipt whose bundle digest is not the candidate's is refused as evidence (R192)."""
    newer = candidate(bundle_digests=("1" * 64,))
    receipt = replace(receipt_of(candidate()), candidate_id=newer.candidate_id)
    assert ["receipt_of_other_bundle"] == codes(written(tmp_path / "r", receipt), newer)


def test_R192_old_receipt_cannot_sign_new_bundle(tmp_path: Path) -> None:
    """Also a cell refuses an answer that a planner of another bundle gave."""
    other = replace(receipt_of(candidate()), bundle_digest="1" * 64)
    assert "receipt_of_other_bundle" in codes(written(tmp_path / "r", other))
    request = asked(candidate_id=candidate().candidate_id, app_version="1.0")
    answer = planner().plan(request)
    answered = replace(answer, receipt=replace(answer.receipt, bundle_digest="1" * 64))
    for one, expected in ((answer, False), (answered, True)):
        found = check_answer(request, one, Expectation(), subject().bundle, candidate())
        assert expected == ("receipt_of_other_bundle" in [reason.code for reason in found])


def test_gate_verdict_same_candidate_only(tmp_path: Path) -> None:
    """A receipt of yesterday's candidate proves nothing about today's (R194)."""
    assert ["receipt_of_other_candidate"] == codes(
        written(tmp_path / "r", receipt_of(candidate())), candidate(app_version="1.1")
    )


def test_R194_verdict_tied_to_one_candidate() -> None:
    """The verdict names its candidate, and an answer made for another one blocks."""
    request = asked(candidate_id=candidate().candidate_id, app_version="1.0")
    answer = planner().plan(request)
    newer = candidate(app_version="1.1")
    found = check_answer(request, answer, Expectation(), subject().bundle, newer)
    assert ["receipt_of_other_candidate"] == [reason.code for reason in found]
    assert newer.candidate_id == Tally(newer, []).result().candidate_id


def test_gate_simulated_count_rejected_as_evidence(tmp_path: Path) -> None:
    """A simulated count is named as what it is (R210)."""
    assert ["receipt_simulated"] == codes(written(tmp_path / "r", receipt_of(candidate()), evidence="simulated"))


def test_R210_simulated_counts_labelled(tmp_path: Path) -> None:
    """What was simulated is no receipt of a device, and an upper bound is no count either."""
    assert ["receipt_simulated"] == codes(written(tmp_path / "s", receipt_of(candidate()), evidence="simulated"))
    bound = replace(receipt_of(candidate()), count_source="upper_bound")
    assert ["count_not_exact"] == codes(written(tmp_path / "r", bound))


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_runtime_that_counted_otherwise_blocks_in_either_direction(tmp_path: Path, shift: int) -> None:
    """One token less is a truncation, one more an undeclared wrapper (R41, X60)."""
    receipt = receipt_of(candidate())
    assert receipt.account is not None
    told = receipt.account.input_tokens + shift
    assert ["runtime_count_differs"] == codes(written(tmp_path / "r", receipt, prompt_tokens=told))
    assert ["runtime_count_differs"] == codes(written(tmp_path / "r", receipt, verdict="drift"))
    lowered = {"prompt_tokens": receipt.account.input_tokens - 1, "planned_tokens": receipt.account.input_tokens - 1}
    assert ["runtime_count_differs"] == codes(written(tmp_path / "r", receipt, **lowered))


def test_a_file_that_is_no_receipt_blocks(tmp_path: Path) -> None:
    """Half a receipt, an observation of another plan, and no JSON at all."""
    folder = written(tmp_path / "r", receipt_of(candidate()), plan_id="p-other")
    assert ["receipt_unreadable"] == codes(folder)
    for data in ("{}", "no", '{"receipt": {}, "observation": {}}'):
        (folder / "device.json").write_text(data)
        assert ["receipt_unreadable"] == codes(folder)


def test_gate_evidence_four_parts_listed(tmp_path: Path) -> None:
    """Each part is listed as present or as not evidenced."""
    parts, wrong = read_evidence(None, candidate(), 0)
    assert (list(EVIDENCE_PARTS), []) == ([part.name for part in parts], wrong)
    assert {"not evidenced"} == {part.detail for part in parts}


def test_R195_evidence_is_four_parts(tmp_path: Path) -> None:
    """A file of this candidate counts; failed cases, no cases and another candidate block."""
    one = {"candidateId": candidate().candidate_id, "cases": 40, "failed": 0, "schemaVersion": "1.0"}
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({}, None), ({"failed": 1}, "evidence_failed"), ({"cases": 0}, "evidence_failed"),
        ({"candidateId": "other"}, "receipt_of_other_candidate"), ({"extra": 1}, "receipt_unreadable"),
    ]  # fmt: skip
    for change, expected in cases:
        (tmp_path / "summary_test_set.json").write_text(json.dumps(one | change))
        parts, wrong = read_evidence(tmp_path, candidate(), 3)
        assert [expected] * (expected is not None) == [reason.code for reason in wrong]
        assert ["3 receipts, counts as planned"] == [part.detail for part in parts if part.name == "device_receipts"]
        assert (expected is None) == (parts[0].digest is not None)


def test_R196_structural_pass_proves_no_semantics() -> None:
    """Every verdict says what it does not prove (R178, R179)."""
    for words in ("Structure and token budget only", "neither", "obeys", "authorises nothing"):
        assert words in CLAIM
    assert CLAIM == Tally(candidate(), []).result().claim


def test_R178_planner_claims_structure_only() -> None:
    """No field of a plan or receipt speaks of obedience, quality or meaning."""
    names = {entry.name for kind in (Plan, Receipt) for entry in fields(kind)}
    assert not {name for name in names for word in ("obey", "safe", "quality", "approved") if word in name}


def test_R179_gateway_still_checks() -> None:
    """Nothing in a plan, receipt or plan file can be read as an authorisation of a tool call."""
    answer = planner().plan(asked())
    assert isinstance(answer, Plan)
    words = (dump_receipt(answer.receipt) + repr(answer.plan_file).encode()).lower()
    for word in (b"authori", b"approv", b"permit", b"grant", b"allowed"):
        assert word not in words


def test_gate_uncovered_items_listed() -> None:
    """What was not measured is listed, whatever the verdict (R209)."""
    row = MatrixCell("1.0", candidate().bundle_digests[0], "llama.cpp", "b1", "android 16", "arm64", "acme")
    rows = [row, replace(row, vendor="other", status="simulated"), replace(row, os="ios", status="measured")]
    assert ("acme", "other") == tuple(
        one.vendor for one in Tally(candidate(), []).result(matrix=rows).coverage.uncovered
    )


def test_R209_one_device_is_not_all() -> None:
    """One measured cell covers no other one."""
    row = MatrixCell(
        "1.0", candidate().bundle_digests[0], "llama.cpp", "b1", "android 16", "arm64", "acme", status="measured"
    )
    others = [
        replace(row, **{name: "other"}, status="uncovered") for name in ("os", "abi", "vendor", "runtime_version")
    ]
    assert tuple(others) == Tally(candidate(), []).result(matrix=[row, *others]).coverage.uncovered


def test_T19_a_target_without_a_verified_runtime_is_refused() -> None:
    """The matrix says where a bundle runs; a manifest that names another runtime, or none, has no window there."""
    digest = candidate().bundle_digests[0]
    row = MatrixCell("1.0", digest, "llama.cpp", "b1", "android 16", "arm64", "acme", status="measured")
    for named, expected in (({}, True), ({digest: "onnx-genai"}, True), ({digest: "llama.cpp"}, False)):
        reasons = Tally(candidate(), [("reference", digest)], named).result(matrix=[row]).reasons
        assert expected == (Reason("runtime_not_verified", "llama.cpp for reference") in reasons)


CHANGES: dict[str, Callable[[Candidate], Candidate]] = {
    "app": lambda one: replace(one, app_version="2.0"),
    "model": lambda one: replace(one, bundle_digests=("2" * 64,)),
    "template": lambda one: replace(one, template_version="2"),
    "tokenizer": lambda one: replace(one, bundle_digests=("3" * 64,)),
    "tool_set": lambda one: replace(one, tool_set_digest="2" * 64),
    "summary_schema": lambda one: replace(one, summary_schema_version="2.0"),
    "hardening_config": lambda one: replace(one, hardening_digest="2" * 64),
}


def demands_all_six(change: str) -> None:
    """Check that no result of the unchanged candidate stands for the changed one."""
    before, after = candidate(), CHANGES[change](candidate())
    samples = [sample(family, family=family) for family in FAMILIES]
    bundles = [("reference", before.bundle_digests[0])]
    earlier: dict[str, CellResult] = {}
    for one in cells_of(samples, bundles, ["4k"], before):
        result = run_cell(one, subject())
        earlier[result.digest] = result
    run: list[str] = []

    def running(cells: Any) -> Any:
        for one in cells:
            if isinstance(one, Taken):
                yield one
                continue
            run.append(one.sample.family)
            yield run_cell(one, subject())

    again = list(with_earlier(cells_of(samples, bundles, ["4k"], after), earlier, running))
    assert list(FAMILIES) == run
    assert not any(reused for _, reused in again)
    same = list(with_earlier(cells_of(samples, bundles, ["4k"], before), earlier, running))
    assert all(reused for _, reused in same)
    # A changed bundle is also missing, since the old one was run.
    expected = {"bundle_missing"} if change in ("model", "tokenizer") else set()
    if change == "template":
        expected = {"identity_differs"}  # the bundle still calls its template by the old version
    assert expected == {reason.code for reason in _verdict(after, again)}


def _verdict(one: Candidate, results: list[tuple[CellResult, bool]]) -> tuple[Reason, ...]:
    tally = Tally(one, [("reference", candidate().bundle_digests[0])])
    for result, _ in results:
        tally.add(result)
    return tally.result().reasons


def test_gate_rerun_on_app_change() -> None:
    """Another version of the app."""
    demands_all_six("app")


def test_gate_rerun_on_model_change() -> None:
    """Another model in a bundle."""
    demands_all_six("model")


def test_gate_rerun_on_template_change() -> None:
    """Another version of the template."""
    demands_all_six("template")


def test_gate_rerun_on_tokenizer_change() -> None:
    """Another tokenizer in a bundle."""
    demands_all_six("tokenizer")


def test_gate_rerun_on_tool_set_change() -> None:
    """Another set of tools."""
    demands_all_six("tool_set")


def test_gate_rerun_on_summary_schema_change() -> None:
    """Another schema of summaries."""
    demands_all_six("summary_schema")


def test_gate_rerun_on_hardening_config_change() -> None:
    """Another hardening configuration."""
    demands_all_six("hardening_config")


def test_R190_gate_change_list() -> None:
    """Every field of a candidate is in its id, caps too; the order of its bundles is not."""
    base = candidate()
    changed = [change(base) for change in CHANGES.values()]
    changed += [replace(base, policy_digest="2" * 64), replace(base, caps=Caps(policy=9))]
    assert len(changed) + 1 == len({base.candidate_id, *(one.candidate_id for one in changed)})
    two = candidate(bundle_digests=("1" * 64, "2" * 64))
    assert two.candidate_id == candidate(bundle_digests=("2" * 64, "1" * 64)).candidate_id


def test_a_cap_of_the_fixed_part_blocks() -> None:
    """Tokens of policy and tools, and their share of an approved tier (X15)."""
    tight = run_cell(cell(sample(request=asked(max_input_tokens=2000)), caps=Caps(policy=3)), subject())
    assert (Reason("policy_over_cap", "policy"),) == tight.reasons
    made = candidate(caps=Caps(fixed_share=0.0001))
    one = next(cells_of([sample()], [("reference", made.bundle_digests[0])], ["4k"], made))
    assert (Reason("fixed_share_over_cap", "policy"),) == run_cell(one, subject()).reasons
