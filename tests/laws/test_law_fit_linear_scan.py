"""Law 2: `fit` equals a linear scan of the ladder; law 3: kept turns are the longest suffix that fits."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.values.plan import Plan, Refusal
from tests.laws.common import (
    TOYS,
    between,
    ids_of_rung,
    kept,
    own_turn_id,
    room_of,
    sizes,
    toy,
    with_room,
)
from tests.oracles.rungs import rungs
from tests.oracles.scan import first_fit
from tests.oracles.suffix import longest_suffix
from tests.strategies import Options, Wanted, requests


def _options(draw: st.DrawFn) -> Options:
    return Options(low_value_line=draw(st.sampled_from((None, None, 0.3, 0.6))))


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_fit_takes_the_rung_a_linear_scan_takes(template: str, pieces: str, data: st.DataObject) -> None:
    """Ids, kept turns and passages are those of the first rung within the room, measured one by one."""
    planner = toy(template, pieces)
    request = data.draw(requests(planner.bundle_id, options=_options))
    measured = sizes(planner, request)
    room = data.draw(st.sampled_from(measured)) + data.draw(st.integers(-2, 2))
    request = with_room(request, room)
    at = first_fit(measured, int, room_of(request))
    event("overflow" if at is None else "whole" if at == 0 else "cut")
    answer = planner.plan(request)
    if at is None:
        assert isinstance(answer, Refusal)
        assert "context_policy_overflow" == answer.outcome
        return
    turns, cited = rungs(request)[at]
    assert isinstance(answer, Plan), answer
    assert (*turns, own_turn_id(request)) == kept(answer, "turn")
    assert cited == kept(answer, "passage")
    assert ids_of_rung(planner, request, turns, cited) == answer.ids.tolist()


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_kept_turns_are_the_longest_whole_turn_suffix(template: str, pieces: str, data: st.DataObject) -> None:
    """Beside protected and open turns, the turns that stay are the longest suffix that fits."""
    planner = toy(template, pieces)
    request = data.draw(requests(planner.bundle_id, Wanted(passages=False, max_turns=9)))
    turns = [name for name in rungs(request)[0][0]]
    by_id = {turn.id: turn for turn in request.turns}
    pinned = [at for at, name in enumerate(turns) if by_id[name].pinned or by_id[name].state == "open"]

    def tokens(positions: object) -> int:
        return len(ids_of_rung(planner, request, tuple(turns[at] for at in positions), ()))  # type: ignore[attr-defined]

    full, least = tokens(range(len(turns))), tokens(pinned)
    request = with_room(request, between(least, full, data.draw(st.floats(0, 1.1))))
    right = longest_suffix(len(turns), pinned, tokens, room_of(request))
    answer = planner.plan(request)
    if right is None:
        assert not answer.accepted
        return
    assert isinstance(answer, Plan), answer
    assert [turns[at] for at in right] == list(kept(answer, "turn")[:-1])
