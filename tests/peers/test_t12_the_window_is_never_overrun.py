"""lemonade #346: prompt and answer overran the window, and a context shift threw half of the cache away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.peers.support import chat, plan
from tests.support.toy import ToyBundle

RESERVE = 40


@pytest.mark.parametrize("name", RUNTIMES)
@pytest.mark.parametrize("margin", [0, 1, 7])
def test_T12_prompt_and_output_fill_the_window_and_not_one_more(name: str, margin: int) -> None:
    """Planned + output + margin == window is accepted, with one token less of window refused, in every runtime."""
    request = chat(reserved_output_tokens=RESERVE, safety_margin_tokens=margin, max_input_tokens=None)
    tokens = len(plan(replace(request, max_input_tokens=60_000)).ids)
    runtime = Runtime(replace(RUNTIMES[name], accepts_ids=True))  # the window is one thing, the mode another
    window = tokens + RESERVE + margin + runtime.profile.kept_back_tokens

    def answer(context: int) -> Plan | Refusal:
        bundle = ToyBundle(runtime=runtime, context_tokens=context, longest_token_bytes=None)
        return Planner(bundle).plan(request)

    full, short = answer(window), answer(window - 1)
    assert isinstance(full, Plan)
    assert (tokens, RESERVE, 0) == (len(full.ids), full.max_output_tokens, full.account.headroom_tokens)
    assert window == len(full.ids) + full.max_output_tokens + margin + runtime.profile.kept_back_tokens
    assert isinstance(short, Refusal)
    assert ("context_policy_overflow", 1) == (short.outcome, short.tokens_missing)


def test_T12_the_most_output_never_leaves_the_window() -> None:
    """In every window that fits, prompt and maxOutputTokens together are the window less the margin, never more."""
    request = chat(reserved_output_tokens=3, safety_margin_tokens=2, max_input_tokens=None)
    tokens = len(plan(replace(request, max_input_tokens=60_000)).ids)
    runtime = Runtime(RUNTIMES["llama.cpp"])
    for context in range(tokens + 6, tokens + 60):
        bundle = ToyBundle(runtime=runtime, context_tokens=context, longest_token_bytes=None)
        made = Planner(bundle).plan(request)
        assert isinstance(made, Plan)
        assert context - 1 - 2 == len(made.ids) + made.max_output_tokens
        assert 2 == made.remaining(made.max_output_tokens - 2)
        assert 0 == made.remaining(made.max_output_tokens + 1)
