"""What somebody who wants a pass would hand in: receipts, results and bundles that are not what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import run_cell
from planner.gate.checks import check_answer
from planner.gate.earlier import Earlier, result_line, with_earlier
from planner.gate.engine import run_here
from planner.gate.reading import read_matrix
from planner.gate.receipts import check_receipts
from planner.gate.verdict import Tally
from planner.values.candidate import MatrixCell
from planner.values.gate import FAMILIES, CellResult, Expectation, Reason
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.wire.dump import dump_record
from tests.gate.gate_support import asked, candidate, cell, planner, sample, subject
from tests.gate.test_evidence import receipt_of, written


@pytest.mark.parametrize("limit", [2000, 70])
def test_a_receipt_without_a_request_digest_is_compared_all_the_same(limit: int) -> None:
    """Only the refusal of a request that broke a rule has none; an answer does not escape its checks by lacking it."""
    made = candidate()
    request = asked(candidate_id=made.candidate_id, app_version="1.0", max_input_tokens=limit)
    answer = planner().plan(request)
    demand = Expectation(("accepted",) if isinstance(answer, Plan) else ("context_policy_overflow",))
    bundle = subject().bundle
    assert [] == check_answer(request, answer, demand, bundle, made)
    bare = replace(answer.receipt, request_digest=None, bundle_digest="1" * 64, policy_version="other")
    codes = {one.code for one in check_answer(request, replace(answer, receipt=bare), demand, bundle, made)}
    assert {"receipt_of_other_bundle", "plan_id_differs", "request_differs"} <= codes


def test_the_refusal_of_a_broken_request_needs_no_request_digest() -> None:
    """Such a request has no digest, and a sample may demand that it is refused."""
    twice = (*asked().turns, asked().turns[0])
    made = candidate()
    request = asked(candidate_id=made.candidate_id, app_version="1.0", turns=twice)
    answer = planner().plan(request)
    assert isinstance(answer, Refusal)
    assert [] == check_answer(request, answer, Expectation(("invalid-input",)), subject().bundle, made)


def test_a_blocked_cell_blocks_whether_it_says_why_or_not() -> None:
    """The verdict counts blocked cells, not their reasons."""
    wrong = run_cell(cell(sample(expect=Expectation(kept=("turn/t9",)))), subject())
    tally = Tally(candidate(), [("reference", candidate().bundle_digests[0])])
    for family in FAMILIES:
        tally.add(replace(wrong, family=family, reasons=()))
    result = tally.result()
    assert ("block", 6) == (result.verdict, result.blocked)
    assert Reason("outcome_differs", "s1 on reference: ") in result.reasons


def earlier_of(result: CellResult, to: Path, words: dict[str, str] | None = None) -> CellResult | None:
    """Write a result with the words of a line changed, and read the file back."""
    line = result_line(result)
    for before, after in (words or {}).items():
        assert before.encode() in line
        line = line.replace(before.encode(), after.encode())
    to.write_bytes(line)
    with Earlier(to) as earlier:
        return earlier.get(result.digest)


EDITS = {
    "the verdict and its reasons": {
        '"verdict":"block"': '"verdict":"pass"', '"reasons":[{"code":"expected_missing","id":"turn/t9"}],': "",
    },
    "the outcome": {'"outcome":"accepted"': '"outcome":"acceptes"'},
    "a number": {'"inputLimit":': '"inputLimit":1'},
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_line_of_an_earlier_run_is_run_again(name: str, tmp_path: Path) -> None:
    """The digest of a cell says what was run, not what came of it: a line that was edited is taken for none."""
    one = cell(sample(expect=Expectation(kept=("turn/t9",))))
    result = run_cell(one, subject())
    assert result == earlier_of(result, tmp_path / "old.jsonl")
    assert earlier_of(result, tmp_path / "old.jsonl", words=EDITS[name]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"family": "lifecycle"}, {"bundle_id": "other"}, {"bundle_digest": "1" * 64}, {"tier": "8k"},
        {"sample_id": "s2"}, {"reasons": (Reason("outcome_differs", "x"),)}, {"verdict": "block"},
        {"verdict": "block", "reasons": (Reason("no_code", "x"),)},
    ],
)  # fmt: skip
def test_a_result_of_another_cell_is_not_reused_under_its_digest(change: dict[str, Any]) -> None:
    """Family, bundle, tier and sample are the cell's, and a verdict goes with its reasons, or the cell runs again."""
    one = cell(sample())
    result = run_cell(one, subject())
    forged = replace(result, **change)
    run = partial(run_here, opener=lambda: lambda again: run_cell(again, subject()))
    assert [(result, True)] == list(with_earlier([one], {one.digest: result}, run))
    assert [(result, False)] == list(with_earlier([one], {one.digest: forged}, run))


def test_two_lines_of_a_cell_that_contradict_each_other_are_none(tmp_path: Path) -> None:
    """Nobody can tell which of them was true; two equal ones are one."""
    result = run_cell(cell(sample()), subject())
    other = replace(result, outcome="invalid-input", verdict="block", reasons=(Reason("outcome_differs", "x"),))
    path = tmp_path / "old.jsonl"
    for lines, expected in (((result, result), result), ((result, other), None), ((other, result, other), None)):
        path.write_bytes(b"".join(map(result_line, lines)))
        with Earlier(path) as earlier:
            assert expected == earlier.get(result.digest)


def test_a_cell_is_not_run_on_another_bundle_than_it_names() -> None:
    """Files that changed under a run, or a worker that opened others, block the cell."""
    one = replace(cell(sample()), bundle_digest="1" * 64)
    assert (Reason("bundle_unusable", "bundle_mismatch"),) == run_cell(one, subject()).reasons


def test_a_receipt_handed_in_twice_is_one(tmp_path: Path) -> None:
    """Also under another name and with other spaces; two calls are two."""
    folder = written(tmp_path / "r", receipt_of(candidate()))
    tree = json.loads((folder / "device.json").read_text())
    (folder / "again.json").write_text(json.dumps(tree, indent=3))
    assert (1, []) == check_receipts(folder, candidate())
    written(folder, replace(receipt_of(candidate()), final_input_digest="1" * 64))
    assert (2, []) == check_receipts(folder, candidate())


WRONG_RECEIPTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an old bundle's under the new digest": (
        {"request_digest": "1" * 64}, {}, "plan_id_differs"),
    "of another version of the app": ({"app_version": "0.9"}, {}, "receipt_of_other_candidate"),
    "of a refusal": (
        {"outcome": "context_policy_overflow", "reason": "context_policy_overflow", "final_input_digest": None}, {},
        "receipt_unreadable"),
    "without a digest of its input": ({"final_input_digest": None}, {}, "receipt_unreadable"),
    "with another model in the observation": ({}, {"model_bundle_id": "other"}, "receipt_unreadable"),
    "with another runtime in the observation": ({}, {"runtime_version": "b9"}, "receipt_unreadable"),
    "with another generation in the observation": ({}, {"generation": 7}, "receipt_unreadable"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_RECEIPTS)
def test_a_device_receipt_that_contradicts_itself_proves_nothing(name: str, tmp_path: Path) -> None:
    """An edited header no longer gives the plan's id, and only an accepted call can have been executed (R192, R194)."""
    of_receipt, of_observation, code = WRONG_RECEIPTS[name]
    receipt = replace(receipt_of(candidate()), **of_receipt)
    sound, wrong = check_receipts(written(tmp_path / "r", receipt, **of_observation), candidate())
    assert (0, [Reason(code, "device.json")]) == (sound, wrong)


def test_an_old_receipt_does_not_sign_under_the_new_bundles_digest(tmp_path: Path) -> None:
    """The plan's id was made of the digest that stood there (R192)."""
    newer = candidate(bundle_digests=("1" * 64,))
    forged = replace(receipt_of(candidate()), bundle_digest="1" * 64, candidate_id=newer.candidate_id)
    assert (0, [Reason("plan_id_differs", "device.json")]) == check_receipts(written(tmp_path / "r", forged), newer)


def test_a_measured_target_of_another_version_or_of_a_tier_that_was_not_run_is_uncovered() -> None:
    """The receipts are of this version of the app, and nothing was planned within a tier that was left out (X59)."""
    digest = candidate().bundle_digests[0]
    row = MatrixCell("1.0", digest, "llama.cpp", "b1", "android 16", "arm64", "acme", ("4k",), "measured")
    others = (replace(row, app_version="0.9"), replace(row, limits=("4k", "8k")), replace(row, bundle_digest="1" * 64))
    tally = Tally(candidate(), [("reference", digest)], {digest: "llama.cpp"})
    tally.add(run_cell(replace(cell(sample()), tier="4k"), subject()))
    result = tally.result(matrix=(row, *others))
    assert tuple(replace(one, status="uncovered") for one in others) == result.coverage.uncovered


def test_a_matrix_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The file and the number of the row, no value of it."""
    path = tmp_path / "matrix.json"
    row = json.loads(dump_record(MatrixCell("1.0", "1" * 64, "llama.cpp", "b1", "android 16", "arm64", "acme")))
    for tree, place in (
        ({}, r"matrix\.json: "),
        ([row, {"os": "secret"}], r"matrix\.json: \$\[1\]"),
        ([7], r"\$\[0\]"),
    ):
        path.write_text(json.dumps(tree))
        with pytest.raises(RefusalSignal, match=place) as told:
            read_matrix(path)
        assert "secret" not in told.value.detail
    path.write_text('[{"os": 1, "os": 2}]')
    with pytest.raises(RefusalSignal, match=r"matrix\.json: "):
        read_matrix(path)
