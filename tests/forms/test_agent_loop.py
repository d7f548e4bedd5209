"""An agent's loop of 60 calls in one open turn, planned at every step in an 8k window (X31, R47..R52)."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache

import pytest

from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, PlanRequest, TextItem
from planner.values.turn import Message, ToolCall, ToolResult, Turn
from tests.forms.common import Forms, rows_of, with_texts
from tests.laws.common import answer_bytes
from tests.strategies import tool_of

QWEN, CALLS, WINDOW, RESERVE = "qwen3-0.6b", 60, 8_192, 512
ROOM = WINDOW - RESERVE - 1


@cache
def planner() -> Planner:
    """Open the bundle once."""
    return Planner(QWEN)


class Loop:
    """A turn that grows by a call and its result at each step; every word of the results is drawn from a seed."""

    def __init__(self, seed: int, *, forms: bool) -> None:
        self.random = random.Random(seed)
        self.forms = forms
        self.turn = Turn("t1", 1, "open", (Message("user", id="u", text="Check all sixty pumps and report."),))

    def step(self, number: int) -> None:
        """Add a call and its result: JSON, a log or prose."""
        reading = [self.random.randrange(10**6) for _ in range(40)]
        texts = (
            json.dumps({"pump": number, "readings": reading, "state": "ok"}, indent=2),
            "\n".join([f"pump {number}", *["no answer, trying again"] * 40, *(f"level {value}" for value in reading)]),
            " ".join(f"pump{number} reads {value};" for value in reading),
        )
        text = texts[number % 3]
        shorts = (f"pump {number}: first readings {reading[:4]}, see log {number}", f"pump {number} is fine")
        call = ToolCall(f"call_{number}", "look_up", {"q": f"pump {number}"})
        self.turn = replace(self.turn, messages=(
            *self.turn.messages, Message("assistant", id=f"a{number}", text="", tool_calls=(call,)),
            Message("tool", id=f"r{number}", tool_result=ToolResult(call.id, text, shorts if self.forms else ())),
        ))  # fmt: skip

    def request(self, options: Options) -> PlanRequest:
        """Return the request that continues the turn, without its turns."""
        return PlanRequest(
            QWEN, max_input_tokens=WINDOW, reserved_output_tokens=RESERVE, safety_margin_tokens=1, options=options,
            policy=(TextItem("p1", "You check pumps. Quote readings."),), tools=(tool_of("look_up", "Reads a pump"),),
        )  # fmt: skip


def smallest(request: PlanRequest) -> int:
    """Return the tokens of the request with every result in its smallest form, planned without a limit."""
    forms: Forms = {key: row[-1] for key, row in rows_of(planner(), request).items()}
    wide = replace(with_texts(request, forms), max_input_tokens=1_000_000, options=Options())
    answer = planner().plan(wide)
    assert isinstance(answer, Plan)
    return len(answer.ids)


def check_pairs(answer: Plan, calls: int) -> None:
    """Assert that every call is there once and followed by its result, in order."""
    said = planner().encoder().bundle.engine.decode(answer.ids)
    body = said[said.index("Check all sixty pumps") :]
    assert calls == body.count("<tool_call>") == body.count("</tool_call>")
    assert calls == body.count("<tool_response>") == body.count("</tool_response>")
    places = [body.index(f'"q": "pump {number}"') for number in range(1, calls + 1)]
    assert sorted(places) == places
    pieces = body.split("<tool_call>")[1:]
    assert all(1 == piece.count("<tool_response>") for piece in pieces)


def shown_texts(answer: Plan, request: PlanRequest) -> Forms:
    """Return the texts that the receipt says are shown instead."""
    rows = rows_of(planner(), request)
    turn = request.turns[0]
    by_sequence = {turn.sequence_of(place): place for place in range(len(turn.messages))}
    out: Forms = {}
    for use in answer.receipt.forms:
        assert use.sequence is not None
        key = (use.id, by_sequence[use.sequence])
        out[key] = next(entry for entry in rows[key] if entry[0] == use.form)
    return out


OPTIONS = {
    "the application's forms": (True, Options()),
    "stubs alone": (False, Options(stubs=True)),
    "shrinking alone": (False, Options(shrink_results="all")),
    "everything": (True, Options(stubs=True, shrink_results="all")),
    "nothing": (False, Options()),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_sixty_calls_in_one_open_turn_stay_within_8k(name: str, seed: int) -> None:
    """Never over, never a broken pair; an overflow exactly where the smallest forms together do not fit."""
    forms, options = OPTIONS[name]
    loop, conversation = Loop(seed, forms=forms), planner().conversation()
    conversation.append(loop.turn)
    refused = shortened = 0
    for number in range(1, CALLS + 1):
        loop.step(number)
        conversation.replace(loop.turn)
        request = loop.request(options)
        answer = conversation.plan(request)
        whole = replace(request, turns=(loop.turn,))
        if isinstance(answer, Refusal):
            refused += 1
            assert "open_turn_overflow" == answer.reason
            if refused % 8 == 1:
                assert smallest(whole) - ROOM == answer.tokens_missing
            assert answer.tokens_missing > 0
            continue
        assert len(answer.ids) <= ROOM
        check_pairs(answer, number)
        shortened += bool(answer.receipt.forms)
        if number % 12 == 0:
            assert answer_bytes(planner().plan(whole)) == answer_bytes(answer)
            wide = replace(with_texts(whole, shown_texts(answer, whole)), max_input_tokens=10**6, options=Options())
            same = planner().plan(wide)
            assert isinstance(same, Plan)
            assert same.ids == answer.ids
    assert bool(refused) == (name in ("shrinking alone", "nothing"))
    assert bool(shortened) == (name != "nothing")
