"""What a plan of a whole list must be: the reference's ids after lossless changes, for parity tests."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.framing import Traits, nine_alphanumerics, normalise
from tests.support.reference import CannotRender, ReferenceBundle
from tests.support.twin import Verdict

Message = dict[str, Any]


def rewritten(messages: Sequence[Message], names: Collection[str]) -> list[Message]:
    """Apply the rewrites a certified manifest names (model_bundles/mistral-nemo/README.md).

    They come after ids were replaced and after concessions. Raises AssertionError for an unknown name.
    """
    assert set(names) <= {"rstrip_assistant_spaces", "arguments_object", "results_json"}, "unknown rewrite"
    out = []
    for at, message in enumerate(messages):
        copy = dict(message)
        follows = at + 1 < len(messages) and messages[at + 1]["role"] == "assistant"
        if "rstrip_assistant_spaces" in names and copy["role"] == "assistant" and not follows:
            copy["content"] = (copy.get("content") or "").rstrip(" ")
        if "arguments_object" in names and copy.get("tool_calls"):
            copy["tool_calls"] = [
                {**item, "function": {
                    **item["function"], "arguments": _parsed(item["function"]["arguments"])}}
                for item in copy["tool_calls"]
            ]  # fmt: skip
        if "results_json" in names and copy["role"] == "tool":
            copy["content"] = _parsed(copy.get("content") or "")
        out.append(copy)
    return out


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value else {}
    except ValueError:
        return value


@dataclass(frozen=True)
class Expected:
    """What a plan of a whole list must be: `ids` where the reference renders every piece, else None.

    `raw` tells that no normalisation changed the render, so the reference saw the list as it was given.
    """

    ids: tuple[int, ...] | None
    raw: bool
    verdict: Verdict


def expected(
    bundle: ReferenceBundle, traits: Traits, messages: Sequence[Message], tools: Sequence[Any] | None,
    *, alias: Any = nine_alphanumerics, rewrites: Sequence[str] = (), **options: Any,
) -> Expected:  # fmt: skip
    """Return the reference's answer for a whole list, without concessions (the parity tests compare it)."""
    framed = normalise(messages, traits, alias)
    verdict = bundle.carries(framed, tools, **options)
    if not verdict.carried:
        return Expected(None, framed == list(messages), verdict)
    text = bundle.render(rewritten(framed, rewrites), tools, **options)
    raw = framed == list(messages)
    if not raw:
        try:
            raw = bundle.render(messages, tools, **options) == text
        except CannotRender:
            raw = False
    return Expected(tuple(bundle.encode(text)), raw, verdict)
