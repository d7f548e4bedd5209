"""deer-flow #2638: the kept tail alone was over the trigger, so the old summary was summarised again each turn."""

from __future__ import annotations

from planner.ledger.ledger import Ledger
from planner.values.compaction import Unplanned
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, Previous
from tests.compactor.support import Script, compactor, fill, plan, request

OPTIONS = Options(tail_turns=2, compact_at=0.2)


def test_T09_a_summary_is_never_the_source_of_another(ledger: Ledger) -> None:
    """With all but the tail summarised nothing is proposed, no model is asked, and no advice is given."""
    fill(ledger, 8)
    compactor(ledger, tail_turns=2).run(Script())
    again, script = compactor(ledger, tail_turns=2), Script()
    for _ in range(3):
        found = again.propose()
        assert isinstance(found, Unplanned)
        assert "nothing_to_compact" == found.reason
        assert () == again.run(script)
    assert [] == script.asked
    answer = plan(ledger, request(2_200, options=OPTIONS))
    assert isinstance(answer, Plan)
    assert any(key.startswith("summary/") for key in answer.kept)
    assert answer.advice.compaction is None


def test_T09_the_advice_is_told_once(ledger: Ledger) -> None:
    """Above the threshold with turns to cover it is told, and not again while the caller says that it was."""
    fill(ledger, 8)
    first = plan(ledger, request(6_000, options=OPTIONS))
    assert isinstance(first, Plan)
    assert first.advice.compaction is not None
    told = Previous(advice_fired=first.advice.advice_fired)
    second = plan(ledger, request(6_000, options=OPTIONS, previous=told))
    assert isinstance(second, Plan)
    assert second.advice.compaction is None


def test_T09_what_still_does_not_fit_is_an_overflow(ledger: Ledger) -> None:
    """The named tail is larger than the window: a refusal, not another round of compaction."""
    fill(ledger, 8)
    compactor(ledger, tail_turns=2).run(Script())
    answer = plan(ledger, request(900, options=OPTIONS))
    assert isinstance(answer, Refusal)
    assert ("context_policy_overflow", "raw_history_overflow") == (answer.outcome, answer.reason)
