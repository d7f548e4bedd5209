"""The laws with shorter forms: fit is a linear scan, larger is never leaner, a conversation equals its cold plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from planner.conversation import Conversation
from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Message, Turn, TurnState
from tests.conftest import MAX_EXAMPLES
from tests.forms.common import (
    SHRINKING,
    expected_names,
    form_requests,
    formed,
    ids_of,
    measured_rungs,
    named,
    own_id,
    rows_of,
    rungs_of,
    short_rows,
)
from tests.laws.common import TOYS, answer_bytes, between, kept, plan_with, room_of, toy, with_room
from tests.oracles.scan import first_fit
from tests.strategies import SOME_TEXT, Wanted, passage_lists, summaries_of, turn_of
from tests.support.toy import ToyBundle

STRICT = Planner(ToyBundle("strict", "char", longest_token_bytes=None))
BOUNDED = Planner(ToyBundle("jitter", "pair", longest_token_bytes=4))
CONVERSATIONS = {"plain": toy("plain", "pair"), "jitter": toy("jitter", "char"), "strict": STRICT, "bounded": BOUNDED}


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_fit_with_forms_takes_the_rung_a_linear_scan_takes(template: str, pieces: str, data: st.DataObject) -> None:
    """Ids, kept items and the forms of the receipt are those of the first rung within the room."""
    planner = toy(template, pieces)
    request = data.draw(form_requests(planner.bundle_id))
    every = rungs_of(planner, request)
    tokens = [len(ids_of(planner, request, one)) for one in every]
    request = with_room(request, data.draw(st.sampled_from(tokens)) + data.draw(st.integers(-2, 2)))
    at = first_fit(tokens, int, room_of(request))
    answer = planner.plan(request)
    if at is None:
        event("overflow")
        assert isinstance(answer, Refusal)
        assert "context_policy_overflow" == answer.outcome
        return
    event("forms" if every[at][2] else "whole")
    assert isinstance(answer, Plan), answer
    assert (*every[at][0], own_id(request)) == kept(answer, "turn")
    assert every[at][1] == kept(answer, "passage")
    assert expected_names(request, every[at]) == named(answer.receipt.forms)
    assert ids_of(planner, request, every[at]) == answer.ids.tolist()


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_more_room_never_shortens_anything(template: str, pieces: str, data: st.DataObject) -> None:
    """What a smaller window keeps, a larger one keeps too, in the same or a longer form."""
    planner = toy(template, pieces)
    request = data.draw(form_requests(planner.bundle_id))
    every = rungs_of(planner, request)
    ends = [len(ids_of(planner, request, one)) for one in (every[-1], every[0])]
    shares = sorted((data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))))
    small, large = (planner.plan(with_room(request, between(*ends, share))) for share in shares)
    if not isinstance(small, Plan):
        return
    assert isinstance(large, Plan)
    assert set(small.kept) <= set(large.kept)
    rows = rows_of(planner, request)
    turns = {f"turn/{turn.id}": turn for turn in request.turns}
    steps = {(key, turns[key].sequence_of(place) if key in turns else None, name): number
             for (key, place), row in rows.items() for number, (name, _) in enumerate(row)}  # fmt: skip
    at = {name[:2]: steps[name] for name in named(small.receipt.forms)}
    for name in named(large.receipt.forms):
        if name[0] in small.kept:
            assert steps[name] <= at[name[:2]]


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_forms_and_summaries_together_take_the_rung_of_the_scan(
    template: str, pieces: str, data: st.DataObject
) -> None:
    """Results shorten before a summary stands for their turns; ids, history and forms are those of the scan."""
    planner = toy(template, pieces)
    request = data.draw(form_requests(planner.bundle_id))
    own = own_id(request)
    summaries = data.draw(summaries_of(tuple(turn for turn in request.turns if turn.id != own)))
    scanned = measured_rungs(planner.encoder(), request, summaries)
    request = with_room(request, data.draw(st.sampled_from([one.tokens for one in scanned])))
    scanned = measured_rungs(planner.encoder(), request, summaries)  # a third of the history's room is the window's
    at = first_fit(scanned, lambda one: one.tokens, room_of(request))
    answer = plan_with(planner.encoder(), request, summaries)
    if at is None:
        assert isinstance(answer, Refusal)
        return
    assert isinstance(answer, Plan), answer
    selection = scanned[at].selection
    event(f"{'summaries' if any(isinstance(one, SummaryRecord) for one in selection.history) else 'raw'}, "
          f"{'forms' if selection.forms else 'whole'}")  # fmt: skip
    assert [one.id for one in selection.history] == [
        name for kind, _, name in (key.partition("/") for key in answer.kept) if kind in ("turn", "summary")
    ][:-1]
    assert {(key, form.name) for key, shown in selection.forms.items() for _, form in shown} == {
        (use.id, use.form) for use in answer.receipt.forms
    }
    assert scanned[at].tokens == len(answer.ids)


class History:
    """A conversation under test beside the plain list of turns it should stand for."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.conversation: Conversation = planner.conversation()
        self.turns: list[Turn] = []

    def append(self, data: st.DataObject) -> None:
        """Add the next turn."""
        sequence = (self.turns[-1].sequence if self.turns else 0) + 20
        state: TurnState = data.draw(st.sampled_from(("completed", "completed", "open")))
        turn = data.draw(turn_of(f"t{len(self.turns)}", sequence, state, Wanted()).flatmap(formed))
        self.conversation.append(turn)
        self.turns.append(turn)

    def close(self, data: st.DataObject) -> None:
        """Answer the newest open turn whose calls all have results."""
        for at, turn in enumerate(self.turns):
            calls = sum(len(message.tool_calls) for message in turn.messages)
            if turn.state == "open" and calls == sum(message.role == "tool" for message in turn.messages):
                told = Message("assistant", id=f"{turn.id}z", text=data.draw(SOME_TEXT))
                self.turns[at] = replace(turn, state="completed", messages=(*turn.messages, told))
                self.conversation.replace(self.turns[at])
                return

    def plan(self, data: st.DataObject) -> None:
        """Plan warm and cold, and compare every byte."""
        waiting = [turn for turn in self.turns if turn.state == "open"]
        asked = data.draw(st.one_of(st.none(), SOME_TEXT)) if waiting else data.draw(SOME_TEXT)
        passages = tuple(replace(one, short_forms=data.draw(short_rows(one.text)))
                         for one in data.draw(st.one_of(st.just(()), passage_lists())))  # fmt: skip
        options = Options(
            low_water=data.draw(st.sampled_from((1.0, 1.0, 0.6))), stubs=data.draw(st.booleans()),
            shrink_results=data.draw(st.sampled_from(SHRINKING)),
        )  # fmt: skip
        request = PlanRequest(
            self.planner.bundle_id, CurrentRequest(id="q", text=asked), options=options, passages=passages,
            max_input_tokens=data.draw(st.integers(20, 1_200)), reserved_output_tokens=data.draw(st.integers(0, 9)),
        )  # fmt: skip
        cold = self.planner.plan(replace(request, turns=tuple(self.turns)))
        warm = self.conversation.plan(request)
        event(cold.receipt.reason or ("forms" if cold.receipt.forms else "no forms"))
        assert answer_bytes(cold) == answer_bytes(warm)


@pytest.mark.parametrize("kind", sorted(CONVERSATIONS))
@given(data=st.data())
def test_a_growing_conversation_with_forms_plans_what_a_cold_planner_plans(kind: str, data: st.DataObject) -> None:
    """Ids, receipt and refusal are equal, whatever was remembered of forms that other options allowed."""
    history = History(CONVERSATIONS[kind])
    for _ in range(data.draw(st.integers(2, 10))):
        getattr(history, data.draw(st.sampled_from(("append", "append", "close", "plan", "plan"))))(data)
    history.plan(data)


@pytest.mark.parametrize("name", ["qwen3-0.6b", "reference"])
@settings(max_examples=max(4, MAX_EXAMPLES // 3))
@given(data=st.data())
def test_a_shipped_bundle_with_forms_takes_the_rung_of_the_scan(name: str, data: st.DataObject) -> None:
    """The same on real tokenizers and templates: exact size, kept items and forms of the first fitting rung."""
    planner = _real(name)
    request = data.draw(form_requests(name, Wanted(late_system=False)))
    scanned = measured_rungs(planner.encoder(), request)
    request = with_room(request, data.draw(st.sampled_from([one.tokens for one in scanned])))
    at = first_fit(scanned, lambda one: one.tokens, room_of(request))
    assert at is not None
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    assert scanned[at].tokens == len(answer.ids)
    wanted = {(key, form.name) for key, shown in scanned[at].selection.forms.items() for _, form in shown}
    event("forms" if wanted else "whole")
    assert wanted == {(use.id, use.form) for use in answer.receipt.forms}


_REAL: dict[str, Planner] = {}


def _real(name: str) -> Planner:
    return _REAL.setdefault(name, Planner(name))
