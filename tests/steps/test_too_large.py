"""Items with more bytes than the window could ever hold leave unencoded, or refuse where they may not leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.planner import Planner
from planner.values.passage import Passage
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, PlanRequest, TextItem
from planner.values.turn import Message, Turn
from tests.laws.common import kept
from tests.support.toy import ToyBundle

PLANNER = Planner(ToyBundle("plain", "char", longest_token_bytes=4))
WINDOW = 200
HUGE = "x" * (4 * WINDOW + 1)


def _turn(number: int, text: str, **fields: object) -> Turn:
    message = Message("user", id=f"u{number}", text=text)
    turn = Turn(f"t{number}", number, "completed", (message, Message("assistant", text="rain")))
    return replace(turn, **fields)  # type: ignore[arg-type]


def _request(*turns: Turn, **fields: object) -> PlanRequest:
    request = PlanRequest(
        PLANNER.bundle_id, CurrentRequest(text="be"), turns=turns, max_input_tokens=WINDOW,
        reserved_output_tokens=0, safety_margin_tokens=0,
    )  # fmt: skip
    return replace(request, **fields)  # type: ignore[arg-type]


def test_a_too_large_turn_takes_every_older_unpinned_turn_with_it() -> None:
    """No hole is left: the huge turn is too_large, what is older beyond_too_large, what is newer stays."""
    answer = PLANNER.plan(_request(_turn(1, "a"), _turn(2, "b"), _turn(3, HUGE), _turn(4, "c"), _turn(5, "d")))
    assert isinstance(answer, Plan), answer
    assert ("t4", "t5") == kept(answer, "turn")[:-1]
    found = {(entry.id, entry.last_id, entry.count, entry.reason) for entry in answer.removed}
    assert {("turn/t1", "turn/t2", 2, "beyond_too_large"), ("turn/t3", None, 1, "too_large")} == found
    assert answer.receipt.history_reduced is not None
    assert 3 == answer.receipt.history_reduced.removed
    assert int(answer.diagnostics["characters_encoded"]) < len(HUGE), "it was never encoded"


def test_a_pinned_turn_older_than_a_too_large_one_stays() -> None:
    """Protection holds on the other side of the hole."""
    pinned = _turn(1, "a")
    pinned = replace(pinned, messages=(replace(pinned.messages[0], protection_reason="audit-evidence"),
                                       pinned.messages[1]))  # fmt: skip
    answer = PLANNER.plan(_request(pinned, _turn(2, "b"), _turn(3, HUGE), _turn(4, "c")))
    assert isinstance(answer, Plan), answer
    assert ("t1", "t4") == kept(answer, "turn")[:-1]
    assert {("turn/t2", "beyond_too_large"), ("turn/t3", "too_large")} == {
        (entry.id, entry.reason) for entry in answer.removed
    }


@pytest.mark.parametrize("newer", range(1, 24))
def test_a_too_large_turn_beyond_the_window_is_not_told_of(newer: int) -> None:
    """Whether a plan reads as far as it depends on what is remembered, so a conversation and a cold plan say the same.

    So many turns stand after it; where they alone are more than the window holds, everything older is over_budget.
    """
    turns = [_turn(1, "a"), _turn(2, HUGE), *(_turn(3 + at, "the pump is shut") for at in range(newer))]
    chat = PLANNER.conversation()
    chat.extend(turns[:-1])
    chat.plan(_request())
    chat.append(turns[-1])
    cold, warm = PLANNER.plan(_request(*turns)), chat.plan(_request())
    assert isinstance(cold, Plan), cold
    assert cold.receipt == warm.receipt


def test_a_turn_at_the_bound_is_measured_not_guessed() -> None:
    """Four bytes a token is the bound: at it a turn is measured, and leaves as over_budget."""
    answer = PLANNER.plan(_request(_turn(1, "x" * (4 * WINDOW - 4)), _turn(2, "c")))
    assert isinstance(answer, Plan), answer
    assert [("turn/t1", "over_budget")] == [(entry.id, entry.reason) for entry in answer.removed]


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": (TextItem("p", HUGE),)},
        {"data_scope": (TextItem("s", HUGE),)},
        {"request": CurrentRequest(text=HUGE)},
    ],
)
def test_a_required_item_that_is_too_large_refuses(fields: dict[str, object]) -> None:
    """Outcome context_policy_overflow, reason input_too_large, the item's id as detail, nothing encoded."""
    answer = PLANNER.plan(_request(**fields))
    assert isinstance(answer, Refusal)
    assert ("context_policy_overflow", "input_too_large") == (answer.outcome, answer.reason)
    assert "xx" not in answer.line()
    assert 0 == answer.diagnostics["characters_encoded"]


def test_a_pinned_turn_that_is_too_large_refuses() -> None:
    """What may not leave and cannot fit is an overflow that names the turn."""
    turn = _turn(1, HUGE)
    turn = replace(turn, messages=(replace(turn.messages[0], protection_reason="audit-evidence"), turn.messages[1]))
    answer = PLANNER.plan(_request(turn, _turn(2, "c")))
    assert isinstance(answer, Refusal)
    assert ("context_policy_overflow", "input_too_large") == (answer.outcome, answer.reason)
    assert "turn t1" in answer.detail


def test_a_too_large_passage_leaves_and_the_plan_goes_on() -> None:
    """A passage that can never fit is removed as too_large, the others stay."""
    passages = (Passage("big", HUGE, 1.0), Passage("small", "sea", 0.1))
    answer = PLANNER.plan(_request(passages=passages))
    assert isinstance(answer, Plan), answer
    assert ("small",) == kept(answer, "passage")
    assert [("passage/big", "too_large")] == [(entry.id, entry.reason) for entry in answer.removed]


def test_the_bound_is_off_where_one_token_may_cover_unbounded_text() -> None:
    """Without a longest token nothing is too large: it is measured, and the budget decides."""
    planner = Planner(ToyBundle("plain", "char", longest_token_bytes=None))
    answer = planner.plan(_request(_turn(1, HUGE), _turn(2, "c")))
    assert isinstance(answer, Plan), answer
    assert [("turn/t1", "over_budget")] == [(entry.id, entry.reason) for entry in answer.removed]
