"""Every code of the gate's table is raised by what it is about, alone or among others, and none is raised that is not
in the table."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.gate.cells import run_cell
from planner.gate.checks import check_answer
from planner.gate.codes import GATE_CODES
from planner.gate.verdict import Tally
from planner.values.gate import Expectation, Reason
from planner.values.passage import Citation, Claims, Passage, Source
from planner.values.plan import Plan
from planner.values.policy_file import Caps
from planner.values.receipt import SummaryUse
from planner.values.turn import MustPreserve
from tests.gate.gate_support import asked, candidate, cell, planner, sample, subject, turns
from tests.gate.test_shipped_samples import samples

Change = Callable[[Plan], Plan]


def marked() -> Any:
    """Return the request with a constraint on its first turn and a cancelled turn."""
    first, second, *rest = turns(6)
    made = (replace(first, must_preserve=(MustPreserve("C1", "Only floors above 4."),)), second, *rest)
    return asked(turns=(*made[:-1], replace(made[-1], state="cancelled")), candidate_id=candidate().candidate_id,
                 app_version="1.0")  # fmt: skip


def receipt(plan: Plan, **fields: Any) -> Plan:
    """Return a plan with fields of its receipt changed."""
    return replace(plan, receipt=replace(plan.receipt, **fields))


def both(plan: Plan, **fields: Any) -> Plan:
    """Return a plan with fields changed in it and in its receipt."""
    return replace(receipt(plan, **fields), **fields)


def account(plan: Plan, **fields: Any) -> Plan:
    """Return a plan with lines of its account changed."""
    return both(plan, account=replace(plan.account, **fields))


def used(covers: tuple[int, int]) -> tuple[SummaryUse, ...]:
    """Return the use of a summary that no request holds."""
    return (SummaryUse("s9", 1, covers, "used"),)


OF_AN_ANSWER: dict[str, Change] = {
    "immutable_missing": lambda plan: both(plan, kept=tuple(key for key in plan.kept if key != "policy/p1")),
    "immutable_removed": lambda plan: both(plan, removed=(replace_removal("policy/p1"),)),
    "constraint_lost": lambda plan: replace(plan, carriers=()),
    "constraint_unknown": lambda plan: replace(plan, carriers=(*plan.carriers, ("turn/t2", ("C9",)))),
    "over_limit": lambda plan: account(plan, reserved_output_tokens=plan.account.input_limit),
    "limit_raised": lambda plan: account(plan, input_limit=10**6),
    "account_differs": lambda plan: account(plan, history_tokens=0),
    "digest_differs": lambda plan: receipt(plan, final_input_digest="1" * 64),
    "parity_mismatch": lambda plan: replace(plan, ids=array("i", [*plan.ids[:-1], 0])),
    "structure_rejected": lambda plan: replace(plan, file_items=()),
    "turns_reordered": lambda plan: both(plan, kept=tuple(reversed(plan.kept))),
    "ended_turn_present": lambda plan: both(plan, kept=(*plan.kept, "turn/t6")),
    "turn_beside_its_summary": lambda plan: receipt(plan, summaries=used((10, 20))),
    "reduction_differs": lambda plan: both(plan, kept=tuple(key for key in plan.kept if key != "turn/t2")),
    "output_limit_differs": lambda plan: replace(plan, max_output_tokens=plan.max_output_tokens + 1),
    "file_differs": lambda plan: replace(plan, file_items=plan.file_items[:-1]),
    "plan_id_differs": lambda plan: receipt(plan, plan_id="p-" + "1" * 32),
    "request_differs": lambda plan: receipt(plan, generation=9),
    "kept_differs": lambda plan: receipt(plan, kept=plan.kept[:-1]),
    "removed_differs": lambda plan: receipt(plan, removed=(replace_removal("turn/t6"), replace_removal("turn/t1"))),
    "summary_fate_differs": lambda plan: receipt(plan, summaries=used((10, 20))),
    "summary_versions_differ": lambda plan: receipt(plan, summary_versions=("s9@1",)),
    "count_not_exact": lambda plan: receipt(plan, count_source="upper_bound"),
    "receipt_of_other_bundle": lambda plan: receipt(plan, template_digest="1" * 64),
    "receipt_of_other_candidate": lambda plan: receipt(plan, app_version="0.9"),
    "fresh_over_cap": lambda plan: receipt(plan, fresh_tokens=1001),
}  # fmt: skip


def replace_removal(name: str) -> Any:
    """Return a removal of this id."""
    from planner.values.receipt import Removal

    return Removal(name, "over_budget")


@pytest.mark.parametrize("code", OF_AN_ANSWER)
def test_each_code_of_an_answer_is_raised_by_its_mutant(code: str) -> None:
    """The untouched answer gives none."""
    made = candidate(caps=Caps(fresh=1000))
    request = replace(marked(), candidate_id=made.candidate_id)
    plan = planner().plan(request)
    assert isinstance(plan, Plan)
    bundle = subject().bundle
    assert [] == check_answer(request, plan, Expectation(), bundle, made)
    found = check_answer(request, OF_AN_ANSWER[code](plan), Expectation(), bundle, made)
    assert code in {reason.code for reason in found}
    assert {reason.code for reason in found} <= GATE_CODES.keys()


def test_a_passage_or_turn_whose_source_may_not_be_used_is_named() -> None:
    """Whether the sample thought of it or not: permission comes before value (R159, X39)."""
    first, *rest = turns(3)
    citing = replace(first, messages=(first.messages[0], replace(first.messages[1], citation_ids=("file",))))
    claims = Claims("acme", ("norms",), ("press",))
    passage = Passage("p1", "Lift 4 is out of order.", tenant="acme", dataset="norms", source=Source("press"))
    request = asked(
        turns=(citing, *rest), claims=claims, passages=(passage,), candidate_id=candidate().candidate_id,
        citations=(Citation("file", "acme", "norms", Source("press")),), app_version="1.0",
    )  # fmt: skip
    plan = planner().plan(request)
    assert isinstance(plan, Plan)
    assert {"turn/t1", "passage/p1"} <= set(plan.kept)
    bundle, made = subject().bundle, candidate()
    assert [] == check_answer(request, plan, Expectation(), bundle, made)
    narrow = replace(request, claims=replace(claims, sources=("wiki",)))
    found = check_answer(narrow, plan, Expectation(), bundle, made)
    assert {"turn/t1", "passage/p1"} == {one.id for one in found if one.code == "citation_not_permitted"}


def test_a_run_of_nothing_and_a_sample_that_never_fits_block() -> None:
    """An empty folder of samples is no pass, and a boundary that cannot be set is no boundary."""
    made = candidate()
    assert (Reason("nothing_run"),) == Tally(made, [("reference", made.bundle_digests[0])]).result().reasons
    wide = sample(request=asked(turns=turns(2500)), boundary="exact")
    assert (Reason("sample_too_large", "s1"),) == run_cell(cell(wide), subject()).reasons


def test_a_constraint_that_lives_on_is_named_as_withdrawn() -> None:
    """The sample says which constraints are in force; one more is one that should be gone."""
    request = marked()
    plan = planner().plan(request)
    found = check_answer(request, plan, Expectation(constraints=()), subject().bundle, candidate())
    assert [Reason("constraint_withdrawn", "C1")] == found


def test_a_summary_used_although_its_source_changed_is_named() -> None:
    """In every shipped sample whose summary is stale."""
    stale = [one for one in samples() if "stale-source" in one.expect.summaries.values()]
    assert len(stale) > 3
    for one in stale:
        request = replace(one.request, candidate_id=candidate().candidate_id, app_version="1.0", max_input_tokens=4000)
        plan = planner().plan(request)
        assert isinstance(plan, Plan)
        lied = receipt(plan, summaries=tuple(replace(use, fate="used") for use in plan.receipt.summaries))
        found = check_answer(request, lied, one.expect, subject().bundle, candidate())
        assert "stale_summary_used" in {reason.code for reason in found}, one.id


ELSEWHERE = {
    "test_cells": {"outcome_differs", "expected_missing", "unwanted_present", "lifecycle_broken", "family_missing"},
    "test_evidence": {
        "policy_over_cap", "fixed_share_over_cap", "receipt_simulated", "runtime_count_differs", "evidence_failed",
        "receipt_unreadable", "runtime_not_verified",
    },
    "test_gate_run": {"bundle_missing"}, "test_identity": {"identity_differs"},
    "test_budget": {"growth_over_cap"}, "test_forged": {"bundle_unusable"},
    "here": {"constraint_withdrawn", "sample_too_large", "nothing_run", "stale_summary_used",
             "citation_not_permitted"},
}  # fmt: skip


def test_the_page_repeats_the_table() -> None:
    """Row by row and in its order; what it lacks is printed."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")
    rows = [f"| `{row.name}` | {row.where} | {row.meaning} | {row.remedy} |" for row in GATE_CODES.values()]
    there = [line for line in page.splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    assert rows == there, "\n".join(rows)


def test_no_code_is_without_a_test_that_raises_it() -> None:
    """A new row of the table comes with what raises it."""
    assert GATE_CODES.keys() == OF_AN_ANSWER.keys() | set().union(*ELSEWHERE.values())
    for name, codes in ELSEWHERE.items():
        text = "" if name == "here" else (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        assert not text or [code for code in codes if code not in text] == []
