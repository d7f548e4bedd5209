"""Every labelled answer gets its verdict: structural flaws refused, what no structure shows accepted (R93..R110)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from planner.planner import Planner
from planner.values.check_summary import summary_problem
from planner.values.compaction import Accepted, Rejected
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, Options, PlanRequest, SectionBounds, Sections
from tests.compaction.corpus_runs import case_of, rows, verdict
from tests.support.toy import ToyBundle

STRUCTURAL = [row for row in rows("adversarial") if row["label"] == "structural"]
SEMANTIC = [row for row in rows("adversarial") if row["label"] == "semantic"]
HONEST = rows("honest")
# A case may be bad in two ways; these pairs are both true of theirs, and the second check comes first.
ALSO = {("constraint_unknown", "constraint_missing"), ("tool_result_copied", "literal_not_cited")}


def name_of(row: dict[str, Any]) -> str:
    """Return the verdict on a case by its code."""
    found = verdict(row)
    return "accept" if isinstance(found, Accepted) else found.reason


@pytest.mark.parametrize("row", STRUCTURAL, ids=lambda row: f"{row['case']}-{row['kind']}")
def test_a_structural_case_gets_its_verdict(row: dict[str, Any]) -> None:
    """The label decides; a refusal names the flaw that was meant, or one that is true as well."""
    found = verdict(row)
    assert row["verdict"] == name_of(row), getattr(found, "detail", "")
    if isinstance(found, Rejected):
        named = found.detail.partition(":")[0]
        assert named == row["reason"] or (row["reason"], named) in ALSO


@pytest.mark.parametrize("row", SEMANTIC, ids=lambda row: f"{row['case']}-{row['kind']}")
def test_a_semantic_case_is_accepted(row: dict[str, Any]) -> None:
    """Where ids and literals are in place a structural check must not pretend to see the meaning."""
    assert "accept" == name_of(row), getattr(verdict(row), "detail", "")


def test_at_least_95_of_100_honest_answers_are_accepted() -> None:
    """Faithful answers in varied wording pass, in each language."""
    for language in ("en", "zh", None):
        chosen = [row for row in HONEST if language in (None, row["language"])]
        refused = [(row["case"], getattr(verdict(row), "detail", "")) for row in chosen if name_of(row) != "accept"]
        assert len(refused) <= len(chosen) * 5 // 100, refused


def test_every_accepted_answer_makes_a_record_that_stands() -> None:
    """Accept and the recomputation of every plan agree on all of them."""
    for row in (*HONEST, *SEMANTIC):
        found, case = verdict(row), case_of(row["run"])
        if isinstance(found, Accepted):
            assert None is summary_problem(found.record, case.turns, case.frame)


def test_every_live_constraint_is_in_the_prompt_whatever_an_accepted_answer_says() -> None:
    """In a plan with an accepted answer every mark has its own raw turn or the application's wording."""
    planner = Planner(ToyBundle(context_tokens=200_000))
    seen = 0
    for row in (*HONEST, *SEMANTIC):
        found, case = verdict(row), case_of(row["run"])
        if not isinstance(found, Accepted):
            continue
        request = PlanRequest(
            planner.bundle_id, CurrentRequest(id="q", text="And now?"), conversation_id=case.frame.conversation_id,
            policy_version="policy-1", turns=case.turns, summaries=(found.record,), reserved_output_tokens=0,
            max_input_tokens=200_000, options=Options(sections=Sections(summary=SectionBounds(max=100_000))),
        )  # fmt: skip
        whole = planner.plan(request)
        assert isinstance(whole, Plan), whole
        answer = planner.plan(replace(request, max_input_tokens=len(whole.ids)))
        if not isinstance(answer, Plan):  # an open item holds its turns where the summary is longer than they are
            assert "raw_history_overflow" == answer.reason
            continue
        seen += f"summary/{found.record.id}" in answer.kept
        for mark in case.frame.constraints:
            raw = f"turn/{mark.turn_id}" in answer.kept
            assert raw or (mark.text or "") in (answer.prompt or "")
    assert seen > 70  # in the others the summary of a short run is longer than the run


def test_the_table_of_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    """Print how many answers of each label and reason got which verdict."""
    counts = Counter((row["label"], row["reason"] or "-", name_of(row)) for row in (*STRUCTURAL, *SEMANTIC))
    counts.update(("honest", row["language"], name_of(row)) for row in HONEST)
    with capsys.disabled():
        print()
        for (label, reason, got), count in sorted(counts.items()):
            print(f"  {label:<11} {reason:<22} {got:<16} {count:>4}")
    assert len(rows("adversarial")) + len(HONEST) == sum(counts.values())
