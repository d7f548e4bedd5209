"""R66..R68, R142..R147, R169..R171: tail, raw fallback, the three exits, the notice and the advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.steps.frame_blocks import NOTICE
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest, Previous
from planner.values.summary import SummaryRecord
from planner.values.turn import MustPreserve, OpenItem, Turn
from tests.laws.common import said, toy, with_room
from tests.plan_summaries.common import ask, asking, plan, protected, summed, talk, turns_of


def _five(**fields: object) -> PlanRequest:
    return asking(*(talk(number) for number in range(1, 6)), **fields)


def test_R66_tail_kept_unconditionally() -> None:
    """A tail by name is raw whatever a summary covers, and where it does not fit there is no plan (X64)."""
    request = summed(_five(options=Options(tail_turns=2)), (1, 3), (4, 4))
    for room in (620, 900, 1_400):
        assert ["turn/t4", "turn/t5"] == turns_of(plan(request, room))[-2:]
    assert "summary/s2" not in plan(request, 620).kept
    refusal = ask(request, 300)
    assert isinstance(refusal, Refusal)
    assert "raw_history_overflow" == refusal.reason
    everything = plan(_five(options=Options(tail_turns=9)), 5_000)
    assert 5 == len(turns_of(everything))


def test_R67_protected_prefix_stays_raw() -> None:
    """A protected turn of the old part is raw; a summary over it is not used."""
    turns = [talk(number) for number in range(1, 6)]
    turns[1] = protected(turns[1])
    answer = plan(summed(asking(*turns), (1, 1), (3, 4)), 900)
    assert ["summary/s1", "turn/t2", "summary/s2", "turn/t5"] == turns_of(answer)
    over = plan(summed(asking(*turns), (1, 4)), 900)
    assert [("stale-source", "protection_changed", ("t2",))] == [
        (use.fate, use.cause, use.ids) for use in over.receipt.summaries
    ]
    assert "turn/t2" in turns_of(over)


def test_R68_protected_and_tail_once() -> None:
    """A turn that is protected and in the tail stands once."""
    turns = (*(talk(number) for number in range(1, 4)), protected(talk(4)))
    answer = plan(asking(*turns, options=Options(tail_turns=2)), 560)
    assert ["turn/t3", "turn/t4"] == turns_of(answer)


CHANGES = {
    "policy": {"policy_version": "other"},
    "strategy": {"strategy_version": "other"},
    "conversation": {"conversation_id": "other"},
    "generation": {"source_generation": 2},
    "fingerprint": {"source_fingerprint": "0" * 64},
    "blank": {"summary_text": " "},
    "no sources": {"source_ids": ()},
    "order": {"source_ids": ("a1", "u1", "u2", "a2")},
    "coverage": {"covers_to": 25},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_R142_fallback_triggers(change: dict[str, object]) -> None:
    """Whatever is wrong with a summary: all turns raw and sorted, ids as without it, and a reason."""
    request = summed(_five(), (1, 2))
    good = plan(request, 1_000)
    assert "summary/s1" in good.kept
    bad = replace(request, summaries=(replace(request.summaries[0], **change),))  # type: ignore[arg-type]
    answer = plan(bad, 1_000)
    assert plan(_five(), 1_000).ids == answer.ids
    assert {entry.reason for entry in answer.removed if entry.id == "summary/s1"} <= {"invalid-summary", "stale-source"}
    assert answer.receipt.summaries[0].cause


def test_R143_bad_summary_never_last_resort() -> None:
    """Nothing better fits, and still it is not used; asked to refuse, the call is refused with the code."""
    turns = (protected(talk(1)), talk(2))
    request = summed(asking(*turns), (2, 2))
    stale = replace(request, summaries=(replace(request.summaries[0], policy_version="old"),))
    answer = ask(stale, 200)
    assert isinstance(answer, Refusal)
    strict = replace(stale, request=replace(stale.request, on_invalid_summary="refuse"))
    refusal = ask(strict, 5_000)
    assert isinstance(refusal, Refusal)
    assert ("stale-source", "stale-source") == (refusal.reason, refusal.outcome)
    blank = replace(strict, summaries=(replace(request.summaries[0], summary_text=""),))
    refusal = ask(blank, 5_000)
    assert isinstance(refusal, Refusal)
    assert "invalid-summary" == refusal.reason


def test_R144_raw_over_budget_three_exits() -> None:
    """History that may not leave and does not fit: pause, narrow, or compact again; never a smaller plan."""
    refusal = ask(_five(options=Options(allow_history_eviction=False)), 600)
    assert isinstance(refusal, Refusal)
    assert "raw_history_overflow" == refusal.reason
    pause, narrow, recompact = refusal.advice.notes
    assert pause.startswith("pause")
    assert narrow.startswith("narrow")
    assert recompact.startswith("compact again")
    assert refusal.tokens_missing > 0
    covered = summed(_five(options=Options(allow_history_eviction=False)), (1, 4))
    assert ["summary/s1", "turn/t5"] == turns_of(plan(covered, 600))


def test_R147_partial_history_notice() -> None:
    """The plan says how many turns are missing; asked for, the prompt says it too, from the first missing turn on."""
    request = _five()
    assert plan(request, 5_000).receipt.history_reduced is None
    silent = plan(request, 600)
    assert silent.receipt.history_reduced is not None
    assert (3, ((10, 30),)) == (silent.receipt.history_reduced.removed, silent.receipt.history_reduced.ranges)
    assert NOTICE not in said(silent)
    told = replace(request, options=Options(history_notice="prompt"))
    assert NOTICE not in said(plan(told, 5_000))
    answer = plan(told, 800)
    assert 1 == said(answer).count(NOTICE)
    assert len(NOTICE) == answer.account.notice_tokens == answer.account.items["notice/history"]
    summed_up = plan(replace(summed(request, (1, 4)), options=told.options), 600)
    assert NOTICE not in said(summed_up), "a summarised turn is not missing"
    gone = plan(replace(summed(request, (1, 3)), options=told.options), 620)
    assert ("summary/s1" in gone.kept) == (NOTICE not in said(gone))


def test_a_summary_that_left_leaves_its_turns_missing() -> None:
    """Turns whose summary does not fit either are gone, and counted so."""
    answer = plan(summed(_five(), (1, 2)), 270)
    assert [] == [key for key in answer.kept if key.startswith("summary/")]
    assert answer.receipt.history_reduced is not None
    assert 4 == answer.receipt.history_reduced.removed
    assert {"over_budget"} == {entry.reason for entry in answer.removed}


def test_R169_trigger_60_to_70_percent() -> None:
    """At 65 % of the usable input, once per crossing; below it is armed again."""
    request = _five()
    size = len(plan(request, 5_000).ids)
    at, below = size * 100 // 65, size * 100 // 65 + 2
    due = plan(request, at)
    assert due.advice.compaction is not None
    assert due.advice.advice_fired
    assert ((10, 30),) == due.advice.compaction.covers
    quiet = plan(request, below)
    assert (None, False) == (quiet.advice.compaction, quiet.advice.advice_fired)
    again = plan(replace(request, previous=Previous(advice_fired=True)), at)
    assert (None, True) == (again.advice.compaction, again.advice.advice_fired)
    armed = plan(replace(request, previous=Previous(advice_fired=True)), below)
    assert not armed.advice.advice_fired


def test_R170_threshold_is_configurable() -> None:
    """The ratio is the request's, of the window less reserve and margin."""
    request = _five(options=Options(compact_at=0.3))
    size = len(plan(request, 5_000).ids)
    room = size * 10 // 3
    reserving = replace(with_room(request, room), reserved_output_tokens=500, max_input_tokens=room + 500)
    answer = toy().plan(reserving)
    assert isinstance(answer, Plan)
    assert answer.advice.compaction is not None
    assert size >= answer.advice.compaction.threshold_tokens == -(-3 * room // 10)
    assert plan(replace(request, options=Options()), room).advice.compaction is None


def test_R171_tail_first_then_summary() -> None:
    """What the advice covers ends before the tail, and goes round pins and current summaries."""
    turns = [talk(number) for number in range(1, 9)]
    turns[1] = protected(turns[1])
    request = summed(asking(*turns), (4, 4))
    size = len(plan(request, 9_000).ids)
    due = plan(request, size + 10)
    assert due.advice.compaction is not None
    assert ((10, 10), (30, 30), (50, 60)) == due.advice.compaction.covers
    wide = plan(replace(request, options=Options(tail_turns=5)), size + 10)
    assert wide.advice.compaction is not None
    assert ((10, 10), (30, 30)) == wide.advice.compaction.covers
    turns[7] = protected(turns[7])
    late = plan(replace(request, turns=tuple(turns)), size + 10)
    assert late.advice.compaction is not None
    assert ((10, 10), (30, 30), (50, 60)) == late.advice.compaction.covers, "protected or not, it counts in the tail"
    nothing = plan(replace(request, options=Options(tail_turns=9)), size + 10)
    assert (None, False) == (nothing.advice.compaction, nothing.advice.advice_fired)


def test_the_advice_says_at_which_risk_to_summarise() -> None:
    """X28: what the request does not say counts as high."""
    request = _five()
    size = len(plan(request, 5_000).ids)
    for risk, wanted in ((None, "high"), ("low", "low")):
        asked = replace(request, request=CurrentRequest(id="q", text="and now?", risk=risk))  # type: ignore[arg-type]
        answer = plan(asked, size + 5)
        assert answer.advice.compaction is not None
        assert wanted == answer.advice.compaction.risk


def test_no_summary_record_is_changed_by_planning() -> None:
    """R70, R153: the request's summaries are the very same values afterwards."""
    request = summed(_five(), (1, 2))
    before: tuple[SummaryRecord, ...] = tuple(replace(one) for one in request.summaries)
    plan(request, 900)
    assert before == request.summaries


EDITS = {
    "text": lambda turn: replace(turn, messages=(replace(turn.messages[0], text="other"), *turn.messages[1:])),
    "version": lambda turn: replace(turn, messages=(replace(turn.messages[0], version=2), *turn.messages[1:])),
    "role": lambda turn: replace(turn, messages=(replace(turn.messages[0], role="developer"), *turn.messages[1:])),
    "protection": protected,
    "state": lambda turn: replace(turn, state="superseded"),
    "order": lambda turn: replace(turn, messages=(replace(turn.messages[0], sequence=24), *turn.messages[1:])),
    "source": lambda turn: replace(turn, messages=(replace(turn.messages[0], source="mail"), *turn.messages[1:])),
    "reasoning": lambda turn: replace(turn, messages=(turn.messages[0], replace(turn.messages[1], reasoning="why"))),
    "mark": lambda turn: replace(turn, must_preserve=(MustPreserve("k", "pay late"),)),
    "item": lambda turn: replace(turn, open_items=(OpenItem("o", "pending"),)),
    "material": lambda turn: replace(turn, material="code"),
    "fewer": lambda turn: replace(turn, messages=turn.messages[:1]),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_R85_current_check_conditions(edit: Callable[[Turn], Turn]) -> None:
    """Law 14 at a plan: any change of a covered turn drops the summary, an appended turn does not."""
    request = summed(_five(), (1, 3))
    changed = replace(request, turns=(request.turns[0], edit(request.turns[1]), *request.turns[2:]))
    answer = plan(changed, 1_000)
    assert "summary/s1" not in answer.kept
    assert {answer.receipt.summaries[0].fate} <= {"stale-source", "invalid-summary"}
    appended = replace(request, turns=(*request.turns, talk(6)), revision=7)
    assert "summary/s1" in plan(appended, 1_000).kept
