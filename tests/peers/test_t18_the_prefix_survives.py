"""LM Studio #1978: with a full window every turn evaluated everything anew."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, Options, Previous
from planner.values.turn import Message, Turn
from tests.laws.common import toy
from tests.peers.support import chat

ROOM, TURNS, LOW_WATER = 1_500, 50, 0.6


@pytest.mark.parametrize("bundle", ["toy", "reference"])
def test_T18_between_moves_of_the_cut_each_prompt_continues_the_last(bundle: str) -> None:
    """Over 50 turns the cut moves at most once per freed share of the room, and otherwise every prompt is a prefix."""
    planner = toy() if bundle == "toy" else Planner("reference")
    talk = planner.conversation()
    previous: Previous | None = None
    last: Plan | None = None
    moves, used = 0, []
    options = Options(low_water=LOW_WATER)
    answer_text = "the sea is calm today " * 4
    for at in range(1, TURNS + 1):
        asked = f"what about bay {at}?"
        request = replace(chat(tools=(), options=options, previous=previous), model_bundle_id=planner.bundle_id,
                          request=CurrentRequest(turn_id=f"t{at}", text=asked), max_input_tokens=ROOM)  # fmt: skip
        answer = talk.plan(request)
        assert isinstance(answer, Plan)
        if last is not None:
            continues = answer.ids[: len(last.ids)] == last.ids
            assert continues == (answer.receipt.prefix is not None and answer.receipt.prefix.broken_by == "appended")
            moves += not continues
        used.append(len(answer.ids))
        first = next((key[5:] for key in answer.kept if key.startswith("turn/") and key != f"turn/t{at}"), None)
        previous = Previous(plan_id=answer.receipt.plan_id, first_kept_turn_id=first, ids=tuple(answer.ids))
        last = answer
        talk.append(
            Turn(f"t{at}", at, "completed", (Message("user", text=asked), Message("assistant", text=answer_text)))
        )
    grown = sum(later - before for before, later in pairwise(used) if later > before)
    movable = ROOM - min(used)
    freed = int((1 - LOW_WATER) * movable) - max(later - before for before, later in pairwise(used))
    assert 1 <= moves <= -(-(grown - movable) // freed) + 1
    assert moves < TURNS // 4
