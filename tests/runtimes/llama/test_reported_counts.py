"""What a real llama.cpp reports, as `Planner.observe` judges it and `Planner.learn_meaning` finds out (X60)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.planner import Planner
from planner.runtimes.llama_cpp import LlamaServer as Client
from planner.values.observation import Reported
from planner.values.plan import Plan
from planner.values.reasons import PlannerFault
from tests.runtimes.llama.conftest import WINDOW
from tests.support.deployed import Deployed
from tests.support.growing_plans import growing_plans
from tests.support.llama_server import NEEDS_LLAMA, LlamaServer

pytestmark = NEEDS_LLAMA
FIGURES: dict[str, tuple[Callable[[dict[str, Any]], Reported], str]] = {
    "the prompt it evaluated": (
        lambda said: Reported(said["tokens_evaluated"], said["timings"]["cache_n"], said["tokens_predicted"]),
        "whole_prompt",
    ),
    "what it processed now, and nothing beside it": (
        lambda said: Reported(said["timings"]["prompt_n"]), "prefilled_now",
    ),
    "prompt and answer together": (
        lambda said: Reported(
            said["tokens_evaluated"] + said["tokens_predicted"], output_tokens=said["tokens_predicted"]
        ),
        "session_with_output",
    ),
    "what the slot holds, which lacks the last token": (
        lambda said: Reported(said["tokens_cached"], output_tokens=said["tokens_predicted"]), "unknown",
    ),
}  # fmt: skip
"""A figure of the server to how it is reported and what three calls make of it."""


def _learned(server: LlamaServer, planning: Planner, reported: Callable[[dict[str, Any]], Reported]) -> str:
    def call(plan: Plan) -> Reported:
        body = {"prompt": list(plan.ids), "n_predict": 4, "temperature": 0, "ignore_eos": True, "id_slot": 0}
        return reported(server.post("/completion", body))

    return Planner(Deployed(planning.encoder().bundle, "llama.cpp", WINDOW)).learn_meaning(call).meaning


@pytest.mark.parametrize("figure", FIGURES)
def test_three_calls_find_what_a_figure_counts(server: LlamaServer, planning: Planner, figure: str) -> None:
    """Of the same server, figure by figure; one that counts none of the meanings stays unknown."""
    reported, meaning = FIGURES[figure]
    server.post("/completion", {"prompt": [7], "n_predict": 1, "id_slot": 0})
    assert meaning == _learned(server, planning, reported)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_slot_that_holds_the_frame_already_tells_as_much(server: LlamaServer, planning: Planner, figure: str) -> None:
    """The beginning of an earlier chat is cached before the first call; what every figure counts is found all the
    same."""
    plan = planning.plan(messages=[{"role": "user", "content": "hello"}], max_input_tokens=600)
    assert isinstance(plan, Plan)
    Client(server.url).run(plan.ids, 1, slot=0)
    reported, meaning = FIGURES[figure]
    assert meaning == _learned(server, planning, reported)


def test_every_report_is_exact_and_a_lost_id_blocks_the_bundle(client: Client, planning: Planner, seed: int) -> None:
    """By the meaning that the runtime's row states; one id left out is found, and nothing is planned after it (T13)."""
    planner = Planner(Deployed(planning.encoder().bundle, "llama.cpp", WINDOW))
    plans = growing_plans(planner, seed, 40, WINDOW - 1)
    for plan in plans:
        served = client.run(plan.ids, 1, slot=0)
        seen = planner.observe(plan, Reported(served.prompt_tokens, served.cached_tokens, served.answer_tokens))
        assert ("exact", "whole_prompt") == (seen.verdict, seen.meaning)
    plan = plans[-1]
    lost = client.run(plan.ids[1:], 1, slot=0)
    seen = planner.observe(plan, Reported(lost.prompt_tokens))
    assert ("runtime_truncated", "runtime_mismatch") == (seen.verdict, seen.reason)
    with pytest.raises(PlannerFault, match="bundle_blocked_by_drift"):
        planner.plan(messages=[{"role": "user", "content": "hello"}], max_input_tokens=600)
