"""An outside judge, the compaction-conformance-kit, finds in our summaries what it planted in its sessions."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

pytest.importorskip("compaction_kit", reason="the extra `conformance` is not installed")

from compaction_kit.compactors import ChecklistCompactor, PinnedRulesCompactor
from compaction_kit.corpus import build_random_session
from compaction_kit.session import Turn
from compaction_kit.testing import assert_budget_compliant, assert_no_flags, check_compactor

from benchmarks.conformance import compactor
from benchmarks.conformance.compactor import PlannerCompactor
from benchmarks.conformance.extractor import answer
from benchmarks.conformance.figures import BUDGETS, KEPT_WHOLE, OVERALL_BAR, missed, tally

# The kit's own fixtures (compactor, seeded_session, compaction_report) are not used: they exist only where it is
# installed, and one of them must then be overridden for a whole folder.
SEEDS = range(1, 9 if os.environ.get("PLANNER_FULL") == "1" else 3)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_bars_hold_after_five_rounds(budget: float) -> None:
    """Every safety rule and constraint is there, enough of the rest, nothing stale, no round over its budget."""
    made: list[PlannerCompactor] = []

    def ours() -> PlannerCompactor:
        made.append(PlannerCompactor())
        return made[-1]

    found = tally("random", ours, budget, SEEDS)
    assert [] == missed(found, budget)
    assert dict.fromkeys(KEPT_WHOLE, 1.0) == {kind: found.share(kind) for kind in KEPT_WHOLE}
    assert OVERALL_BAR[budget] <= found.overall
    assert (0, 2 * len(SEEDS)) == (found.stale, found.updated)
    assert [(0, 0)] * len(SEEDS) == [(one.unmarked, one.refused.total()) for one in made]


@pytest.mark.parametrize("budget", BUDGETS[:2])
def test_the_bars_can_be_missed(budget: float) -> None:
    """Two compactors of the kit miss them: one loses what is no rule, the other keeps old values."""
    assert missed(tally("random", PinnedRulesCompactor, budget, SEEDS), budget)
    assert "stale values kept" in " ".join(missed(tally("random", ChecklistCompactor, budget, SEEDS), budget))


def test_the_kit_flags_nothing() -> None:
    """Without a budget its own verdict over its seeded session is clean, and 20 % is kept in every round."""
    report = check_compactor(PlannerCompactor(), budget_fraction=0.20)
    assert_no_flags(report)
    assert_budget_compliant(report)


@pytest.mark.parametrize("budget_chars", [0, 10, 60, 200, 400])
def test_no_budget_is_ever_exceeded(budget_chars: int) -> None:
    """Where rules do not fit they are left out one by one, and where nothing fits the text is empty."""
    said = [f"SAFETY RULE: Never open valve {number} of the boiler." for number in range(10)]
    turns = [Turn("user", text) for text in (*said, "GOAL STATE: The task is the boiler.")]
    assert len(PlannerCompactor().compact(turns, budget_chars=budget_chars).text) <= budget_chars


def test_the_newest_value_replaces_the_older_ones() -> None:
    """A sentence that differs by its value alone is superseded, as a rule and as a fact; another subject is not."""
    said = "HARD CONSTRAINT: The cap is ${0}.\nFACT: The door code is {0}-x.\nFACT: The {1} key is with Ana."
    turns = [Turn("user", said.format(cap, name)) for cap, name in ((100, "front"), (250, "back"), (300, "front"))]
    turns.append(Turn("user", "GOAL STATE: The task is to move in."))
    text = PlannerCompactor().compact(turns).text
    assert [1, 1, 1, 1] == [text.count(words) for words in ("$300", "300-x", "front key", "back key")]
    assert [] == [old for old in ("100", "250") if old in text]
    again = PlannerCompactor().compact([Turn("system", text)], round_num=2).text
    assert text == again


def altered(change: Any) -> Any:
    """Return the extractor's way to write an answer, with a change made to what it wrote."""

    def write(*given: Any) -> str:
        fields = json.loads(answer(*given))
        change(fields)
        return json.dumps(fields)

    return write


def test_the_planners_gate_is_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value nobody said is refused with its entry alone; an answer without a constraint is refused as a whole."""
    session, _ = build_random_session(1)

    def other_value(fields: dict[str, Any]) -> None:
        for entry in fields["evidence"]:
            entry["text"] = entry["text"].replace("Postgres 15", "Postgres 51")

    monkeypatch.setattr(compactor, "answer", altered(other_value))
    wrong = PlannerCompactor()
    text = wrong.compact(session.transcript()).text
    assert (False, False) == ("Postgres" in text, "literal_not_cited" not in str(wrong.refused))
    assert "Must hold: Only Python 3.11." in text
    monkeypatch.setattr(compactor, "answer", altered(lambda fields: fields["constraints"].clear()))
    with pytest.raises(ValueError, match="takes no answer"):
        PlannerCompactor().compact(session.transcript())


def test_what_is_planted_is_not_read_from_the_marks() -> None:
    """The kit's transcript names its canaries; our text is the same without these names."""
    words = [("user", "FACT: The host is h1."), ("assistant", "Noted."), ("user", "GOAL STATE: The task is to move.")]
    marked = [Turn(role, text, canary_id="planted") for role, text in words]
    plain = [Turn(role, text) for role, text in words]
    assert PlannerCompactor().compact(plain).text == PlannerCompactor().compact(marked).text
