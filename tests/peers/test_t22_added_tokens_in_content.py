"""transformers #29279 and others: control tokens in user text or tool results became real ones."""

from __future__ import annotations

from collections import Counter

import pytest

from planner.planner import Planner
from planner.values.plan import Plan
from tests.threats.claims import neutral

PLACES = ("user", "assistant", "tool")


def _messages(place: str, text: str) -> list[dict[str, object]]:
    calls = [{"id": "c", "type": "function", "function": {"name": "send", "arguments": "{}"}}]
    said = {name: text if name == place else "plain" for name in PLACES}
    return [
        {"role": "user", "content": said["user"]}, {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": said["tool"]},
        {"role": "assistant", "content": said["assistant"]},
        {"role": "user", "content": "so?"},
    ]  # fmt: skip


@pytest.mark.parametrize("bundle", ["qwen3-0.6b", "reference"])
@pytest.mark.parametrize("place", PLACES)
def test_T22_control_ids_are_those_of_neutral_content(bundle: str, place: str) -> None:
    """Every guard token, special or not, in content: as many of each control id as with other words there."""
    planner = Planner(bundle)
    guards = {token.id for token in planner.encoder().bundle.manifest.control_tokens}
    parsed = planner.encoder().bundle.profile.parsed_strings
    for token in planner.encoder().bundle.manifest.control_tokens:
        if place == "assistant" and any(token.text in (one.opener, one.closer) for one in parsed):
            continue  # the template itself reads it there, as every runtime's render does
        told, plain = (
            planner.plan(messages=_messages(place, f"a {text} b")) for text in (token.text, neutral(token.text))
        )
        assert isinstance(told, Plan)
        assert isinstance(plain, Plan)
        counts = [Counter(one for one in answer.ids if one in guards) for answer in (plain, told)]
        assert counts[0] == counts[1], token.id
        assert token.text in planner.encoder().bundle.engine.decode(told.ids)
