"""Laws 2, 9, 11 and 12 with summaries, constraints, open items and the notice, on toys and on real bundles."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import planner.pipeline as pipeline
from planner.pipeline import run_view
from planner.planner import Planner
from planner.values.check_summary import may_be_covered
from planner.values.plan import Plan, Refusal
from planner.values.request import CurrentRequest, Options, PlanRequest, SectionBounds, Sections
from planner.values.rung import Horizon
from planner.values.turn import Message, MustPreserve, OpenItem, Turn
from tests.conftest import MAX_EXAMPLES
from tests.laws.common import TOYS, answer_bytes, every_rung, everything, room_of, toy, with_room
from tests.oracles.scan import first_fit
from tests.strategies import Wanted
from tests.strategies_state import LONG, state_requests
from tests.support.records import CONVERSATION, live, record_of
from tests.support.views import Lazy, view_of


def plan_everything(planner: Planner, request: PlanRequest) -> Plan | Refusal:
    """Plan with a look at every turn, however old."""

    def reach(sizes: object, *_: object) -> Horizon:
        sizes.learn(sizes.measurer.layered.history.turns)  # type: ignore[attr-defined]
        return everything(sizes, request)  # type: ignore[arg-type]

    with patch.object(pipeline, "horizon", reach):
        return planner.plan(request)


def _in_a_window(planner: Planner, request: PlanRequest, data: st.DataObject) -> PlanRequest:
    """Return the request with a window beside the size of some rung of its ladder."""
    scanned = every_rung(planner.encoder(), request)
    room = data.draw(st.sampled_from(sorted({one.tokens for one in scanned}))) + data.draw(st.integers(-2, 2))
    return with_room(request, room)


def _check(planner: Planner, request: PlanRequest) -> None:
    """The plan is the first rung of the whole ladder that fits, each measured on its own."""
    scanned = every_rung(planner.encoder(), request)
    at = first_fit(scanned, lambda one: one.tokens, room_of(request))
    answer = planner.plan(request)
    if at is None:
        event("overflow")
        assert isinstance(answer, Refusal)
        assert "context_policy_overflow" == answer.outcome
    elif scanned[at].reason is not None:
        event("not carried")
        assert isinstance(answer, Refusal)
        assert scanned[at].reason == answer.reason
    else:
        assert isinstance(answer, Plan), answer
        event("summary" if any(key.startswith("summary/") for key in answer.kept) else "no summary")
        event("constraint" if any(key.startswith("constraint/") for key in answer.kept) else "no constraint")
        assert scanned[at].turns == tuple(key for key in answer.kept if key.startswith(("turn/", "summary/")))
        assert scanned[at].passages == tuple(key for key in answer.kept if key.startswith("passage/"))
        assert scanned[at].tokens == len(answer.ids)


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_fit_with_state_blocks_equals_a_linear_scan(template: str, pieces: str, data: st.DataObject) -> None:
    """Every rung of the whole ladder, measured by planning exactly it: the first that fits is the plan."""
    planner = toy(template, pieces)
    request = data.draw(state_requests(planner.bundle_id))
    _check(planner, _in_a_window(planner, request, data))


@cache
def _real(name: str) -> Planner:
    return Planner(name)


@pytest.mark.parametrize("name", ["qwen3-0.6b", "reference"])
@settings(max_examples=max(4, MAX_EXAMPLES // 4))
@given(data=st.data())
def test_fit_with_state_blocks_equals_the_scan_on_real_bundles(name: str, data: st.DataObject) -> None:
    """The same on real templates and tokenizers."""
    planner = _real(name)
    request = data.draw(state_requests(planner.bundle_id, Wanted(texts=LONG, max_turns=6, late_system=False)))
    _check(planner, _in_a_window(planner, request, data))


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_a_plan_from_a_view_equals_one_with_all_turns_sent(template: str, pieces: str, data: st.DataObject) -> None:
    """Turns read only where they are looked at, summaries and constraints verified elsewhere: the same bytes."""
    planner = toy(template, pieces)
    request = data.draw(state_requests(planner.bundle_id))
    request = _in_a_window(planner, request, data)
    view = view_of(request)
    answer = run_view(replace(request, turns=(), summaries=()), view, planner.encoder())
    assert answer_bytes(planner.plan(request)) == answer_bytes(answer)


@pytest.mark.parametrize(("template", "pieces"), TOYS)
@given(data=st.data())
def test_a_plan_over_the_horizon_equals_one_over_everything(template: str, pieces: str, data: st.DataObject) -> None:
    """Ids, receipt, plan file and refusal are those of a look at every turn, byte for byte."""
    planner = toy(template, pieces)
    request = data.draw(state_requests(planner.bundle_id, Wanted(texts=LONG, max_turns=12)))
    request = _in_a_window(planner, request, data)
    whole = plan_everything(planner, request)
    event(whole.receipt.reason or ("cut" if whole.receipt.history_reduced else "whole"))
    assert answer_bytes(whole) == answer_bytes(planner.plan(request))


def _long_request(random: Random, planner: Planner) -> PlanRequest:
    """Return some hundred turns, most of them in current summaries, with marks, pins and open items here and there."""
    turns: list[Turn] = []
    for number in range(1, random.choice((30, 60, 120)) + 1):
        words = [Message("user", id=f"u{number}", text="note " * random.randint(1, 60)),
                 Message("assistant", id=f"a{number}", text="rain " * random.randint(1, 60))]  # fmt: skip
        kind = random.random()
        if kind < 0.03:
            words[0] = replace(words[0], protection_reason="audit-evidence")
        turn = Turn(f"t{number}", 2 * number, "completed", tuple(words))
        if kind > 0.9:
            turn = replace(turn, must_preserve=(MustPreserve(f"k{random.randint(1, 9)}", "pay late"),))
        elif kind > 0.87:
            turn = replace(turn, open_items=(OpenItem(f"o{number}", "pending"),))
        turns.append(turn)
    constraints, records, at = live(turns), [], 0
    while at < len(turns) - 3:
        run = turns[at : at + random.randint(2, 12)]
        at += len(run)
        if all(may_be_covered(turn, constraints) for turn in run) and random.random() < 0.7:
            records.append(record_of(f"s{len(records)}", run, "sea " * random.randint(1, 40), constraints))
    options = Options(
        sections=Sections(summary=SectionBounds(max=random.choice((None, 0, 300, 3_000)))),
        history_notice=random.choice(("receipt", "prompt")), tail_turns=random.choice((None, 2)),
        low_water=random.choice((1.0, 1.0, 0.5)),
    )  # fmt: skip
    return PlanRequest(
        planner.bundle_id, CurrentRequest(id="q", text="be"), conversation_id=CONVERSATION, turns=tuple(turns),
        summaries=tuple(records), options=options, reserved_output_tokens=0, safety_margin_tokens=0,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(max(6, MAX_EXAMPLES // 2)))
def test_a_long_history_is_read_as_far_as_it_may_be_kept(seed: int) -> None:
    """The answer is that of a look at everything, and a plan from a view reads only a part of the turns."""
    random, planner = Random(seed), toy()
    request = _long_request(random, planner)
    for room in (500, 2_000, 6_000, random.randint(300, 40_000)):
        tight = with_room(request, room)
        whole = plan_everything(planner, tight)
        assert answer_bytes(whole) == answer_bytes(planner.plan(tight))
        view = view_of(tight)
        assert answer_bytes(whole) == answer_bytes(
            run_view(replace(tight, turns=(), summaries=()), view, planner.encoder())
        )
        assert isinstance(view.turns, Lazy)
        held = sum(len(turn.messages[0].words()) + len(turn.messages[1].words()) for turn in view.turns.turns)
        if held > 8 * (room + 4_096) and isinstance(whole, Plan):
            assert len(view.turns.read) < len(view.turns)


def test_summaries_beyond_their_maximum_hide_no_older_turn() -> None:
    """Small runs with large summaries that may not stay: a turn older than all of them still has its room."""
    turns = tuple(
        Turn(f"t{number}", number, "completed", (Message("user", id=f"u{number}", text="note " * 60),))
        for number in range(1, 42)
    )
    records = tuple(
        record_of(f"s{at}", turns[at : at + 4], "sea " * 150) for at in range(1, 41, 4)
    )  # 20 runs of 1,200 tokens, each with a summary of 600
    request = PlanRequest(
        toy().bundle_id, CurrentRequest(id="q", text="be"), conversation_id=CONVERSATION, turns=turns,
        summaries=records, reserved_output_tokens=0, safety_margin_tokens=0,
        options=Options(sections=Sections(summary=SectionBounds(max=0))),
    )  # fmt: skip
    answer = toy().plan(with_room(request, 1_000))
    assert isinstance(answer, Plan), answer
    assert ("turn/t1", "turn/q", "request/q") == answer.kept
    assert answer_bytes(plan_everything(toy(), with_room(request, 1_000))) == answer_bytes(answer)


def test_few_rungs_are_measured_with_state_blocks() -> None:
    """Sizes tell the rung: with summaries and constraints a plan still measures about one."""
    renders = []
    for seed in range(6):
        request = _long_request(Random(seed), toy())
        for room in (2_000, 6_000, 12_000):
            answer = toy().plan(with_room(request, room))
            renders.append(answer.diagnostics["renders"] if isinstance(answer, Plan) else 0)
    assert 2 >= max(renders)
