"""Disputed facts: found by structured keys, explained, settled by the application (R155..R158, X54, X55)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.values.passage import Passage, Source
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.summary import ConfirmedFact
from planner.wire.dump import dump_receipt
from tests.evidence.support import asking, gone, kept, passage, talk, toy
from tests.support.records import CONVERSATION, record_of

FACT = ConfirmedFact("d1", "The torque is 5.", "torque", "5 newton metres", ("m1u",))


def disputed(*passages: Passage, fact: ConfirmedFact = FACT, high: bool | None = None, **more: Any) -> PlanRequest:
    """Return a request whose summary confirms a fact, beside passages."""
    turns = tuple(talk(number) for number in range(1, 6))
    base = asking(*passages, turns=turns, conversation_id=CONVERSATION, **more)
    summary = record_of("s1", turns[:3], "Short.")
    fact = replace(fact, source_ids=summary.source_ids[:1])
    question = CurrentRequest(id="q", text="What torque?", high_impact=high)
    return replace(base, summaries=(replace(summary, confirmed_facts=(fact,)),), request=question)


def other(name: str = "sheet", value: str = "6 newton metres", **more: Any) -> Passage:
    """Return an authoritative passage that says otherwise."""
    return passage(name, f"{name}: the new torque is stated here.", fact_key="torque", fact_value=value, **more)


def plan(request: PlanRequest) -> Plan:
    """Plan; a refusal fails the test."""
    answer = toy().plan(request)
    assert isinstance(answer, Plan), answer
    return answer


def test_R155_disputed_fact_marked() -> None:
    """The passage is in the prompt, the fact is disputed on the receipt, both values stand in the explanation."""
    answer = plan(disputed(other(relevance=0.0), passage("more", relevance=1.0)))
    assert [("s1", "d1", "torque", "sheet", True)] == [
        (one.summary_id, one.fact_id, one.fact_key, one.citation_id, one.explained) for one in answer.receipt.disputes
    ]
    text = answer.prompt or ""
    assert "- torque: confirmed earlier as 5 newton metres; [sheet] says 6 newton metres\n" in text
    assert "conflict/s1:d1" in answer.kept
    assert b"newton" not in dump_receipt(answer.receipt)


@pytest.mark.parametrize("passages", [
    (passage("same", fact_key="torque", fact_value="5 newton metres"),),
    (other(source=Source("wiki")),),
    (other(tenant="elsewhere"),),
    (other(valid_to="2030-01-01T00:00:00Z"),),
    (other("worse", source=Source("wiki", 3), relevance=1.0),
     passage("best", fact_key="torque", fact_value="5 newton metres")),
    (other("older", valid_from="2029-01-01T00:00:00Z", relevance=1.0),
     passage("newer", valid_from="2030-01-01T00:00:00Z", fact_key="torque", fact_value="5 newton metres")),
    (passage("words", "The torque is 9 newton metres, and nothing else holds."),),
    (passage("key", fact_key="mass", fact_value="9 kg"),),
], ids=["agrees", "no grade", "excluded", "expired", "worse grade", "older", "text alone", "another key"])  # fmt: skip
def test_only_an_authoritative_passage_of_the_same_key_disputes(passages: tuple[Passage, ...]) -> None:
    """No text is compared, and grade and freshness decide who speaks for a key (X54)."""
    answer = plan(disputed(*passages))
    assert ((), 0) == (answer.receipt.disputes, answer.account.conflict_tokens)


def test_R156_dispute_resolved_outside() -> None:
    """Neither length nor plan decides: both stay, until the application's record names the value it turned down."""
    request = disputed(other())
    again = plan(request)
    assert plan(request).receipt.disputes == again.receipt.disputes
    settled = disputed(other(), fact=replace(FACT, rejected_values=("6 newton metres",)))
    assert () == plan(settled).receipt.disputes
    third = disputed(other(value="7 newton metres"), fact=replace(FACT, rejected_values=("6 newton metres",)))
    assert 1 == len(plan(third).receipt.disputes)
    kept_open = disputed(fact=replace(FACT, status="disputed"))
    assert [None] == [one.citation_id for one in plan(kept_open).receipt.disputes]


def test_R157_conflict_note_budgeted() -> None:
    """The explanation has its own tokens, inside the retrieval line, and its frame is framing."""
    answer = plan(disputed(other()))
    assert len("5 newton metres6 newton metres") == answer.account.conflict_tokens
    assert answer.account.conflict_tokens < answer.account.retrieval_tokens
    assert len(answer.ids) == answer.account.input_tokens
    assert ("conflict/s1:d1", "required_evidence", None) in answer.file_items


def tightest(request: PlanRequest, least: int = 20) -> tuple[Plan | None, list[Refusal]]:
    """Return the leanest plan over all windows, and every refusal below it."""
    whole = len(plan(replace(request, max_input_tokens=100_000)).ids)
    found: Plan | None = None
    out: list[Refusal] = []
    for room in range(whole, least, -1):
        answer = toy().plan(replace(request, max_input_tokens=room + 1))
        if isinstance(answer, Plan):
            found = answer
        else:
            out.append(answer)
    return found, out


def test_R158_unexplainable_conflict_refuses_high_impact() -> None:
    """Absent counts as high: what would fit without the conflict is refused, and named by its keys (X55)."""
    for high in (None, True):
        leanest, refused = tightest(disputed(other(), high=high))
        assert leanest is not None
        assert "conflict/s1:d1" in leanest.kept
        assert "passage/sheet" in leanest.kept
        assert ["conflict_unexplained", "context_policy_overflow"] == list(
            dict.fromkeys(answer.outcome for answer in refused)
        )
        assert refused[0].detail.startswith("fact torque of summary s1: ")
        assert refused[0].tokens_missing > 0


def test_a_request_of_low_impact_goes_on_and_says_so() -> None:
    """The dispute leaves last of all, the receipt still names it and the flag tells."""
    leanest, refused = tightest(disputed(other(), high=False))
    assert leanest is not None
    assert [False] == [one.explained for one in leanest.receipt.disputes]
    assert "dispute_not_explained" in leanest.receipt.flags
    assert {"conflict/s1:d1", "passage/sheet"} <= gone(leanest).keys()
    assert [] == kept(leanest)
    assert {"context_policy_overflow"} == {answer.outcome for answer in refused}


def test_every_rung_with_a_conflict_adds_up() -> None:
    """At every window: the six lines are the ids, and no smaller window keeps more passages."""
    request = disputed(other(), passage("a"), passage("b"), options=Options(passage_order="edges"))
    whole = len(plan(replace(request, max_input_tokens=100_000)).ids)
    last = 99
    for room in range(whole, whole - 120, -3):
        answer = plan(replace(request, max_input_tokens=room + 1))
        assert len(answer.ids) == answer.account.input_tokens <= room
        assert len(kept(answer)) <= last
        last = len(kept(answer))
