"""Law 4: no kept call lacks its result, no kept result its call; law 11: sequence strictly increases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.values.plan import Plan
from tests.laws.common import between, kept, sizes, toy, with_room
from tests.strategies import Wanted, requests
from tests.support.toy import CONTROLS

NAME_OF = {token.id: token.text[2:-2] for token in CONTROLS}


@given(data=st.data())
def test_calls_and_results_stand_together_in_the_ids(data: st.DataObject) -> None:
    """Read off the ids alone: results follow as many calls, and a turn ends with every call answered."""
    planner = toy("plain", "pair")
    request = data.draw(requests(planner.bundle_id, Wanted(max_turns=8)))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1))))
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    marks = [NAME_OF[token] for token in answer.ids if token in NAME_OF]
    waiting, asked = 0, False
    for mark in marks[:-1]:  # the last marker asks for the answer
        if mark == "user":
            assert waiting == 0, "a turn begins while a call of the turn before it waits"
            asked = True
        elif mark in ("assistant", "tool"):
            assert asked, "an answer or a result without a question"
            waiting -= mark == "tool"
            assert waiting >= 0, "a result without its call"
        elif mark == "call":
            waiting += 1
    own = request.turns[-1] if request.request.text is None else None
    calls = sum(len(message.tool_calls) for message in own.messages) if own is not None else 0
    results = sum(message.role == "tool" for message in own.messages) if own is not None else 0
    assert calls - results == waiting


@given(data=st.data())
def test_sequence_strictly_increases_over_kept_turns(data: st.DataObject) -> None:
    """Kept turns and the plan file's items stand by sequence, whatever order the turns came in."""
    planner = toy("plain", "char")
    request = data.draw(requests(planner.bundle_id, Wanted(passages=False, max_turns=9)))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1))))
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    sequence = {turn.id: turn.sequence for turn in request.turns}
    order = [sequence[name] for name in kept(answer, "turn") if name in sequence]
    assert sorted(set(order)) == order
    filed = [item.sequence for item in answer.plan_file.items if item.sequence is not None]
    assert sorted(set(filed)) == filed
