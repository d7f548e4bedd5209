"""LiteRT-LM #3444, #2799, opendroid PR #20: a conversation died well before its limit; a total taken for an output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.planner import Planner
from planner.values.plan import Plan, Refusal
from planner.values.runtime import Runtime
from planner.values.runtime_rows import RUNTIMES
from tests.peers.support import chat, plan
from tests.support.toy import ToyBundle

TOKENS = len(plan(chat()).ids)
RESERVE = 20


def answer(window: int, **rules: Any) -> Plan | Refusal:
    """Plan in a runtime with these rules."""
    runtime = Runtime(replace(RUNTIMES["onnx-genai"], **rules))
    bundle = ToyBundle(runtime=runtime, context_tokens=window, longest_token_bytes=None)
    return Planner(bundle).plan(chat(reserved_output_tokens=RESERVE, max_input_tokens=None))


def test_T20_room_below_the_least_prefill_is_refused() -> None:
    """A prompt takes as many cells as the least prefill, however short it is; with one cell less there is no plan."""
    least = TOKENS + 50
    enough, short = answer(least + RESERVE, min_prefill_tokens=least), answer(least + RESERVE - 1,
                                                                              min_prefill_tokens=least)  # fmt: skip
    assert isinstance(enough, Plan)
    assert RESERVE == enough.max_output_tokens, "the cells that padding takes are not free for the answer"
    assert isinstance(short, Refusal)
    assert "runtime_limit" == short.reason


def test_T20_a_total_limit_holds_prompt_and_reserve_together() -> None:
    """The total limit is what both share, not the output's: the largest required prompt fits and one more does not."""
    enough = answer(60_000, total_limit=TOKENS + RESERVE)
    assert isinstance(enough, Plan)
    assert RESERVE == enough.max_output_tokens
    short = answer(60_000, total_limit=TOKENS + RESERVE - 1)
    assert isinstance(short, Refusal)
    assert ("context_policy_overflow", 1) == (short.outcome, short.tokens_missing)
    none_left = answer(60_000, total_limit=RESERVE)
    assert isinstance(none_left, Refusal)
    assert "runtime_limit" == none_left.reason


def test_T20_the_output_limit_is_the_answers_alone() -> None:
    """More reserved than can be written is refused; what is free beyond it is not promised."""
    enough = answer(60_000, output_limit=RESERVE)
    assert isinstance(enough, Plan)
    assert RESERVE == enough.max_output_tokens
    refused = answer(60_000, output_limit=RESERVE - 1)
    assert isinstance(refused, Refusal)
    assert "runtime_limit" == refused.reason


@pytest.mark.parametrize("multiple", [1, 8, 32, 100])
def test_T20_padding_never_overruns_the_window(multiple: int) -> None:
    """Padded to its multiple, the prompt and its reserve stay within every window; the account adds up to it."""
    padded = -(-TOKENS // multiple) * multiple
    for window in range(TOKENS + RESERVE - 3, padded + RESERVE + 5):
        made = answer(window, prefill_multiple=multiple)
        assert isinstance(made, Plan) == (padded + RESERVE <= window)
        if isinstance(made, Plan):
            figures = made.account
            assert padded + made.max_output_tokens <= window
            assert window == (figures.input_tokens + figures.reserved_output_tokens + figures.safety_margin_tokens
                              + figures.runtime_kept_tokens + figures.headroom_tokens)  # fmt: skip
