"""Law 18: receipts, refusals, events and reprs hold no content: a marker in every text is never found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planner.planner import PlanEvent, Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, PlanRequest
from planner.wire.dump import dump_plan_file, dump_receipt, dump_refusal
from tests.laws.common import between, said, sizes, toy, with_room
from tests.strategies import Wanted, requests
from tests.support.toy import ToyBundle

MARKER = re.compile("qz[0-9]+v")
MARKED = st.integers(100, 999).map(lambda number: f"qz{number}v <|end|> qz{number}v")
EVENTS: list[PlanEvent] = []
PLAIN = Planner(ToyBundle("plain", "char", longest_token_bytes=None), on_plan=EVENTS.append)
STRICT = Planner(ToyBundle("strict", "char", longest_token_bytes=None), on_plan=EVENTS.append)
KEYED = Planner(ToyBundle("plain", "char", longest_token_bytes=None), digest_key=b"key of the test")


def shown(answer: Plan | Refusal) -> Iterator[str]:
    """Give everything that a log may show of an answer, as text."""
    yield dump_receipt(answer.receipt).decode()
    yield repr(answer)
    yield repr(answer.receipt)
    yield repr(dict(answer.diagnostics))
    if isinstance(answer, Refusal):
        yield answer.line()
        yield dump_refusal(answer).decode()
        yield str(answer.advice)
    else:
        yield dump_plan_file(answer.plan_file).decode()
        yield repr(answer.plan_file)
        yield repr(answer.removed)


def values_in(value: Any) -> Iterator[Any]:
    """Give every dataclass inside a value, the value itself first."""
    if is_dataclass(value):
        yield value
        for one in fields(value):
            yield from values_in(getattr(value, one.name))
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from values_in(item)


def _answers(request: PlanRequest, data: st.DataObject) -> Iterator[Plan | Refusal]:
    measured = sizes(toy(), request)
    share = data.draw(st.floats(-0.3, 1))
    squeezed = with_room(request, max(1, between(measured[-1], measured[0], share)))
    yield PLAIN.plan(squeezed)
    yield KEYED.plan(squeezed)
    yield PLAIN.plan(replace(request, options=Options(mode="text")))
    yield PLAIN.plan(replace(request, max_input_tokens=0))
    yield PLAIN.plan(replace(request, conversation_id="qz1v qz1v"))
    yield PLAIN.plan(replace(request, template_options={"qz123v": "qz124v"}))
    broken = [replace(turn, state="qz999v") for turn in request.turns[:1]]  # type: ignore[arg-type]
    yield PLAIN.plan(replace(request, turns=(*broken, *request.turns[1:])))
    yield STRICT.plan(replace(squeezed, model_bundle_id=STRICT.bundle_id))


@given(data=st.data())
def test_a_marker_in_every_text_is_in_no_receipt_line_event_or_repr(data: st.DataObject) -> None:
    """Plans and refusals of every kind; the prompt holds the markers, nothing a log may show does."""
    request = data.draw(requests("toy-plain-char", Wanted(texts=MARKED, max_turns=4)))
    EVENTS.clear()
    answers = list(_answers(request, data))
    for answer in answers:
        for text in shown(answer):
            # The ids of a broken request are echoed nowhere; the conversation's own id is an id, not a text.
            assert not MARKER.search(text.replace("qz1v qz1v", "")), MARKER.findall(text)[:3]
    assert any(isinstance(answer, Refusal) for answer in answers)
    assert len(answers) - 1 == len(EVENTS)
    assert not MARKER.search(repr(EVENTS))
    for value in values_in(request):
        assert not MARKER.search(repr(value)), type(value)


def test_the_markers_are_in_the_prompt() -> None:
    """The marker test looks for something that is there: a plan's prompt holds every one."""
    from planner.values.request import CurrentRequest, TextItem

    request = PlanRequest("toy-plain-char", CurrentRequest(text="qz1v"), policy=(TextItem("p", "qz2v"),),
                          max_input_tokens=2_000)  # fmt: skip
    answer = PLAIN.plan(request)
    assert isinstance(answer, Plan)
    assert ["qz2v", "qz1v"] == MARKER.findall(said(answer))
