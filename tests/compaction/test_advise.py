"""When compaction is due, once per crossing, and what the table of granularity says (R111, R120, C§3)."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from planner.compaction.cost import summary_jobs
from planner.compaction.propose import Material, propose
from planner.compaction.strategy import GRANULARITY, Granularity, Settings, granularity
from planner.planner import Planner
from planner.steps.advise import advise
from planner.steps.layer import layer
from planner.steps.recall import recall
from planner.values import turn as turn_module
from planner.values.compaction import CompactionPlan, Risk
from planner.values.plan import Advice, Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest, Previous
from tests.compaction.chats import material, turn, with_message
from tests.support.toy import ToyBundle

TURNS = tuple(turn(number) for number in range(1, 7))


def advice(tokens: int, fired: bool = False, compact_at: float = 0.65, tail: int | None = None) -> Advice:
    """Return what a plan with a prompt of so many tokens says, in a usable input of 1,000."""
    request = PlanRequest(
        "toy", CurrentRequest(text="And now?"), turns=TURNS, previous=Previous(advice_fired=fired),
        options=Options(compact_at=compact_at, tail_turns=tail),
    )  # fmt: skip
    return advise(request, layer(request, recall(request)), tokens, 1_000)


def is_due(found: Advice) -> bool:
    """Tell whether a plan says that compaction is due."""
    return found.compaction is not None


def test_c_advice_at_threshold_once() -> None:
    """A growing prompt fires once, stays silent above the threshold and fires again after it dropped below."""
    fired, seen = False, []
    for tokens in (100, 649, 650, 700, 999, 649, 650, 651):
        found = advice(tokens, fired)
        fired = found.advice_fired
        seen.append(is_due(found))
    assert [False, False, True, False, False, False, True, False] == seen


@given(st.lists(st.integers(0, 1_200)))
def test_advice_fires_once_per_crossing(sizes: list[int]) -> None:
    """It fires exactly where a prompt reaches the threshold and the one before did not."""
    fired, due = False, []
    for tokens in sizes:
        found = advice(tokens, fired)
        fired = found.advice_fired
        due.append(is_due(found))
    assert [size >= 650 > before for before, size in zip([0, *sizes], sizes, strict=False)] == due


def test_the_threshold_is_taken_as_it_is_written() -> None:
    """0.65 of 20 is 13, not what the double below 0.65 makes of it, and another ratio moves it."""
    request = PlanRequest("toy", CurrentRequest(text="And now?"), turns=TURNS)
    layered = layer(request, recall(request))
    assert [False, True] == [is_due(advise(request, layered, tokens, 20)) for tokens in (12, 13)]
    assert is_due(advice(600, compact_at=0.6))
    assert not is_due(advice(650, compact_at=0.7))
    assert is_due(advise(request, layered, 0, 0)), "a reserve that eats the window leaves nothing to wait for"


def test_R170_threshold_is_configurable() -> None:
    """The request's own ratio, else the bundle's, else 0.65; a plan takes the bundle's from its manifest (X27)."""
    request = PlanRequest("toy", CurrentRequest(text="And now?"), turns=TURNS)
    layered = layer(request, recall(request))
    stated = replace(request, options=Options(compact_at=0.65))
    due = {
        (share, own): next(tokens for tokens in range(1_001) if is_due(advise(asked, layered, tokens, 1_000, share)))
        for share in (None, 0.6, 0.7)
        for own, asked in ((False, request), (True, stated))
    }
    assert {
        (None, False): 650, (None, True): 650, (0.6, False): 600, (0.6, True): 650, (0.7, False): 700, (0.7, True): 650,
    } == due  # fmt: skip
    bundle = ToyBundle()
    found = []
    for share in (0.6, 0.7):
        bundle.manifest = replace(bundle.manifest, compact_at=share)
        wide = replace(request, model_bundle_id=bundle.manifest.id, max_input_tokens=5_000, reserved_output_tokens=0)
        size = len(answered(Planner(bundle).plan(wide)).ids)
        found.append(is_due(answered(Planner(bundle).plan(replace(wide, max_input_tokens=size * 100 // 65))).advice))
    assert [True, False] == found


def answered(answer: Plan | Refusal) -> Plan:
    """Return a plan that must be one."""
    assert isinstance(answer, Plan), answer
    return answer


def test_what_is_advised_is_what_would_be_frozen() -> None:
    """The advice of a plan and the compaction plan of the same turns cover the same, and never reach the tail."""
    for tail in (1, 2, 4, 6):
        frozen = propose(material(*TURNS), Settings("p1", tail))
        runs = frozen.runs if isinstance(frozen, CompactionPlan) else ()
        found = advice(650, tail=tail).compaction
        assert tuple((run.covers_from, run.covers_to) for run in runs) == (() if found is None else found.covers)


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
