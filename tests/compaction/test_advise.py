"""When compaction is due, once per crossing, and what the table of granularity says (R111, R120, R169..R171)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.advise import COMPACT_AT, CompactionAdvice, advise, compact_at_problem, reaches, summary_jobs
from planner.compaction.propose import Material
from planner.compaction.strategy import GRANULARITY, Granularity, Settings, granularity
from planner.values import turn as turn_module
from planner.values.compaction import Risk
from planner.values.window import Window
from tests.compaction.chats import material, turn, with_message

WINDOW = Window(total=1_101, reserved=100, margin=1)
TURNS = tuple(turn(number) for number in range(1, 7))


def advice(tokens: int, fired: bool = False, compact_at: float = COMPACT_AT, tail: int = 2) -> CompactionAdvice:
    """Return the advice for a prompt of so many tokens in a usable input of 1,000."""
    return advise(
        tokens, WINDOW, compact_at=compact_at, fired=fired, material=material(*TURNS), settings=Settings("p1", tail)
    )


def test_R169_trigger_60_to_70_percent() -> None:
    """X27: the share is taken of the window less reserve and margin, 0.65 by default, and reached exactly."""
    assert (False, True) == (advice(649).due, advice(650).due)


def test_c_advice_at_threshold_once() -> None:
    """A growing prompt fires once, stays silent above the threshold and fires again after it dropped below."""
    fired, seen = False, []
    for tokens in (100, 649, 650, 700, 999, 649, 650, 651):
        found = advice(tokens, fired)
        fired = found.fired
        seen.append(found.due)
    assert [False, False, True, False, False, False, True, False] == seen


@given(st.lists(st.integers(0, 1_200)))
def test_advice_fires_once_per_crossing(sizes: list[int]) -> None:
    """It fires exactly where a prompt reaches the threshold and the one before did not."""
    fired, due = False, []
    for tokens in sizes:
        found = advice(tokens, fired)
        fired = found.fired
        due.append(found.due)
    assert [size >= 650 > before for before, size in zip([0, *sizes], sizes, strict=False)] == due


def test_R170_threshold_is_configurable() -> None:
    """Another ratio, another reserve and another window each move the threshold."""
    assert advice(600, compact_at=0.6).due
    assert not advice(650, compact_at=0.7).due
    assert reaches(65, Window(200, 99, 1), 0.65)
    assert not reaches(64, Window(200, 99, 1), 0.65)
    assert reaches(13, Window(20, 0, 0), 0.65), "0.65 is taken as written, not as the double below it"


def test_a_window_without_room_is_always_above() -> None:
    """A reserve that eats the window leaves nothing to wait for."""
    assert reaches(0, Window(100, 100, 1), 0.65)


@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, True, None, "0.65", float("nan")])
def test_a_ratio_is_a_share(ratio: Any) -> None:
    """What is no share above 0 is refused, overridden or not."""
    assert None is not compact_at_problem(ratio, overridden=True)


def test_a_bundle_stays_in_the_usual_range_unless_overridden() -> None:
    """X27: 0.60 to 0.70, both ends included; beyond only by name."""
    assert [None, None, None] == [compact_at_problem(ratio) for ratio in (0.6, 0.65, 0.7)]
    assert None is not compact_at_problem(0.71)
    assert None is compact_at_problem(0.9, overridden=True)


def test_R171_tail_first_then_summary() -> None:
    """What is advised never reaches into the tail; where the tail is all there is, nothing is due."""
    assert ((10, 40),) == advice(650).covers
    assert (4, 8) == (advice(650).turns, advice(650).messages)
    assert CompactionAdvice(due=False, fired=False) == advice(650, tail=6)


def test_R111_granularity_decision_table() -> None:
    """The table has a row for every risk and material, and its cells are those of X28."""
    materials = get_args(turn_module.Material)
    assert {(risk, kind) for risk in get_args(Risk) for kind in materials} == set(GRANULARITY)
    ids, traced = Granularity(ids=True), Granularity(ids=True, excerpts=True)
    conclusion = Granularity(ids=True, conclusion=True)
    assert [Granularity(), ids, ids, conclusion] == [granularity("low", [kind]) for kind in materials]
    assert [ids, traced, traced, conclusion] == [granularity("high", [kind]) for kind in materials]


def test_unknown_risk_counts_as_high_and_the_strictest_material_decides() -> None:
    """A run of several materials keeps what any of them asks for."""
    assert granularity("high", ["code"]) == granularity(None, ["chat", None, "code"])
    assert Granularity(ids=True, excerpts=True, conclusion=True) == granularity(None, ["code", "tool_result"])
    assert Granularity() == granularity("low", [None])


def _script(edits: frozenset[int]) -> list[Material]:
    """Return the states of a chat that gains a turn per event; some events edit the oldest turn instead."""
    turns = list(TURNS)
    states = []
    for event in range(12):
        if event in edits:
            turns[0] = with_message(turns[0], 0, text=f"Edit {event}.", version=event + 2)
        else:
            turns.append(turn(10 + event))
        states.append(material(*turns, revision=event))
    return states


def test_R120_conservative_mode_cost_is_measured() -> None:
    """Frequent input makes the conservative mode summarise everything again at every event."""
    settings = Settings("p1", 2, min_run_turns=4)
    appends, edited = _script(frozenset()), _script(frozenset({2, 9}))
    assert (3, 12) == tuple(summary_jobs(appends, settings, mode) for mode in ("sources", "any_revision"))
    # An edit costs the run it touches; the run of four turns behind it stands.
    assert (5, 12) == tuple(summary_jobs(edited, settings, mode) for mode in ("sources", "any_revision"))


def test_a_source_that_becomes_protected_costs_its_run() -> None:
    """What may no longer be covered is dropped and what is left of the run is summarised again."""
    calm = material(*TURNS)
    held = with_message(TURNS[1], 0, protection_reason="audit-evidence")
    after = replace(calm, turns=(TURNS[0], held, *TURNS[2:]), revision=1)
    assert 3 == summary_jobs([calm, after], Settings("p1", 2), "sources")


def test_a_run_whose_turns_were_withdrawn_costs_nothing_more() -> None:
    """X53: withdrawn turns leave no run behind."""
    calm = material(*TURNS)
    gone = tuple(replace(entry, state="superseded") for entry in TURNS[:4])
    assert 1 == summary_jobs([calm, replace(calm, turns=(*gone, *TURNS[4:]), revision=1)], Settings("p1", 2), "sources")
