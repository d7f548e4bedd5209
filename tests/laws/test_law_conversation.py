"""A growing conversation's plan equals the cold plan of the same request, byte for byte (design.md §2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.bundles.open import open_bundle
from planner.conversation import Conversation
from planner.planner import Planner
from planner.values.passage import Passage
from planner.values.plan import Plan
from planner.values.reasons import RefusalSignal
from planner.values.request import CONCESSIONS, CurrentRequest, Options, PlanRequest, Previous, TextItem
from planner.values.turn import Message, ToolCall, ToolResult, Turn, TurnState
from tests.laws.common import answer_bytes, every_rung, room_of, said, toy
from tests.oracles.scan import first_fit
from tests.strategies import SOME_TEXT, Wanted, passage_lists, tool_of, turn_of
from tests.support.toy import ToyBundle

STRICT = Planner(ToyBundle("strict", "char", longest_token_bytes=None))
BOUNDED = Planner(ToyBundle("jitter", "pair", longest_token_bytes=4))
PLANNERS = {"plain": toy("plain", "pair"), "jitter": toy("jitter", "char"), "strict": STRICT, "bounded": BOUNDED}
MOVES = ("append", "append", "append", "close", "state", "plan", "plan", "plan")
APPENDED: tuple[TurnState, ...] = ("completed", "completed", "completed", "open", "cancelled")
CLOSED: dict[str, tuple[TurnState, ...]] = {
    "open": ("completed", "cancelled", "superseded"),
    "completed": ("superseded",),
}


class History:
    """A conversation under test beside the plain list of turns it should stand for."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.conversation: Conversation = planner.conversation()
        self.turns: list[Turn] = []
        self.previous: Previous | None = None
        self.made = 0

    def append(self, data: st.DataObject) -> None:
        """Add the next turn."""
        self.made += 1
        sequence = (self.turns[-1].sequence if self.turns else 0) + data.draw(st.integers(1, 2))
        state: TurnState = data.draw(st.sampled_from(APPENDED))
        turn = data.draw(turn_of(f"t{self.made}", sequence, state, Wanted()))
        self.conversation.append(turn)
        self.turns.append(turn)

    def change(self, data: st.DataObject, answer: bool) -> None:
        """Give a turn its next state; with `answer` an open turn gets its results and its answer first."""
        able = [at for at, turn in enumerate(self.turns) if turn.state in CLOSED]
        if not able:
            return
        at = data.draw(st.sampled_from(able))
        turn = self.turns[at]
        if answer and turn.state == "open":
            answered = {message.tool_result.call_id for message in turn.messages if message.tool_result}
            calls = [call for message in turn.messages for call in message.tool_calls]
            more = [Message("tool", tool_result=ToolResult(call.id, data.draw(SOME_TEXT)))
                    for call in calls if call.id not in answered]  # fmt: skip
            more.append(Message("assistant", id=f"{turn.id}z", text=data.draw(SOME_TEXT)))
            changed = replace(turn, state="completed", messages=(*turn.messages, *more))
        else:
            changed = replace(turn, state=data.draw(st.sampled_from(CLOSED[turn.state])))
        try:
            self.conversation.replace(changed)
        except RefusalSignal:
            return
        self.turns[at] = changed

    def plan(self, data: st.DataObject) -> None:
        """Plan warm and cold, and compare every byte."""
        request = self.request(data)
        warm = self.conversation.plan(request)
        cold = self.planner.plan(replace(request, turns=tuple(self.turns)))
        event(cold.receipt.reason or ("cut" if cold.receipt.history_reduced else "whole"))
        assert answer_bytes(cold) == answer_bytes(warm)
        if isinstance(warm, Plan):
            turns = [name for kind, _, name in (key.partition("/") for key in warm.kept) if kind == "turn"]
            self.previous = Previous(warm.receipt.plan_id, turns[0], ids=tuple(warm.ids))

    def request(self, data: st.DataObject) -> PlanRequest:
        """Draw a request for the turns there are."""
        waiting = [turn for turn in self.turns if turn.state == "open"]
        asked = data.draw(st.one_of(st.none(), SOME_TEXT)) if waiting else data.draw(SOME_TEXT)
        policy = data.draw(st.sampled_from(((), (TextItem("p", "be"),), (TextItem("p", "note rain"),))))
        tools = data.draw(st.sampled_from(((), (tool_of("send", "rain"),))))
        options = Options(
            concessions=data.draw(st.sampled_from(((), CONCESSIONS))),
            low_water=data.draw(st.sampled_from((1.0, 1.0, 0.6))), sticky=data.draw(st.booleans()),
            mode=data.draw(st.sampled_from(("ids", "ids", "text"))),
        )  # fmt: skip
        return PlanRequest(
            self.planner.bundle_id, CurrentRequest(id="q", text=asked), policy=policy, tools=tools,
            max_input_tokens=data.draw(st.integers(20, 900)), reserved_output_tokens=data.draw(st.integers(0, 9)),
            passages=data.draw(st.one_of(st.just(()), passage_lists())), options=options,
            previous=data.draw(st.sampled_from((None, self.previous))),
            template_options=data.draw(st.sampled_from(({}, {"loud": True}))),
        )  # fmt: skip


@pytest.mark.parametrize("kind", sorted(PLANNERS))
@given(data=st.data())
def test_a_growing_conversation_plans_what_a_cold_planner_plans(kind: str, data: st.DataObject) -> None:
    """Ids, receipt, plan file, prompt and refusal are equal after every history of changes."""
    history = History(PLANNERS[kind])
    for _ in range(data.draw(st.integers(2, 12))):
        move = data.draw(st.sampled_from(MOVES))
        if move == "append":
            history.append(data)
        elif move == "plan":
            history.plan(data)
        else:
            history.change(data, answer=move == "close")
    history.plan(data)


def _turn(turn_id: str, sequence: int, message_id: str, **fields: object) -> Turn:
    messages = (Message("user", id=message_id, text="note"), Message("assistant", text="rain"))
    return replace(Turn(turn_id, sequence, "completed", messages), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [CurrentRequest(text="be"), CurrentRequest(turn_id="t1"), CurrentRequest()])
def test_an_open_turn_without_messages_waits_for_its_own_question(asked: CurrentRequest) -> None:
    """Only a request that brings its text may name it; any other is refused as a cold plan refuses it."""
    conversation = toy().conversation()
    waiting = Turn("t1", 1, "open", ())
    conversation.append(waiting)
    request = PlanRequest("toy-plain-char", asked, max_input_tokens=900)
    cold = toy().plan(replace(request, turns=(waiting,)))
    assert not cold.accepted
    assert answer_bytes(cold) == answer_bytes(conversation.plan(request))
    request = replace(request, request=CurrentRequest(text="be", turn_id="t1"))
    cold = toy().plan(replace(request, turns=(waiting,)))
    assert cold.accepted
    assert answer_bytes(cold) == answer_bytes(conversation.plan(request))


def test_a_refused_append_leaves_no_trace() -> None:
    """After a refusal the corrected turn is taken, and everything plans as if nothing had been tried."""
    conversation = toy().conversation()
    conversation.append(_turn("t1", 1, "m1"))
    with pytest.raises(RefusalSignal):
        conversation.append(_turn("t1", 2, "m2"))  # the id is taken
    with pytest.raises(RefusalSignal):
        conversation.append(_turn("t2", 2, "m2", supersedes=("k",)))  # no earlier turn marks it
    conversation.append(_turn("t2", 2, "m2"))
    request = PlanRequest("toy-plain-char", CurrentRequest(text="be"), max_input_tokens=900)
    cold = toy().plan(replace(request, turns=(_turn("t1", 1, "m1"), _turn("t2", 2, "m2"))))
    assert answer_bytes(cold) == answer_bytes(conversation.plan(request))


def test_a_refused_replacement_leaves_no_trace() -> None:
    """After a refused replacement the ids of the turn's messages are still taken."""
    conversation = toy().conversation()
    conversation.append(_turn("t1", 1, "m1"))
    broken = replace(_turn("t1", 1, "m1"), messages=(Message("user", id="m1", text="\x00"),))
    with pytest.raises(RefusalSignal):
        conversation.replace(broken)
    with pytest.raises(RefusalSignal):
        conversation.append(_turn("t2", 2, "m1"))
    assert (_turn("t1", 1, "m1"),) == conversation.turns


def test_a_conversation_refuses_what_the_table_of_states_forbids() -> None:
    """A cancelled turn stays cancelled, an unknown turn cannot be replaced, an old sequence not appended."""
    conversation = toy().conversation()
    conversation.append(_turn("t5", 5, "m5", state="cancelled"))
    for bad in (_turn("t5", 5, "m5"), _turn("t6", 6, "m6"), _turn("t5", 4, "m5")):
        with pytest.raises(RefusalSignal):
            conversation.replace(bad)
    with pytest.raises(RefusalSignal):
        conversation.append(_turn("t4", 4, "m4"))
    assert 1 == len(conversation.turns)


def test_a_call_may_be_answered_by_replacing_the_open_turn() -> None:
    """The agent loop: an open turn grows by its result, and the next plan holds it."""
    conversation = toy().conversation()
    call = Message("assistant", id="a", tool_calls=(ToolCall("c", "send", {}),))
    first = Turn("t1", 1, "open", (Message("user", id="u", text="note"), call))
    conversation.append(first)
    grown = replace(first, messages=(*first.messages, Message("tool", id="r", tool_result=ToolResult("c", "rain"))))
    conversation.replace(grown)
    request = PlanRequest("toy-plain-char", max_input_tokens=900)
    warm = conversation.plan(request)
    assert isinstance(warm, Plan)
    assert "rain" in said(warm)
    assert answer_bytes(toy().plan(replace(request, turns=(grown,)))) == answer_bytes(warm)


@pytest.mark.parametrize("template", ["plain", "jitter"])
@pytest.mark.parametrize("beside", ["passages", "preferences", "parameters"])
def test_what_stands_before_one_question_is_no_part_of_the_turn_before_it(beside: str, template: str) -> None:
    """A plan with a large passage or preference teaches the conversation no wrong size of its newest turn."""
    planner = toy(template)
    conversation = planner.conversation()
    conversation.extend([_turn("t1", 1, "m1"), _turn("t2", 2, "m2")])
    text = "sea " * 40
    question = CurrentRequest(id="q", text="be")
    request = PlanRequest(planner.bundle_id, question, max_input_tokens=2_000, reserved_output_tokens=0)
    first = {
        "passages": replace(request, passages=(Passage("c1", text, 0.5),)),
        "preferences": replace(request, preferences=(TextItem("f", text),)),
        "parameters": replace(request, request=replace(question, required_parameters=(TextItem("r", text),))),
    }[beside]
    assert conversation.plan(first).accepted
    for room in range(8, 60):
        tight = replace(request, max_input_tokens=room)
        cold = planner.plan(replace(tight, turns=conversation.turns))
        assert answer_bytes(cold) == answer_bytes(conversation.plan(tight))


@pytest.mark.parametrize("template", ["plain", "jitter"])
def test_a_newer_version_of_a_turn_replaces_all_that_was_known_of_it(template: str) -> None:
    """A turn planned with, then replaced by one of other words: every later plan is the cold one."""
    planner = toy(template)
    conversation = planner.conversation()
    conversation.extend([_turn("t1", 1, "m1"), _turn("t2", 2, "m2"), _turn("t3", 3, "m3")])
    request = PlanRequest(planner.bundle_id, CurrentRequest(id="q", text="be"), reserved_output_tokens=0)
    request = replace(request, max_input_tokens=900)
    assert conversation.plan(request).accepted
    for words in ("sea " * 9, "é"):
        told = (Message("user", id="m2", text=words), Message("assistant", text="rain"))
        conversation.replace(replace(_turn("t2", 2, "m2"), messages=told))
        for room in (900, 100, 80, 60, 50, 40, 30, 20, 10):
            tight = replace(request, max_input_tokens=room)
            cold = planner.plan(replace(tight, turns=conversation.turns))
            assert answer_bytes(cold) == answer_bytes(conversation.plan(tight))


@pytest.mark.parametrize("window", [60, 80, 90, 100, 110, 800])
def test_a_turn_that_raises_is_looked_for_as_far_as_texts_alone_reach(bundle_dir: Path, window: int) -> None:
    """Beside a turn that no form of renders every turn counts by its texts, which are fewer than its prompt's tokens.

    So a rung may fit by its texts that reaches over more than the room in rendered sizes (design.md §2).
    """
    planner = Planner(open_bundle(bundle_dir / "mistral-v3-spm"))
    words = {17: ("", ""), 18: ("", "x"), 20: ("x", "mk1 done"), 25: ("mk2 <|eot_id|>", "mk3 " + "word " * 60)}
    turns = [
        Turn(f"t{at}", at, "completed", (Message("user", f"u{at}", ask), Message("assistant", f"a{at}", answer)))
        for at, (ask, answer) in words.items()
    ]
    conversation = planner.conversation()
    conversation.extend(turns)
    request = PlanRequest(
        planner.bundle_id, CurrentRequest(id="q", text="q"), max_input_tokens=window, reserved_output_tokens=9
    )
    conversation.plan(replace(request, max_input_tokens=4_000))
    cold = replace(request, turns=tuple(turns))
    rungs = every_rung(planner.encoder(), cold)
    at = first_fit(rungs, lambda rung: rung.tokens, room_of(cold))
    wanted = None if at is None else rungs[at].reason
    for answer in (planner.plan(cold), conversation.plan(request)):
        assert (wanted, wanted is None) == (getattr(answer, "reason", None), answer.accepted)
    assert answer_bytes(planner.plan(cold)) == answer_bytes(conversation.plan(request))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [({}, False), ({"null_content": "raises", "reasoning": "raises"}, False), ({"tool_call": "raises"}, True)],
)
def test_a_template_that_raises_without_saying_so_is_known_by_its_profile(fields: dict[str, Any], wanted: bool) -> None:
    """It may fail by any error, so what the probe saw counts as well as its words; what we never give it does not."""
    bundle = ToyBundle("plain", "char")
    bundle.profile = replace(bundle.profile, **fields)
    assert wanted is Planner(bundle).encoder().may_raise
