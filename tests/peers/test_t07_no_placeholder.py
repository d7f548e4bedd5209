"""LangChain #39261: without a human message the history became a placeholder and the model was never called."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from planner.ledger.ledger import Ledger
from planner.values.reasons import RefusalSignal
from planner.wire.dump import dump_request
from planner.wire.parse import parse_request
from tests.compactor.support import kept_summaries, kept_turns, request
from tests.compactor.test_acceptance import sent, summarised


@pytest.mark.parametrize(
    "change", [{"summary_text": ""}, {"summary_text": " \n"}, {"source_ids": ()}, {"source_fingerprint": "0" * 64}]
)
def test_T07_a_placeholder_never_enters_a_plan(ledger: Ledger, change: dict[str, object]) -> None:
    """Without text, sources or the fingerprint of them a summary is not used, however small the window."""
    wrong = replace(summarised(ledger), **change)  # type: ignore[arg-type]
    for window in (60_000, 2_200):
        answer = sent(ledger, wrong, window=window)
        assert [] == kept_summaries(answer)
        assert f"request/{answer.receipt.kept[-1].partition('/')[2]}" == answer.receipt.kept[-1], (
            "the question is there"
        )
    assert [f"t{number}" for number in range(8)] == kept_turns(sent(ledger, wrong))


@pytest.mark.parametrize("field", ["summaryText", "sourceIds", "sourceFingerprint", "state"])
def test_T07_the_schema_knows_no_summary_without_its_parts(ledger: Ledger, field: str) -> None:
    """A record that lacks a part is refused before anything is planned."""
    tree = json.loads(dump_request(request(summaries=(summarised(ledger),))))
    assert 1 == len(parse_request(json.dumps(tree).encode()).summaries)
    del tree["summaries"][0][field]
    with pytest.raises(RefusalSignal, match=rf"\$\.summaries\[0\]\.{field}"):
        parse_request(json.dumps(tree).encode())
