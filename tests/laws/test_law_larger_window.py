"""Law 6: a larger window never yields a leaner rung, so more budget never removes anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.plan import Plan
from tests.laws.common import TOYS, between, sizes, toy, with_room
from tests.strategies import requests


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_more_room_never_removes_anything(template: str, pieces: str, data: st.DataObject) -> None:
    """What a smaller window keeps, a larger one keeps too."""
    planner = toy(template, pieces)
    request = data.draw(requests(planner.bundle_id))
    measured = sizes(planner, request)
    shares = sorted((data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))))
    low, high = (with_room(request, between(measured[-1], measured[0], share)) for share in shares)
    small, large = planner.plan(low), planner.plan(high)
    if isinstance(small, Plan):
        assert isinstance(large, Plan)
        assert set(small.kept) <= set(large.kept)


@given(data=st.data())
def test_nothing_is_removed_while_everything_fits(data: st.DataObject) -> None:
    """At the exact size of everything, everything stays."""
    planner = toy("jitter", "pair")
    request = data.draw(requests(planner.bundle_id))
    answer = planner.plan(with_room(request, sizes(planner, request)[0]))
    assert isinstance(answer, Plan), answer
    assert {"cancelled", "superseded"} >= {entry.reason for entry in answer.removed}
    assert answer.receipt.history_reduced is None
