"""Fields of summaries, marks and items are checked with their path, whoever hands them in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.values.check import check_request
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, Options, PlanRequest, Previous, SectionBounds, Sections
from planner.values.summary import ConfirmedFact, StateEntry, SummaryRecord
from planner.values.turn import Message, MustPreserve, OpenItem, Turn
from tests.support.records import record_of

TURN = Turn("t1", 1, "completed", (Message("user", id="u1", text="x"),))
RECORD = record_of("s1", [TURN], "text")
BASE = PlanRequest("b", CurrentRequest(text="q"), turns=(TURN,), summaries=(RECORD,))


def _record(**fields: Any) -> PlanRequest:
    return replace(BASE, summaries=(replace(RECORD, **fields),))


def _state(**fields: Any) -> PlanRequest:
    return _record(state=replace(RECORD.state, **fields))


def _turn(**fields: Any) -> PlanRequest:
    return replace(BASE, turns=(replace(TURN, **fields),))


def _options(**fields: Any) -> PlanRequest:
    return replace(BASE, options=Options(**fields))


WRONG: dict[str, PlanRequest] = {
    "summaries": replace(BASE, summaries=[RECORD]),  # type: ignore[arg-type]
    "summaries[0]": replace(BASE, summaries=("s",)),  # type: ignore[arg-type]
    "summaries[0].id": _record(id="two words"),
    "summaries[0].conversationId": _record(conversation_id=None),
    "summaries[0].policyVersion": _record(policy_version=""),
    "summaries[0].coversFrom": _record(covers_from=-1),
    "summaries[0].coversTo": _record(covers_from=5),
    "summaries[0].summaryVersion": _record(summary_version=True),
    "summaries[0].sourceIds": _record(source_ids=("",)),
    "summaries[0].sourceVersions": _record(source_versions=(0,)),
    "summaries[0].protectedFingerprint": _record(protected_fingerprint=7),
    "summaries[0].requiredConstraintIds": _record(required_constraint_ids=["k"]),
    "summaries[0].openItems": _record(open_items=(None,)),
    "summaries[0].citationIds": _record(citation_ids=("a b",)),
    "summaries[0].summaryText": _record(summary_text="\x00"),
    "summaries[0].state": _record(state=None),
    "summaries[0].state.goal": _state(goal=None),
    "summaries[0].state.goalFrom": _state(goal_from=""),
    "summaries[0].state.openActions": _state(open_actions=[]),
    "summaries[0].state.decisions[0]": _state(decisions=("d",)),
    "summaries[0].state.decisions[0].text": _state(decisions=(StateEntry("\ud800"),)),
    "summaries[0].state.evidence[0].messageIds": _state(evidence=(StateEntry("x", ("",)),)),
    "summaries[0].state.questions[0].status": _state(questions=(StateEntry("x", status="late"),)),  # type: ignore[arg-type]
    "summaries[0].confirmedFacts[0].id": _record(confirmed_facts=(ConfirmedFact("", "x"),)),
    "summaries[0].confirmedFacts[0].status": _record(confirmed_facts=(ConfirmedFact("f", "x", status="no"),)),  # type: ignore[arg-type]
    "turns[0].mustPreserve": _turn(must_preserve=[]),
    "turns[0].mustPreserve[0]": _turn(must_preserve=("k",)),
    "turns[0].mustPreserve[0].constraintId": _turn(must_preserve=(MustPreserve(""),)),
    "turns[0].mustPreserve[1].constraintId": _turn(must_preserve=(MustPreserve("k"), MustPreserve("k"))),
    "turns[0].mustPreserve[0].text": _turn(must_preserve=(MustPreserve("k", " \n"),)),
    "turns[0].supersedes[0]": _turn(supersedes=("k",)),
    "turns[0].openItems[0].status": _turn(open_items=(OpenItem("o", "late"),)),  # type: ignore[arg-type]
    "turns[0].openItems[1].id": _turn(open_items=(OpenItem("o", "done"), OpenItem("o", "done"))),
    "turns[0].material": _turn(material="prose"),
    "request.risk": replace(BASE, request=CurrentRequest(text="q", risk="none")),  # type: ignore[arg-type]
    "request.onInvalidSummary": replace(BASE, request=CurrentRequest(text="q", on_invalid_summary="x")),  # type: ignore[arg-type]
    "previous.summaryIds": replace(BASE, previous=Previous(summary_ids=("a b",))),
    "previous.adviceFired": replace(BASE, previous=Previous(advice_fired=1)),  # type: ignore[arg-type]
    "options.tailTurns": _options(tail_turns=0),
    "options.allowHistoryEviction": _options(allow_history_eviction=None),
    "options.historyNotice": _options(history_notice="both"),
    "options.sections": _options(sections=None),
    "options.sections.summary": _options(sections=Sections(summary=3)),  # type: ignore[arg-type]
    "options.sections.summary.max": _options(sections=Sections(summary=SectionBounds(max=-1))),
}


@pytest.mark.parametrize("path", WRONG)
def test_a_wrong_field_is_refused_at_its_path(path: str) -> None:
    """invalid-input with the path and no value; the request around it is in order."""
    check_request(BASE)
    with pytest.raises(RefusalSignal) as caught:
        check_request(WRONG[path])
    assert ("invalid-input", f"$.{path}") == (caught.value.reason, caught.value.detail.partition(": ")[0])


@pytest.mark.parametrize("tail", [0, -1, 1.5, True])
def test_a_tail_is_a_whole_number_above_0(tail: object) -> None:
    """X2: 0, negative, fractional and boolean tails are refused."""
    with pytest.raises(RefusalSignal, match="tailTurns"):
        check_request(_options(tail_turns=tail))


def test_what_only_the_gate_judges_passes_here() -> None:
    """A blank text, no sources and two summaries of one id are well formed; planning says what they are worth."""
    odd: tuple[SummaryRecord, ...] = (replace(RECORD, summary_text=" ", source_ids=(), source_versions=()), RECORD)
    check_request(replace(BASE, summaries=odd))
