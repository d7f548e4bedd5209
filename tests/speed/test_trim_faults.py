"""The judge of the trimmers' benchmark: what it calls a fault is one, and a right answer has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchmarks.trim_faults import faults
from benchmarks.trimmers import Task, ours
from planner.planner import Planner
from tests.support.judge import Finding, Judge
from tests.support.reference import ReferenceBundle


@pytest.fixture(scope="module")
def judge(reference: Callable[[str], ReferenceBundle]) -> Judge:
    """The judge of one bundle at the benchmark's window."""
    return Judge(reference("qwen3-0.6b"))


@pytest.fixture(scope="module")
def cut(judge: Judge, dialogues: Sequence[Any]) -> tuple[Task, Finding]:
    """A dialogue with tools of which something must leave, and what is right for it."""
    for dialogue in dialogues:
        found = judge.find(dialogue)
        if found.outcome == "clean" and found.first and any(len(turn) > 2 for turn in dialogue.turns[found.first :]):
            return Task(judge, dialogue), found
    raise AssertionError("the corpus has such dialogues")


def first_long(task: Task, right: Finding) -> int:
    """Return the place in the right answer at which a turn with calls begins."""
    assert right.first is not None
    place = len(task.dialogue.policy)
    for turn in task.dialogue.turns[right.first :]:
        if len(turn) > 2:
            return place
        place += len(turn)
    raise AssertionError("the fixture has one")


def test_the_longest_whole_suffix_has_no_fault(cut: tuple[Task, Finding]) -> None:
    """The right answer, given by hand and given by the planner."""
    task, right = cut
    assert right.first is not None
    whole = [dict(one) for one in task.dialogue.suffix(right.first)]
    assert (set(), right.tokens) == faults(task, right, whole)
    assert whole == ours(Planner("qwen3-0.6b"), conceded=False)(task)
    assert {"refused without need"} == faults(task, right, None)[0]


@pytest.mark.parametrize(
    ("wanted", "change"),
    [
        ({"system lost"}, lambda kept, _: kept[1:]),
        ({"request lost", "open turn cut"}, lambda kept, _: kept[:-1]),
        ({"not user first", "partial turn"}, lambda kept, _: [kept[0], *kept[2:]]),
        ({"body rewritten", "partial turn"}, lambda kept, _: [kept[0], {**kept[1], "content": "short"}, *kept[2:]]),
        ({"unpaired", "partial turn"}, lambda kept, at: [*kept[: at + 1], *kept[at + 2 :]]),
        ({"unpaired", "partial turn"}, lambda kept, at: [*kept[: at + 2], *kept[at + 3 :]]),
    ],
)
def test_each_fault_is_named(cut: tuple[Task, Finding], wanted: set[str], change: Any) -> None:
    """One message less or changed: the named faults are among those found."""
    task, right = cut
    assert right.first is not None
    whole = [dict(one) for one in task.dialogue.suffix(right.first)]
    assert wanted <= faults(task, right, change(whole, first_long(task, right)))[0]


def test_a_turn_too_few_or_too_many_is_a_fault(cut: tuple[Task, Finding]) -> None:
    """One turn more is over the limit, one fewer was cut without need."""
    task, right = cut
    assert right.first is not None
    more = [dict(one) for one in task.dialogue.suffix(right.first - 1)]
    fewer = [dict(one) for one in task.dialogue.suffix(right.first + 1)]
    assert {"over limit"} == faults(task, right, more)[0]
    assert {"a turn that fits was cut"} == faults(task, right, fewer)[0]


def test_what_fits_whole_is_not_cut_and_what_cannot_be_is_refused(judge: Judge, dialogues: Sequence[Any]) -> None:
    """The two ends: everything fits, and nothing can be answered."""
    small = min(dialogues, key=lambda dialogue: sum(len(str(one)) for one in dialogue.messages))
    assert judge.find(small).whole
    kept = [dict(one) for one in small.suffix(1)]
    assert {"cut though fits"} == faults(Task(judge, small), judge.find(small), kept)[0]
    impossible = next(one for one in dialogues[:36] if judge.find(one).outcome != "clean")
    right = judge.find(impossible)
    answered = [dict(one) for one in impossible.suffix(len(impossible.turns) - 1)]
    assert (set(), 0) == faults(Task(judge, impossible), right, None)
    assert {"answered what cannot be", "over limit"} <= faults(Task(judge, impossible), right, answered)[0]
