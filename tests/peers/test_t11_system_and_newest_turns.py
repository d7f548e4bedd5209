"""llama.cpp #17284: a long chat got a 400; users want whole turns from K on, with the system message."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.values.plan import Plan

SYSTEM = {"role": "system", "content": "Answer in short sentences."}


def _chat(turns: int) -> list[dict[str, str]]:
    out = [SYSTEM]
    for at in range(turns):
        out += [{"role": "user", "content": f"Question {at} about the garden and the gate?"},
                {"role": "assistant", "content": f"Answer {at}: " + "the gate is green. " * (at % 5 + 1)}]  # fmt: skip
    return [*out, {"role": "user", "content": "And now?"}]


@pytest.mark.parametrize("bundle", ["qwen3-0.6b", "reference"])
def test_T11_the_prompt_is_system_and_the_longest_suffix_of_turns(bundle: str) -> None:
    """The ids are those of [system][turn K..N] alone, K the smallest that fits; the same input gives the same K."""
    messages = _chat(12)
    suffixes = [planner.plan([SYSTEM, *messages[1 + 2 * first :]], bundle=bundle, max_input_tokens=30_000)
                for first in range(13)]  # fmt: skip
    sizes = [len(one.ids) for one in suffixes if isinstance(one, Plan)]
    assert 13 == len(sizes)
    for limit in range(sizes[-1], sizes[0] + 1, 17):
        room: dict[str, Any] = {"max_input_tokens": limit + 9, "max_tokens": 9, "safety_margin_tokens": 0}
        answers = [planner.plan(messages, bundle=bundle, **room) for _ in range(2)]
        first = next(at for at, size in enumerate(sizes) if size <= limit)
        for answer in answers:
            assert isinstance(answer, Plan)
            assert suffixes[first].ids == answer.ids  # type: ignore[union-attr]
