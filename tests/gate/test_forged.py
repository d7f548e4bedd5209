"""What somebody who wants a pass would hand in: receipts, results and bundles that are not what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.gate.cells import run_cell
from planner.gate.checks import check_answer
from planner.gate.verdict import Tally
from planner.values.gate import FAMILIES, Expectation, Reason
from planner.values.plan import Plan, Refusal
from tests.gate.gate_support import asked, candidate, cell, planner, sample, subject


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
