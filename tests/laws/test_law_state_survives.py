"""Laws 9, 10, 11 and 12 with state: whatever the window, constraints, open items, withdrawals and the tail survive."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.values.plan import Plan
from planner.values.request import PlanRequest
from planner.values.turn import Turn
from tests.laws.common import TOYS, between, every_rung, own_turn_id, said, toy, with_room
from tests.strategies_state import state_requests


def _drawn(template: str, pieces: str, data: st.DataObject) -> tuple[PlanRequest, Plan | None]:
    planner = toy(template, pieces)
    request = data.draw(state_requests(planner.bundle_id))
    measured = [one.tokens for one in every_rung(planner.encoder(), request)]
    request = with_room(request, between(min(measured), max(measured), data.draw(st.floats(0, 1))))
    answer = planner.plan(request)
    event("plan" if isinstance(answer, Plan) else answer.reason)
    return request, answer if isinstance(answer, Plan) else None


def _marks(request: PlanRequest) -> tuple[dict[str, tuple[Turn, str | None]], dict[str, list[tuple[Turn, Turn]]]]:
    """Return live marks by id, and for each id the pairs of a mark's turn and the turn that withdrew it."""
    live: dict[str, tuple[Turn, str | None]] = {}
    ended: dict[str, list[tuple[Turn, Turn]]] = {}
    for turn in sorted(request.turns, key=lambda one: one.sequence):
        if turn.state == "superseded":
            continue
        for name in turn.supersedes:
            if name in live:
                ended.setdefault(name, []).append((live.pop(name)[0], turn))
        for mark in turn.must_preserve:
            live[mark.constraint_id] = (turn, mark.text)
    return live, ended


def _shown(request: PlanRequest, answer: Plan) -> tuple[set[str], set[str], set[str]]:
    """Return ids of raw turns, of summaries in the prompt, and of the turns these cover."""
    raw = {key[5:] for key in answer.kept if key.startswith("turn/")}
    used = {key[8:] for key in answer.kept if key.startswith("summary/")}
    spans = [(one.covers_from, one.covers_to) for one in request.summaries if one.id in used]
    covered = {turn.id for turn in request.turns if any(low <= turn.sequence <= high for low, high in spans)}
    return raw, used, covered


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_every_live_constraint_is_carried(template: str, pieces: str, data: st.DataObject) -> None:
    """It stands in its raw turn, or its own text stands once in the prompt; a withdrawn one stands nowhere alone."""
    request, answer = _drawn(template, pieces, data)
    if answer is None:
        return
    live, ended = _marks(request)
    raw, used, covered = _shown(request, answer)
    stated = {key[11:] for key in answer.kept if key.startswith("constraint/")}
    assert stated == {name for name, (turn, _) in live.items() if turn.id not in raw}
    assert all(live[name][1] is not None for name in stated)
    assert all(f"- {live[name][1]}\n" in said(answer) for name in stated)
    assert set(live) == set(answer.plan_file.required_constraint_ids)
    carried = {name for item in answer.plan_file.items for name in item.constraint_ids}
    assert set(live) == carried
    assert sum(answer.account.items.get(f"constraint/{name}", 0) for name in stated) == answer.account.constraint_tokens
    assert answer.account.constraint_tokens <= answer.account.policy_tokens
    for name, pairs in ended.items():
        if name not in live:
            assert not any(name in one.required_constraint_ids for one in request.summaries if one.id in used)
        for marker, later in pairs:
            assert marker.id not in raw or later.id in raw | covered or later.state == "cancelled"


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_what_may_not_leave_stays(template: str, pieces: str, data: st.DataObject) -> None:
    """Open items, the named tail, protected turns, and every turn where eviction is forbidden (X34, X35, R137)."""
    request, answer = _drawn(template, pieces, data)
    if answer is None:
        return
    raw, used, covered = _shown(request, answer)
    own = own_turn_id(request)
    shown = [turn for turn in request.turns if turn.state in ("completed", "open") and turn.id != own]
    items: dict[str, tuple[Turn, str]] = {}
    for turn in request.turns:
        for item in turn.open_items:
            if turn.state != "superseded":
                items[item.id] = (turn, item.status)
    for name, (turn, status) in items.items():
        if status != "done" and turn.state == "completed":
            echoed = any(name in one.open_items for one in request.summaries if one.id in used)
            assert turn.id in raw or echoed
    assert {turn.id for turn in shown if turn.pinned or turn.state == "open"} <= raw
    completed = [turn.id for turn in shown if turn.state == "completed"]
    if request.options.tail_turns is not None:
        assert set(completed[-request.options.tail_turns :]) <= raw
    if not request.options.allow_history_eviction:
        assert set(completed) <= raw | covered


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_nothing_stands_twice_and_the_receipt_says_what_is_missing(
    template: str, pieces: str, data: st.DataObject
) -> None:
    """No turn is raw and covered; order never goes back; every id is kept or removed, once; a gap is stated."""
    request, answer = _drawn(template, pieces, data)
    if answer is None:
        return
    raw, used, covered = _shown(request, answer)
    assert raw.isdisjoint(covered)
    order = [turn.id for turn in sorted(request.turns, key=lambda one: one.sequence)]
    removed: list[str] = []
    for entry in answer.removed:
        kind, _, name = entry.id.partition("/")
        if kind == "turn" and entry.last_id is not None:
            last = order.index(entry.last_id.partition("/")[2])
            inside = [one for one in order[order.index(name) : last + 1] if one not in _hidden(request)]
            assert len(inside) == entry.count
            removed += [f"turn/{one}" for one in inside]
        else:
            removed.append(entry.id)
    wanted = {f"turn/{name}" for name in order} | {f"summary/{one.id}" for one in request.summaries}
    mine = [key for key in (*answer.kept, *removed) if key.startswith(("turn/", "summary/"))]
    assert len(set(mine)) == len(mine)
    assert wanted | {f"turn/{own_turn_id(request)}"} == set(mine)
    missing = {name for name in order if name not in raw | covered and name not in _hidden(request)}
    reduced = answer.receipt.history_reduced
    assert len(missing) == (0 if reduced is None else reduced.removed)
    assert ("notice/history" in answer.kept) == (bool(missing) and request.options.history_notice == "prompt")
    sequences = [item.sequence for item in answer.plan_file.items if item.sequence is not None]
    assert sorted(set(sequences)) == sequences
    assert sum(item.tokens for item in answer.plan_file.items) == len(answer.ids)
    assert {use.id for use in answer.receipt.summaries} == {one.id for one in request.summaries}
    assert used == {use.id for use in answer.receipt.summaries if use.fate == "used"}


def _hidden(request: PlanRequest) -> set[str]:
    return {turn.id for turn in request.turns if turn.state in ("cancelled", "superseded")}
