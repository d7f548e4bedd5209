"""A growing conversation with constraints, open items and summaries plans what a cold planner plans."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from planner.planner import Planner
from planner.values.check_summary import may_be_covered
from planner.values.reasons import RefusalSignal
from planner.values.request import CurrentRequest, Options, PlanRequest, TextItem
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, MustPreserve, OpenItem, Turn
from tests.conftest import MAX_EXAMPLES
from tests.laws.common import answer_bytes, toy
from tests.support.records import CONVERSATION, live, record_of


def _turn(random: Random, number: int, turns: list[Turn]) -> Turn:
    known = [mark.constraint_id for turn in turns for mark in turn.must_preserve]
    words = (Message("user", id=f"u{number}", text="note " * random.randint(1, 40)),
             Message("assistant", id=f"a{number}", text="rain " * random.randint(1, 40)))  # fmt: skip
    turn = Turn(f"t{number}", 3 * number, random.choice(("completed", "completed", "completed", "open")), words)
    if turn.state == "open":
        turn = replace(turn, messages=words[:1])
    kind = random.choice(("plain", "plain", "plain", "mark", "withdraw", "item", "pin"))
    if kind == "mark":
        text = random.choice(("pay late", "be kind", None))
        turn = replace(turn, must_preserve=(MustPreserve(f"k{random.randint(1, number)}", text),))
    elif kind == "withdraw" and known:
        turn = replace(turn, supersedes=(random.choice(known),))
    elif kind == "item":
        turn = replace(turn, open_items=(OpenItem(random.choice("ab"), random.choice(("pending", "done"))),))
    elif kind == "pin":
        turn = replace(turn, messages=(replace(words[0], protection_reason="audit-evidence"), *turn.messages[1:]))
    return turn


def _records(random: Random, turns: list[Turn]) -> tuple[SummaryRecord, ...]:
    """Return summaries of some runs as they are now; later changes make some of them stale."""
    constraints, out, at = live(turns), [], 0
    while at < len(turns):
        run = turns[at : at + random.randint(1, 4)]
        at += len(run)
        if run and all(may_be_covered(turn, constraints) for turn in run) and random.random() < 0.7:
            out.append(record_of(f"s{at}", run, "sea " * random.randint(1, 20), constraints))
    return tuple(out)


def _changed(random: Random, turn: Turn) -> Turn:
    if turn.state == "open":
        words = (*turn.messages, Message("assistant", id=f"z{turn.id}", text="sun"))
        return replace(turn, state="completed", messages=words)
    return random.choice((
        replace(turn, state="superseded"),
        replace(turn, must_preserve=()),
        replace(turn, messages=(replace(turn.messages[0], text="other words"), *turn.messages[1:])),
    ))  # fmt: skip


@pytest.mark.parametrize("template", ["plain", "jitter"])
@pytest.mark.parametrize("seed", range(max(8, MAX_EXAMPLES)))
def test_a_growing_conversation_with_state_equals_a_cold_plan(template: str, seed: int) -> None:
    """After every append, change and new set of summaries: ids, receipt, plan file and refusal, byte for byte."""
    random, planner = Random(f"{template}{seed}"), toy(template)
    conversation, turns = planner.conversation(), []  # type: ignore[var-annotated]
    records: tuple[SummaryRecord, ...] = ()
    for number in range(1, random.randint(6, 30)):
        turns.append(_turn(random, number, turns))
        conversation.append(turns[-1])
        if random.random() < 0.2:
            _replace(random, conversation, turns)
        if random.random() < 0.3:
            records = _records(random, turns)
            conversation.set_summaries(records)
        for _ in range(random.randint(0, 2)):
            request = _request(random, planner, turns)
            brought = random.random() < 0.3
            cold = planner.plan(replace(request, turns=tuple(turns), summaries=records))
            warm = conversation.plan(replace(request, summaries=records) if brought else request)
            assert answer_bytes(cold) == answer_bytes(warm)


def _replace(random: Random, conversation, turns: list[Turn]) -> None:  # type: ignore[no-untyped-def]
    at = random.randrange(len(turns))
    changed = _changed(random, turns[at])
    try:
        conversation.replace(changed)
    except RefusalSignal:
        return
    turns[at] = changed


def _request(random: Random, planner: Planner, turns: list[Turn]) -> PlanRequest:
    options = Options(
        history_notice=random.choice(("receipt", "prompt")), tail_turns=random.choice((None, None, 1)),
        allow_history_eviction=random.random() < 0.9, low_water=random.choice((1.0, 1.0, 0.6)),
    )  # fmt: skip
    waits = turns[-1].state == "open" and random.random() < 0.5
    question = CurrentRequest(id="q", text=None if waits else "be", turn_id=turns[-1].id if waits else None,
                              on_invalid_summary=random.choice(("raw", "raw", "raw", "refuse")))  # fmt: skip
    return PlanRequest(
        planner.bundle_id, question, conversation_id=CONVERSATION, options=options,
        policy=random.choice(((), (TextItem("p", "be brief"),))),
        max_input_tokens=random.choice((300, 700, 1_500, 4_000, 20_000)), reserved_output_tokens=5,
    )  # fmt: skip


def test_a_turn_appended_into_an_interval_is_seen() -> None:
    """A summary of turns that are not all there yet is stale, and current once the last one is appended."""
    planner = toy()
    turns = [Turn(f"t{n}", n, "completed", (Message("user", id=f"u{n}", text="note " * 60),)) for n in (1, 2, 3)]
    record = record_of("s", turns[:2], "sea")
    conversation = planner.conversation()
    conversation.set_summaries((record,))
    request = PlanRequest(planner.bundle_id, CurrentRequest(text="be"), conversation_id=CONVERSATION,
                          max_input_tokens=760, reserved_output_tokens=0)  # fmt: skip
    conversation.append(turns[0])
    assert {"stale-source"} == {use.fate for use in conversation.plan(request).receipt.summaries}
    conversation.append(turns[1])
    conversation.append(turns[2])
    assert {"used"} == {use.fate for use in conversation.plan(request).receipt.summaries}


def test_a_refused_withdrawal_leaves_no_trace() -> None:
    """A turn that withdraws what nobody marks is not taken; nor is a change that takes a needed mark away."""
    conversation = toy().conversation()
    marked = Turn("t1", 1, "completed", (Message("user", id="u1", text="a"),), (MustPreserve("k", "pay late"),))
    later = Turn("t2", 2, "completed", (Message("user", id="u2", text="b"),), supersedes=("k",))
    with pytest.raises(RefusalSignal):
        conversation.append(later)
    conversation.append(marked)
    conversation.append(later)
    with pytest.raises(RefusalSignal):
        conversation.replace(replace(marked, must_preserve=()))
    assert (marked, later) == conversation.turns
