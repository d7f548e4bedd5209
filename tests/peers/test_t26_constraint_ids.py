"""codegraff #738, hermes-agent #96869: a summary invented a constraint, or weakened one to a story."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.ledger.ledger import Ledger
from planner.values.compaction import Rejected
from tests.compactor.support import CHAT, Script, compactor, fill, kept_summaries, kept_turns, plan
from tests.compactor.test_acceptance import sent, summarised


def _without(text: str) -> str:
    return json.dumps(json.loads(text) | {"constraints": []})


def _with_another(text: str) -> str:
    tree = json.loads(text)
    again = json.loads(json.dumps(tree["constraints"]).replace("C1", "C9"))
    return json.dumps(tree | {"constraints": [*tree["constraints"], *again]})


@pytest.mark.parametrize("spoil", [_without, _with_another])
def test_T26_an_answer_with_other_constraints_is_rejected(ledger: Ledger, spoil: Callable[[str], str]) -> None:
    """One id missing or one unknown: rejected, nothing stored, raw turns stay."""
    fill(ledger, 8)
    (found,) = compactor(ledger).run(Script(spoil=spoil))
    assert isinstance(found, Rejected)
    assert "invalid-summary" == found.reason
    assert () == ledger.summaries(CHAT)
    assert [f"t{number}" for number in range(8)] == kept_turns(plan(ledger))


@pytest.mark.parametrize("ids", [(), ("C1", "C9"), ("C9",)])
def test_T26_a_record_with_other_constraints_is_not_used(ledger: Ledger, ids: tuple[str, ...]) -> None:
    """A record whose ids are not exactly those of its turns leaves the raw turns in their place."""
    record = summarised(ledger)
    assert ("C1",) == record.required_constraint_ids
    for window in (60_000, 2_200):
        assert [] == kept_summaries(sent(ledger, replace(record, required_constraint_ids=ids), window=window))
    assert [f"t{number}" for number in range(8)] == kept_turns(
        sent(ledger, replace(record, required_constraint_ids=ids))
    )


def test_T26_a_constraint_is_shown_in_the_applications_words(ledger: Ledger) -> None:
    """Whatever story the model tells of it, the summary that stands renders the text that was written."""
    record = summarised(ledger)
    assert "do not touch the serial plate" in record.summary_text
