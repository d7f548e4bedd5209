"""A plan that stands alone is rendered whole, so its prompt is there whatever the options made of the cut."""

from __future__ import annotations

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, Options, PlanRequest, Previous
from planner.values.turn import Message, Turn


def _talk(number: int) -> Turn:
    messages = (Message("user", text=f"Question {number}? " * 8), Message("assistant", text=f"Answer {number}. " * 8))
    return Turn(f"t{number}", number, "completed", messages)


@pytest.mark.parametrize(
    ("options", "previous"),
    [
        (Options(), None),
        (Options(low_water=0.4), None),
        (Options(low_water=0.7), Previous(first_kept_turn_id="t25")),
        (Options(sticky=True), Previous(first_kept_turn_id="t28")),
    ],
)
def test_every_cold_plan_has_its_prompt(options: Options, previous: Previous | None) -> None:
    """Several rungs are measured for one plan; none of them is put together from another's ids."""
    request = PlanRequest(
        "reference", CurrentRequest(text="And now?"), turns=tuple(_talk(number) for number in range(1, 31)),
        max_input_tokens=700, reserved_output_tokens=50, options=options, previous=previous,
    )  # fmt: skip
    planner = Planner("reference")
    answer = planner.plan(request)
    assert isinstance(answer, Plan), answer
    assert answer.prompt
    assert list(answer.ids) == list(planner.encoder().bundle.engine.encode_parsed(answer.prompt))
