"""Law 10: every input id is once in kept or in removed with a reason, and never in both."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from planner.values.plan import Plan
from planner.values.reasons import CODES
from planner.values.request import PlanRequest
from tests.laws.common import between, own_turn_id, sizes, toy, with_room
from tests.strategies import requests


def input_ids(request: PlanRequest) -> list[str]:
    """List every `kind/id` a request brings; its own turn is there even where only a text came."""
    out = [f"policy/{item.id}" for item in request.policy] + [f"scope/{item.id}" for item in request.data_scope]
    out += [f"schema/{request.output_schema.id}"] if request.output_schema is not None else []
    out += [f"tool/{tool.id}" for tool in request.tools]
    out += [f"passage/{passage.citation_id}" for passage in request.passages]
    out += [f"preference/{item.id}" for item in request.preferences]
    out += [f"parameter/{item.id}" for item in request.request.required_parameters]
    turns = dict.fromkeys([*(turn.id for turn in request.turns), own_turn_id(request)])
    return [*out, *(f"turn/{name}" for name in turns), f"request/{request.request.id}"]


def removed_ids(request: PlanRequest, answer: Plan) -> list[str]:
    """List what the receipt says left, every range of turns written out."""
    ordered = [turn.id for turn in sorted(request.turns, key=lambda turn: turn.sequence)]
    lost: list[str] = []
    for entry in answer.removed:
        if entry.last_id is None:
            assert entry.count == 1
            lost.append(entry.id)
            continue
        first, last = (ordered.index(name.partition("/")[2]) for name in (entry.id, entry.last_id))
        inside = [f"turn/{name}" for name in ordered[first : last + 1]]
        named = [key for key in inside if key not in answer.kept and not _never_rendered(request, key)]
        assert entry.count == len(named)
        lost += named
    return lost


def _never_rendered(request: PlanRequest, key: str) -> bool:
    state = next(turn.state for turn in request.turns if f"turn/{turn.id}" == key)
    return state in ("cancelled", "superseded")


@given(data=st.data())
def test_every_input_id_is_kept_or_removed_exactly_once(data: st.DataObject) -> None:
    """Nothing is lost silently, listed twice, or removed without a code of the table."""
    planner = toy("jitter", "char")
    request = data.draw(requests(planner.bundle_id))
    measured = sizes(planner, request)
    request = with_room(request, between(measured[-1], measured[0], data.draw(st.floats(0, 1))))
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    found = Counter([*answer.kept, *removed_ids(request, answer)])
    assert Counter(input_ids(request)) == found
    assert answer.receipt.kept == answer.kept
    assert answer.receipt.removed == answer.removed
    assert {"removal"} >= {CODES[entry.reason].kind for entry in answer.removed}
    assert set(answer.kept).isdisjoint(answer.plan_file.removed_ids)
    left = [key for key in removed_ids(request, answer) if key.startswith("turn/")]
    counted = [key for key in left if not _never_rendered(request, key)]
    reduced = answer.receipt.history_reduced
    assert len(counted) == (reduced.removed if reduced is not None else 0)
