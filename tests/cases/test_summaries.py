"""D13, D15: summaries that lost a rule, rules that are carried, and a confirmation that still waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.steps.frame_blocks import CONSTRAINTS_LABEL, STATE_CLOSE, STATE_OPEN
from planner.values.check_summary import may_be_covered
from planner.values.plan import Plan, Refusal
from planner.values.request import PlanRequest
from planner.values.summary import StateEntry, SummaryRecord
from planner.values.turn import MustPreserve, Turn
from planner.wire.dump import dump_receipt
from tests.cases.common import (
    QWEN,
    WIDE,
    accepted,
    case,
    check,
    expect_refused,
    limits,
    message_of,
    planner_of,
    removed_turns,
    request_of,
    said,
    variant,
)
from tests.support.cases import changed
from tests.support.records import CONVERSATION, live, record_of

PLANNER = planner_of(QWEN)
TEXTS = {"C1": "do not touch the serial number plate", "C2": "spend at most 80 euro"}


def _turn(raw: Mapping[str, Any]) -> Turn:
    """Map a turn with its marks and its protection; messages get ids, which summaries name."""
    messages = tuple(message_of(one, f"{raw['id']}-m{at}") for at, one in enumerate(raw["messages"]))
    if raw.get("protectionReason"):
        messages = (replace(messages[0], protection_reason=raw["protectionReason"]), *messages[1:])
    texts = {one["id"]: one["text"] for one in raw.get("constraints") or ()}
    marks = tuple(MustPreserve(name, texts.get(name)) for name in raw.get("mustPreserve") or ())
    return Turn(raw["id"], raw["sequence"], raw.get("state", "completed"), messages, marks)


def _record(raw: Mapping[str, Any], turns: tuple[Turn, ...]) -> SummaryRecord:
    """Complete a summary of a case by what it does not speak of, so that nothing else is wrong with it."""
    inside = [turn for turn in turns if raw["coversFrom"] <= turn.sequence <= raw["coversTo"]]
    record = record_of(raw["id"], inside, raw["summaryText"], live(turns), policy_version="pv1")
    named = tuple(raw["requiredConstraintIds"])
    rules = tuple(StateEntry(TEXTS.get(name, "rule"), id=name) for name in named)
    return replace(record, required_constraint_ids=named, state=replace(record.state, constraints=rules))


def _request(given: Mapping[str, Any], budget: Mapping[str, int]) -> PlanRequest:
    request = request_of(given, budget)
    turns = tuple(map(_turn, given["history"]))
    records = tuple(_record(raw, turns) for raw in given.get("summaries") or ())
    return replace(request, turns=turns, summaries=records, conversation_id=CONVERSATION)


def _expect_kept(answer: Plan | Refusal, keep: list[str], request: PlanRequest) -> Plan:
    plan = accepted(answer)
    kinds = {item.id: "policy" for item in request.policy} | {one.id: "summary" for one in request.summaries}
    kinds |= {turn.id: "turn" for turn in request.turns} | dict.fromkeys(TEXTS, "constraint")
    own = request.request.id
    wanted: list[str] = []
    for name in keep:
        if name == "tools":
            wanted += [f"tool/{tool.id}" for tool in request.tools]
        else:
            wanted += [f"turn/{own}", f"request/{own}"] if name == own else [f"{kinds[name]}/{name}"]
    assert wanted == list(plan.kept)
    return plan


def test_D13_a_summary_that_lost_its_rules_is_not_used(shared_dir: Path) -> None:
    """The originals fit and stay; the summary is refused by its ids alone."""
    one = case(shared_dir, "D13")
    request = _request(one.input, one.budget)
    answer = _expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    assert one.expected["measured_qwen3"]["with_originals"] == len(answer.ids)
    least = accepted(PLANNER.plan(replace(request, **limits(variant(shared_dir, "D13", "a")["budget"]))))
    check("D13", "S1 is never used",
          all("summary/S1" not in plan.kept and request.summaries[0].summary_text not in said(plan)
              for plan in (answer, least)))  # fmt: skip
    use = answer.receipt.summaries[0]
    assert ("S1", "invalid-summary", "constraint_missing") == (use.id, use.fate, use.cause)
    assert {"summary/S1": "invalid-summary"} == removed_turns(answer)
    written = dump_receipt(answer.receipt).decode()
    check("D13", "the receipt lists the missing ids",
          ("C1", "C2") == use.ids and not any(text in written for text in TEXTS.values()))  # fmt: skip
    words = replace(
        request.summaries[0], summary_text="Do not touch the serial number plate. At most 80 euro, not more."
    )
    spoken = accepted(PLANNER.plan(replace(request, summaries=(words,))))
    check("D13", "the check is made on ids", spoken.receipt.summaries == answer.receipt.summaries)


def test_D13a_rules_with_a_text_are_carried(shared_dir: Path) -> None:
    """Neither the originals nor the faulty summary stand in the prompt; the two rules do, in their own words."""
    one = variant(shared_dir, "D13", "a")
    request = _request(case(shared_dir, "D13").input, one["budget"])
    answer = _expect_kept(PLANNER.plan(request), one["expected"]["keep"], request)
    history = said(answer).split("<|im_start|>user\n")[1]
    block = history[len(STATE_OPEN) : history.index(STATE_CLOSE)]
    check("D13", "the texts of C1 and C2 stand verbatim",
          history.startswith(STATE_OPEN) and f"{CONSTRAINTS_LABEL}\n- {TEXTS['C1']}\n- {TEXTS['C2']}\n" in block
          and "When is it ready?" in history)  # fmt: skip
    check("D13", "the faulty summary is never used", request.summaries[0].summary_text not in said(answer))
    assert answer.receipt.history_reduced is not None
    check("D13", "the receipt says that the history is reduced", 2 == answer.receipt.history_reduced.removed)
    assert {"turn/T1..turn/T2": "over_budget", "summary/S1": "invalid-summary"} == removed_turns(answer)


def test_D13b_a_rule_that_nobody_made_voids_a_summary(shared_dir: Path) -> None:
    """An id that no covered turn marks is refused, though the right ones are there."""
    one = variant(shared_dir, "D13", "b")
    whole = case(shared_dir, "D13")
    request = _request(changed(whole.input, one["change"]), whole.budget)
    answer = _expect_kept(PLANNER.plan(request), one["expected"]["keep"], request)
    use = answer.receipt.summaries[0]
    check("D13", "an id that no covered turn carries",
          ("invalid-summary", "unknown_constraint", ("C9",)) == (use.fate, use.cause, use.ids))  # fmt: skip


def test_D13c_a_whole_summary_stands_beside_the_rules(shared_dir: Path) -> None:
    """The summary replaces its turns, and the rules stand in the same block before it."""
    one = variant(shared_dir, "D13", "c")
    request = _request(changed(case(shared_dir, "D13").input, one["change"]), one["budget"])
    answer = _expect_kept(PLANNER.plan(request), one["expected"]["keep"], request)
    prompt = said(answer)
    places = [prompt.index(text) for text in (TEXTS["C1"], TEXTS["C2"], "turns 1 to 2:", "When is it ready?")]
    check("D13", "S1 stands before T3; T1 and T2 do not appear",
          sorted(places) == places and 1 == prompt.count(STATE_OPEN) and "Use matt paint." not in prompt)  # fmt: skip
    assert {"turn/T1..turn/T2": "replaced_by_summary"} == removed_turns(answer)
    assert answer.receipt.history_reduced is None


def test_D13d_rules_without_a_text_keep_their_turn(shared_dir: Path) -> None:
    """Nothing can stand for them, so the turn stays, and where it does not fit there is no plan."""
    one = variant(shared_dir, "D13", "d")
    request = _request(changed(case(shared_dir, "D13").input, one["change"]), one["budget"])
    refusal = expect_refused(PLANNER.plan(request), "context_policy_overflow")
    room = accepted(PLANNER.plan(replace(request, max_input_tokens=1_000)))
    stays = "turn/T1" in room.kept and "turn/T2" not in room.kept
    check("D13", "a mustPreserve constraint leaves the raw text only",
          "raw_history_overflow" == refusal.reason and stays)  # fmt: skip
    assert 3 == len(refusal.advice.notes)


def test_D15_a_waiting_confirmation_stays_whole(shared_dir: Path) -> None:
    """The open turn is older than T3 and stays; both completed ones leave."""
    one = case(shared_dir, "D15")
    request = _request(one.input, one.budget)
    answer = _expect_kept(PLANNER.plan(request), one.expected["keep"], request)
    assert one.expected["measured_qwen3"]["T2_only"] == len(answer.ids)
    assert {"turn/T1": "over_budget", "turn/T3": "over_budget"} == removed_turns(answer)
    words = ("carbon fork", '{"status": "pending", "waiting_for": "owner"}')
    check("D15", "T2 is open and protected", all(text in said(answer) for text in words))
    wide = accepted(PLANNER.plan(replace(request, **limits({**WIDE, "inputLimit": 600}), options=replace(
        request.options, tail_turns=1))))  # fmt: skip
    assert wide.advice.compaction is not None
    check("D15", "T2 is not offered to the summary job",
          ((1, 1),) == wide.advice.compaction.covers and not may_be_covered(request.turns[1], ()))  # fmt: skip
    check("D15", "relative order is kept",
          [f"turn/T{at}" for at in (1, 2, 3)] == [key for key in wide.kept if key.startswith("turn/T")])  # fmt: skip
    assert one.expected["measured_qwen3"]["all"] == len(wide.ids)


def test_D15a_nothing_waiting_is_dropped_to_fit(shared_dir: Path) -> None:
    """Below policy, tools, T2 and request there is no plan."""
    one = variant(shared_dir, "D15", "a")
    refusal = expect_refused(
        PLANNER.plan(_request(case(shared_dir, "D15").input, one["budget"])), one["expected"]["code"]
    )
    assert "protected_history_overflow" == refusal.reason


def test_D15b_a_summary_over_the_open_turn_is_rejected(shared_dir: Path) -> None:
    """Its words claim a consent; the plan is the one without it, to the last id."""
    one = case(shared_dir, "D15")
    plain = _request(one.input, one.budget)
    claim = record_of("S1", plain.turns, "the owner agreed to the fork", (), policy_version="pv1")
    answer = accepted(PLANNER.plan(replace(plain, summaries=(claim,))))
    use = answer.receipt.summaries[0]
    check("D15", "rejected because it covers an open turn",
          ("stale-source", ("T2",)) == (use.fate, use.ids) and "summary/S1" not in answer.kept)  # fmt: skip
    check("D15", "nothing about consent is read from summary text",
          accepted(PLANNER.plan(plain)).ids == answer.ids and "agreed" not in said(answer))  # fmt: skip
    strict = replace(plain, summaries=(claim,), request=replace(plain.request, on_invalid_summary="refuse"))
    expect_refused(PLANNER.plan(strict), "stale-source")


def test_D15c_half_an_answer_is_kept_and_not_sent(shared_dir: Path) -> None:
    """A cancelled turn is named in the receipt, its words reach no prompt, and the conversation still holds it."""
    one = case(shared_dir, "D15")
    request = _request(one.input, WIDE)
    half = _turn({"id": "T4", "sequence": 4, "state": "cancelled", "messages": [
        {"role": "user", "content": "And a saddle?"},
        {"role": "assistant", "content": "A saddle costs about"}]})  # fmt: skip
    answer = accepted(PLANNER.plan(replace(request, turns=(*request.turns, half))))
    check("D15", "the half answer is not summarised",
          {"turn/T4": "cancelled"} == removed_turns(answer) and "A saddle costs about" not in said(answer)
          and not may_be_covered(half, ()))  # fmt: skip
    conversation = PLANNER.conversation()
    conversation.extend((*request.turns, half))
    check(
        "D15", "users do complain when it vanishes", "A saddle costs about" == conversation.turns[-1].messages[1].text
    )
