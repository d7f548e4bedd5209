"""Plans on a real llama.cpp: it reads the ids it is sent, caches what is predicted, and refuses where we do.

300 plans by default; PLANNER_LLAMA_PLANS sets another number.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from planner.planner import Planner
from planner.runtimes import llama_cpp
from planner.runtimes.llama_cpp import LlamaServer as Client
from planner.runtimes.llama_cpp import check_room, differences, expected_cached
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from tests.runtimes.llama.conftest import WINDOW
from tests.support.deployed import Deployed
from tests.support.growing_plans import growing_plans
from tests.support.llama_server import NEEDS_LLAMA

pytestmark = NEEDS_LLAMA
PLANS = int(os.environ.get("PLANNER_LLAMA_PLANS", "300"))
ANSWER_TOKENS = 6


def run_all(client: Client, plans: Sequence[Plan]) -> tuple[list[str], list[int]]:
    """Run plans one after another in one slot; return what differs, one line each, and what was cached."""
    faults, cached = [], []
    before: tuple[Sequence[int], Sequence[int]] = ((), ())
    for number, plan in enumerate(plans):
        expected = expected_cached(*before, plan.ids)
        served = client.run(plan.ids, min(plan.max_output_tokens, ANSWER_TOKENS), slot=0)
        assert served.ids is not None
        before = plan.ids, served.ids
        cached.append(served.cached_tokens)
        found = differences(served, len(plan.ids), plan.max_output_tokens, expected)
        faults += [f"{number}: {one.what} {one.planned} {one.reported}" for one in found]
        if served.cached_tokens != expected:
            faults.append(f"{number}: cached {expected} {served.cached_tokens}")
        if served.truncated:
            faults.append(f"{number}: truncated")
    return faults, cached


@pytest.fixture(scope="module")
def plans(planning: Planner, seed: int) -> list[Plan]:
    """The plans of this module, some of them cut."""
    return growing_plans(planning, seed, PLANS, WINDOW)


def test_R43_plan_returns_exact_token_ids(client: Client, plans: list[Plan]) -> None:
    """Prompt tokens as planned, cached tokens as predicted, nothing cut; for every plan, one after another."""
    faults, cached = run_all(client, plans)
    assert [] == faults
    assert PLANS == len(plans)
    # Neither an empty cache nor plans that leave nothing out would prove much.
    assert PLANS // 3 < sum(one > 100 for one in cached)
    assert PLANS // 20 < sum(bool(plan.removed) for plan in plans)


def test_a_slot_goes_on_from_all_of_an_answer_but_its_last_token(client: Client, plans: list[Plan], seed: int) -> None:
    """What was generated is cached as well: prompts that take up the answer, whole or in part, or leave it."""
    draw, reached = random.Random(seed), set()
    for plan in plans[::6]:
        served = client.run(plan.ids, ANSWER_TOKENS, slot=0)
        answer = list(served.ids or ())
        taken = draw.randint(0, len(answer))
        following = [*plan.ids, *answer[:taken], 5, *draw.choices(range(100, 4_000), k=8)]
        expected = expected_cached(plan.ids, answer, following)
        assert expected == client.run(following, 1, slot=0).cached_tokens
        reached.add(expected - len(plan.ids))
    assert set(range(ANSWER_TOKENS)) <= reached


@pytest.mark.parametrize("place", [0, 40, -1])
def test_an_id_too_many_or_too_few_is_found(client: Client, plans: list[Plan], place: int) -> None:
    """The comparison can fail: a prompt that lost or doubled one id is reported with both numbers."""
    plan = next(plan for plan in plans if len(plan.ids) > 100)
    for wrong in (plan.ids[:place] + plan.ids[place:][1:], plan.ids[:place] + plan.ids[place:][:1] + plan.ids[place:]):
        served = client.run(wrong, 1, slot=0)
        row = differences(served, len(plan.ids), 1)
        assert [("prompt tokens", len(plan.ids), len(wrong))] == [(one.what, one.planned, one.reported) for one in row]


def test_a_wrong_prediction_of_the_cache_is_found(
    client: Client, plans: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction that counts the last generated token as well does not survive a few plans."""
    monkeypatch.setattr(llama_cpp, "common_length", lambda left, right: min(len(left), len(right)))
    assert [] != run_all(client, plans[:8])[0]


def _plan(planning: Planner, text: str) -> Plan | Refusal:
    """Plan one question in the server's window, with nothing kept back for answer or margin."""
    return planning.plan(
        messages=[{"role": "user", "content": text}], max_input_tokens=WINDOW, reserved_output_tokens=0,
        safety_margin_tokens=0,
    )  # fmt: skip


def _text_of(planning: Planner, length: int) -> str:
    """Return a question whose plan has exactly `length` ids."""
    for words in range(length, length - 40, -1):
        text = ("the " * words).strip()
        answer = _plan(planning, text)
        if isinstance(answer, Plan) and len(answer.ids) == length:
            return text
    raise AssertionError(f"no text gives {length} ids")


def test_at_the_edge_of_the_window_we_and_the_server_agree(client: Client, planning: Planner) -> None:
    """One less than the window is taken by both, the whole window by neither; margin and reserve are 0 by name."""
    limits = client.limits(0)
    assert (WINDOW, 1) == (limits.window_tokens, limits.slots)
    # The same file as this runtime runs it, by its row in the table: refused when it is planned, not when it is run.
    deployed = Planner(Deployed(planning.encoder().bundle, "llama.cpp", WINDOW))
    below, full = (_text_of(planning, length) for length in (WINDOW - 1, WINDOW))
    accepted = _plan(deployed, below)
    assert isinstance(accepted, Plan)
    check_room(limits, accepted.account.input_limit, len(accepted.ids))
    served = client.run(accepted.ids, 1, slot=0)
    assert (WINDOW - 1, 1, True) == (served.prompt_tokens, served.answer_tokens, served.truncated)
    assert () == differences(served, WINDOW - 1, 1)
    refused, unaware = _plan(deployed, full), _plan(planning, full)
    assert isinstance(refused, Refusal)
    assert ("context_policy_overflow", 1) == (refused.outcome, refused.tokens_missing)
    assert isinstance(unaware, Plan)
    with pytest.raises(PlannerFault, match=f"runtime_mismatch: .*{WINDOW} tokens, the server takes at most"):
        check_room(limits, unaware.account.input_limit, len(unaware.ids))
    with pytest.raises(PlannerFault, match=f"runtime_mismatch: the server refuses a prompt of {WINDOW} tokens"):
        client.run(unaware.ids, 1, slot=0)


def test_an_answer_that_fills_the_plan_is_whole(client: Client, planning: Planner) -> None:
    """With the margin of one token the server gives every token that was planned and truncates nothing."""
    for window in (WINDOW, 700):
        plan = planning.plan(
            messages=[{"role": "user", "content": "the " * (window - 60)}], max_input_tokens=window,
            reserved_output_tokens=20,
        )  # fmt: skip
        assert isinstance(plan, Plan)
        served = client.run(plan.ids, plan.max_output_tokens, slot=0)
        assert (False, plan.max_output_tokens) == (served.truncated, served.answer_tokens)
        assert window - 1 == served.prompt_tokens + served.answer_tokens


def test_a_window_cut_off_before_the_planned_end_is_a_difference(client: Client, planning: Planner) -> None:
    """Ten tokens asked for where three fit: the server says 200 and truncated, we say which numbers differ."""
    plan = _plan(planning, _text_of(planning, WINDOW - 3))
    assert isinstance(plan, Plan)
    served = client.run(plan.ids, 10, slot=0)
    assert ("answer tokens before the window ended", 10, 3) == tuple(
        getattr(one, key) for one in differences(served, WINDOW - 3, 10) for key in ("what", "planned", "reported")
    )
    assert () == differences(served, WINDOW - 3, 3)
    assert () != differences(replace(served, prompt_tokens=1), WINDOW - 3, 3)
