"""Law 21: appending a completed turn keeps the earlier ids as a prefix, for bundles that are append-stable."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.values.plan import Plan
from planner.values.request import CurrentRequest, Previous
from planner.values.turn import Message, Turn
from tests.laws.common import toy
from tests.strategies import SOME_TEXT, Wanted, requests


@given(data=st.data())
def test_an_answered_question_extends_the_ids_it_was_planned_with(data: st.DataObject) -> None:
    """The question becomes a completed turn, the next one follows: the earlier ids stand at the front."""
    planner = toy("plain", "pair")
    assert planner.encoder().bundle.profile.append_stable
    request = data.draw(requests(planner.bundle_id, Wanted(passages=False)))
    question = data.draw(SOME_TEXT)
    request = replace(
        request, request=CurrentRequest(id="q", text=question), preferences=(),
        turns=tuple(turn for turn in request.turns if turn.state != "open"),
    )  # fmt: skip
    first = planner.plan(request)
    assert isinstance(first, Plan)
    last = max((turn.sequence for turn in request.turns), default=0)
    asked = Turn("asked", last + 1, "completed",
                 (Message("user", text=question), Message("assistant", text=data.draw(SOME_TEXT))))  # fmt: skip
    previous = Previous(plan_id=first.receipt.plan_id, ids=tuple(first.ids), first_kept_turn_id=None)
    later = replace(
        request, turns=(*request.turns, asked), request=CurrentRequest(id="q2", text=data.draw(SOME_TEXT)),
        previous=previous,
    )  # fmt: skip
    second = planner.plan(later)
    assert isinstance(second, Plan)
    assert first.ids == second.ids[: len(first.ids)]
    report = second.receipt.prefix
    assert report is not None
    assert (len(first.ids), "appended") == (report.common_tokens, report.broken_by)
    assert len(second.ids) - len(first.ids) == second.receipt.fresh_tokens
