"""Every labelled answer gets its verdict: structural flaws refused, what no structure shows accepted (R93..R110)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from planner.values.check_summary import summary_problem
from planner.values.compaction import Accepted, Rejected
from tests.compaction.corpus_runs import case_of, rows, verdict

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


def test_the_table_of_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    """Print how many answers of each label and reason got which verdict."""
    counts = Counter((row["label"], row["reason"] or "-", name_of(row)) for row in (*STRUCTURAL, *SEMANTIC))
    counts.update(("honest", row["language"], name_of(row)) for row in HONEST)
    with capsys.disabled():
        print()
        for (label, reason, got), count in sorted(counts.items()):
            print(f"  {label:<11} {reason:<22} {got:<16} {count:>4}")
    assert len(rows("adversarial")) + len(HONEST) == sum(counts.values())
