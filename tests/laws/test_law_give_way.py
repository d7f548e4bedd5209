"""Bounds of the history and another order of giving way: fit still equals a scan of every rung (law 2)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from planner.values.give_way import order_problem
from planner.values.plan import Plan, Refusal
from planner.values.request import Options, SectionBounds, Sections
from tests.laws.common import TOYS, between, every_rung, plan_with, room_of, toy, with_room
from tests.oracles.scan import first_fit
from tests.strategies import PLAIN_TEXT, Wanted, requests, summaries_of

ORDERS = [order for size in (0, 1, 2, 4) for order in itertools.permutations((2, 3, 4, 5), size)
          if order_problem(order) is None]  # fmt: skip
TOKENS = st.one_of(st.none(), st.integers(0, 400))


def _options(draw: st.DrawFn) -> Options:
    bounds = SectionBounds(draw(TOKENS), draw(TOKENS))
    retrieval = SectionBounds(draw(st.sampled_from((None, None, 40))), draw(st.sampled_from((None, None, 60))))
    most = draw(st.sampled_from((None, None, 30)))
    return Options(
        give_way_order=draw(st.sampled_from(ORDERS)),
        sections=Sections(bounds, SectionBounds(max=most), retrieval),
        allow_history_eviction=draw(st.sampled_from((True, True, True, False))),
    )


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_every_order_and_bound_equals_a_linear_scan(template: str, pieces: str, data: st.DataObject) -> None:
    """With summaries and without; where all fits nothing leaves, whatever the bounds."""
    planner = toy(template, pieces)
    wanted = Wanted(texts=PLAIN_TEXT, max_turns=8, late_system=False, tools=False)
    request = data.draw(requests(planner.bundle_id, wanted, options=_options))
    turns = tuple(turn for turn in request.turns if turn.id != "own")
    summaries = data.draw(st.one_of(st.just(()), summaries_of(turns)))
    request = with_room(request, 100_000)
    whole = every_rung(planner.encoder(), request, summaries)
    sizes = [one.tokens for one in whole]
    request = with_room(request, between(min(sizes), max(sizes), data.draw(st.floats(0, 1))))
    whole = every_rung(planner.encoder(), request, summaries)  # the most of summaries depends on the room
    made = first_fit(whole, lambda one: one.tokens, room_of(request))
    answer = plan_with(planner.encoder(), request, summaries)
    if made is None:
        assert isinstance(answer, Refusal)
        return
    assert isinstance(answer, Plan), answer
    event("moved" if made else "whole")
    assert whole[made].turns == tuple(key for key in answer.kept if key.startswith(("turn/", "summary/")))
    assert whole[made].passages == tuple(key for key in answer.kept if key.startswith("passage/"))


@given(data=st.data())
def test_a_bound_orders_and_never_forces(data: st.DataObject) -> None:
    """Where everything fits, everything stays; and a plan under bounds is a refusal exactly where one without is."""
    planner = toy()
    wanted = Wanted(texts=PLAIN_TEXT, max_turns=6, late_system=False, tools=False)
    request = data.draw(requests(planner.bundle_id, wanted, options=_options))
    plain = replace(request.options, give_way_order=(), sections=Sections())
    wide = planner.plan(with_room(request, 100_000))
    assert isinstance(wide, Plan), wide
    assert wide.kept == planner.plan(with_room(replace(request, options=plain), 100_000)).kept  # type: ignore[union-attr]
    room = data.draw(st.integers(1, len(wide.ids)))
    answers = [planner.plan(with_room(one, room)) for one in (request, replace(request, options=plain))]
    assert 1 == len({isinstance(one, Plan) for one in answers})
