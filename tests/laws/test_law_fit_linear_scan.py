"""Law 2: `fit` equals a linear scan of the ladder; law 3: kept turns are the longest suffix that fits."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.request import CONCESSIONS, Options, PlanRequest
from tests.conftest import MAX_EXAMPLES
from tests.laws.common import (
    TOYS,
    between,
    every_rung,
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
from tests.strategies import Wanted, requests
from tests.support.toy import ToyBundle


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
    turns = list(rungs(request)[0][0])
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


def _check_scan(planner: Planner, request: PlanRequest, data: st.DataObject) -> None:
    """Plan in a window beside the size of some rung, and compare with the scan over all of them."""
    scanned = every_rung(planner.encoder(), request)
    room = data.draw(st.sampled_from([one.tokens for one in scanned])) + data.draw(st.integers(-2, 2))
    request = with_room(request, room)
    at = first_fit(scanned, lambda one: one.tokens, room_of(request))
    answer = planner.plan(request)
    if at is None:
        event("overflow")
        assert isinstance(answer, Refusal)
        assert "context_policy_overflow" == answer.outcome
    elif scanned[at].reason is not None:
        event("not carried")
        assert isinstance(answer, Refusal)
        assert scanned[at].reason == answer.reason
    else:
        event("cut" if at else "whole")
        assert isinstance(answer, Plan), answer
        assert scanned[at].turns == tuple(key for key in answer.kept if key.startswith("turn/"))
        assert scanned[at].passages == tuple(key for key in answer.kept if key.startswith("passage/"))
        assert scanned[at].tokens == len(answer.ids)


def _may_concede(draw: st.DrawFn) -> Options:
    return Options(concessions=draw(st.sampled_from(((), CONCESSIONS))))


@given(data=st.data())
def test_rungs_that_cannot_be_carried_count_in_their_carried_form(data: st.DataObject) -> None:
    """A template that raises on neighbours and parallel calls: the scan decides between cut and refusal."""
    planner = _strict()
    _check_scan(planner, data.draw(requests(planner.bundle_id, options=_may_concede)), data)


@cache
def _strict() -> Planner:
    return Planner(ToyBundle("strict", "pair", longest_token_bytes=None))


@cache
def _real(place: str | Path) -> Planner:
    return Planner(place)


@pytest.mark.parametrize("name", ["qwen3-0.6b", "reference", "llama-3.1", "gemma-3"])
@settings(max_examples=max(4, MAX_EXAMPLES // 4))
@given(data=st.data())
def test_fit_equals_the_scan_on_real_bundles(name: str, data: st.DataObject, bundle_dir: Path) -> None:
    """The same on real templates and tokenizers, carried or not."""
    planner = _real(name if name in ("qwen3-0.6b", "reference") else bundle_dir / name)
    wanted = Wanted(max_turns=5, tools=name != "gemma-3", late_system=False)
    _check_scan(planner, data.draw(requests(planner.bundle_id, wanted, options=_may_concede)), data)
