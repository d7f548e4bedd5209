"""What a count rests on: ids of the bundle's tokenizer, and of images and sounds what the bundle declares."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from planner.gate.checks import check_answer
from planner.gate.deep import findings
from planner.gate.plan_file import judge_bytes
from planner.values.candidate import Candidate
from planner.values.gate import Expectation
from planner.values.plan import Plan
from planner.wire.dump import dump_plan_file
from tests.gate.gate_support import ZERO
from tests.parts.test_plans import IMAGE, asked, toy_with, turn


def judged(**fields: Any) -> list[str]:
    """Return the codes for a plan with an image in its question and in its history, fields of its receipt changed."""
    planner = toy_with()
    bundle = planner.encoder().bundle
    made = Candidate("1.0", (bundle.manifest.digest,), "1", ZERO, "1.0", ZERO, ZERO)
    turns = tuple(turn(number, IMAGE, "what is it? " * 3) for number in range(1, 9))
    request = asked("look: ", IMAGE, "?", turns=turns, room=400)
    request = replace(request, candidate_id=made.candidate_id, app_version="1.0")
    answer = planner.plan(request)
    assert isinstance(answer, Plan)
    assert answer.receipt.parts
    assert answer.removed
    file = dump_plan_file(answer.plan_file)
    assert judge_bytes(file).message is None
    assert [] == findings(json.loads(file), request, planner.plan(request), bundle)
    answer = replace(answer, receipt=replace(answer.receipt, **fields))
    return [one.code for one in check_answer(request, answer, Expectation(), bundle, made)]


def test_a_plan_with_images_passes() -> None:
    """As many placeholders stand in the ids as were declared, and the deep check finds them too."""
    assert [] == judged()


@pytest.mark.parametrize(
    "fields",
    [{"count_source": "upper_bound"}, {"count_source": "counted_by_runtime"}, {"count_source": "exact"}, {"parts": ()}],
)
def test_a_count_of_another_source_is_not_exact(fields: dict[str, Any]) -> None:
    """Bounds never pass, a runtime's counts not without a table of them, and what is declared names its parts."""
    assert ["count_not_exact"] == judged(**fields)
