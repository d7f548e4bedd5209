"""LangChain #38867: the summary call failed, history was deleted, and the error text became the summary."""

from __future__ import annotations

import pytest

from planner.ledger.ledger import Ledger
from planner.values.compaction import Rejected
from tests.compactor.support import CHAT, Script, compactor, fill, kept_summaries, kept_turns, plan, request

FAILURES = ("", "Error: 500 upstream", "I cannot help with that.", "{}", '{"goal": ""}', "null", "[]", "{")


@pytest.mark.parametrize("failure", FAILURES)
def test_T06_a_failed_summary_changes_nothing(ledger: Ledger, failure: str) -> None:
    """An error, an empty answer or no answer is rejected; sources and the earlier summary stand, plans are raw."""
    fill(ledger, 8)
    (first,) = compactor(ledger).run(Script())
    fill(ledger, 6, start=8)
    turns, versions = list(ledger.turns(CHAT)), compactor(ledger).versions()
    (found,) = compactor(ledger).run(Script(spoil=lambda _: failure))
    assert isinstance(found, Rejected)
    assert "invalid-summary" == found.reason
    assert turns == list(ledger.turns(CHAT))
    assert versions == compactor(ledger).versions()
    assert [f"t{number}" for number in range(14)] == kept_turns(plan(ledger))
    tight = plan(ledger, request(6_400))
    assert [first.summary_id] == kept_summaries(tight)  # type: ignore[union-attr]
    assert [f"t{number}" for number in range(6, 14)] == kept_turns(tight), "the turns without a summary are raw"


def test_T06_a_call_that_raises_changes_nothing(ledger: Ledger) -> None:
    """A fault of the caller's model leaves everything as it was."""
    fill(ledger, 8)
    turns = list(ledger.turns(CHAT))

    def broken(_: object) -> object:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        compactor(ledger).run(broken)  # type: ignore[arg-type]
    assert turns == list(ledger.turns(CHAT))
    assert [f"t{number}" for number in range(8)] == kept_turns(plan(ledger))
