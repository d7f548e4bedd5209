"""LiteLLM #6505: everything fitted, yet tool results were stripped."""

from __future__ import annotations

from collections.abc import Callable

import planner
from planner.values.plan import Plan
from tests.support.conversations import generate
from tests.support.reference import ReferenceBundle


def test_T03_what_fits_is_sent_untouched(reference: Callable[[str], ReferenceBundle]) -> None:
    """With a limit of just the prompt nothing is removed, and the ids are those of the untouched list."""
    seen = 0
    for item in generate(24, seed=3):
        messages, tools = [dict(entry) for entry in item.messages], list(item.tools)
        wide = planner.plan(messages, tools, max_input_tokens=40_000, max_tokens=8)
        if not isinstance(wide, Plan):
            continue
        exact = len(wide.ids) + 8
        answer = planner.plan(messages, tools, max_input_tokens=exact, max_tokens=8, safety_margin_tokens=0)
        assert isinstance(answer, Plan)
        assert () == answer.removed
        plain = [{**entry, "content": entry["content"] or ""} for entry in messages]  # the template has no null
        assert reference("qwen3-0.6b").ids(plain, tools or None) == answer.ids.tolist()
        seen += any(entry["role"] == "tool" for entry in messages)
    assert seen >= 8
