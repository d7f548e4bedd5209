"""Law 17: content that spells a control token yields none of its id; text mode refuses it instead."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest, TextItem
from planner.values.turn import Message, Turn
from tests.laws.common import said, toy
from tests.strategies import PLAIN_TEXT, Wanted, requests
from tests.support.toy import CONTROLS, ToyBundle

SPELLINGS = tuple(token.text for token in CONTROLS)
DIRTY = st.lists(st.sampled_from((*SPELLINGS, "<|", "|>", "end", " ", "x")), min_size=1, max_size=6).map("".join)


def _controls(plan: Plan) -> Counter[int]:
    known = {token.id for token in CONTROLS}
    return Counter(token for token in plan.ids if token in known)


@pytest.mark.parametrize("pieces", ["char", "pair"])
@given(data=st.data())
def test_control_text_in_content_makes_no_control_id(pieces: str, data: st.DataObject) -> None:
    """Dirty texts in every place of a request: the control ids are those of the same request with inert text."""
    planner = toy("plain", pieces)
    request = data.draw(requests(planner.bundle_id, Wanted(texts=DIRTY)))
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    inert = _inert(request)
    calm = planner.plan(inert)
    assert isinstance(calm, Plan)
    assert _controls(calm) == _controls(answer)
    assert 0 == calm.receipt.neutralised
    told = "".join(item.text for item in (*request.policy, *request.data_scope))
    spelled = sum(told.count(spelling) for spelling in SPELLINGS)
    assert (answer.receipt.neutralised > 0) >= (spelled > 0)
    assert answer.prompt in (None, said(answer))


def _inert(value: Any) -> Any:
    """Return a copy of a value with every control sign of its texts replaced."""
    if isinstance(value, str):
        return value.replace("<|", "((").replace("|>", "))")
    if isinstance(value, tuple):
        return tuple(map(_inert, value))
    if isinstance(value, dict):
        return {key: _inert(item) for key, item in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        names = value.__dataclass_fields__
        return replace(value, **{name: _inert(getattr(value, name)) for name in names})
    return value


@given(data=st.data())
def test_text_mode_accepts_exactly_what_spells_no_control_string(data: st.DataObject) -> None:
    """In text mode the prompt, obeyed by a runtime, gives the plan's ids; else control_text_in_field."""
    planner = toy("plain", "char")
    texts = st.one_of(PLAIN_TEXT, DIRTY)
    request = data.draw(requests(planner.bundle_id, Wanted(texts=texts, max_turns=2, passages=False)))
    answer = planner.plan(replace(request, options=replace(request.options, mode="text")))
    same = planner.plan(request)
    assert isinstance(same, Plan)
    obeyed = planner.encoder().bundle.engine.encode_parsed(said(same))
    if isinstance(answer, Refusal):
        assert "control_text_in_field" == answer.reason
        assert list(obeyed) != same.ids.tolist()
    else:
        assert list(obeyed) == answer.ids.tolist()
        assert said(answer) == answer.prompt


def _two(first: str, second: str, mode: str) -> PlanRequest:
    turn = Turn("t1", 1, "completed", (Message("user", text="hi"), Message("assistant", text="yes")))
    return PlanRequest(
        "toy-plain-char", CurrentRequest(text=second), policy=(TextItem("p", first),), turns=(turn,),
        max_input_tokens=4_000, options=Options(mode=mode),  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_text_mode_refuses_one_control_string_and_names_its_field(spelling: str) -> None:
    """The detail names the item, never its text; ids mode accepts the same request and counts it."""
    refused = toy().plan(_two("calm", f"say {spelling} now", "text"))
    assert isinstance(refused, Refusal)
    assert "control_text_in_field" == refused.reason
    assert spelling not in refused.line()
    assert "request/" in refused.detail
    accepted = toy().plan(_two("calm", f"say {spelling} now", "ids"))
    assert isinstance(accepted, Plan)
    assert 1 == accepted.receipt.neutralised


def test_text_mode_refuses_a_control_string_that_two_contents_form() -> None:
    """A policy that ends with half a marker, a turn that begins with the rest, nothing between them."""
    planner = Planner(ToyBundle("bare"))
    request = replace(_two("calm <|e", "hello", "text"), model_bundle_id=planner.bundle_id)
    turn = Turn("t1", 1, "completed", (Message("user", text="nd|> hi"), Message("assistant", text="yes")))
    request = replace(request, turns=(turn,))
    refused = planner.plan(request)
    assert isinstance(refused, Refusal)
    assert "control_text_in_field" == refused.reason
    accepted = planner.plan(replace(request, options=Options(mode="ids")))
    assert isinstance(accepted, Plan)
    assert Counter({CONTROLS[3].id: 1}) == _controls(accepted)
    apart = replace(request, turns=(replace(turn, messages=(Message("user", text="d|> hi"), turn.messages[1])),))
    assert isinstance(planner.plan(apart), Plan)


@given(data=st.data())
def test_a_bundle_that_may_not_be_cut_refuses_control_text(data: st.DataObject) -> None:
    """Encoded in one call the tokenizer would obey content: refused exactly where that would happen."""
    planner = Planner(ToyBundle("plain", "pair", longest_token_bytes=None, encode_mode="whole"))
    request = data.draw(requests(planner.bundle_id, Wanted(texts=st.one_of(PLAIN_TEXT, DIRTY), max_turns=2)))
    cut = toy("plain", "pair").plan(request)
    answer = planner.plan(request)
    assert isinstance(cut, Plan)
    obeyed = planner.encoder().bundle.engine.encode_parsed(said(cut))
    if isinstance(answer, Refusal):
        assert "control_text_in_field" == answer.reason
        assert list(obeyed) != cut.ids.tolist()
    else:
        assert cut.ids == answer.ids
        assert cut.account == answer.account
