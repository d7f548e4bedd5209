"""A chat file: an OpenAI message list, or a request body that holds one. No pydantic: counts stay cheap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from planner.values.field_rules import invalid
from planner.values.strict_json import load_strict

SAMPLING_NAMES = frozenset({
    "model", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stream", "stream_options", "n",
    "user", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias",
})  # fmt: skip
"""Body fields that say how to sample and never what the prompt holds; they are left to the runtime."""


@dataclass(frozen=True, slots=True)
class Chat:
    """What a chat file holds; `messages` and `tools` are checked by the adapter that reads them."""

    messages: list[Any] = field(repr=False)
    tools: list[Any] | None = field(default=None, repr=False)
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


def parse_chat(data: bytes, tools: bytes | None = None) -> Chat:
    """Read a chat file and, apart, a file of tools.

    data   a JSON list of messages, or an object with `messages` and maybe `tools`, `max_tokens`,
           `max_completion_tokens` and sampling fields.
    tools  a JSON list of declarations; not both here and in the object.
    Raises RefusalSignal `invalid-input`.
    """
    body = load_strict(data)
    if type(body) is list:
        body = {"messages": body}
    if type(body) is not dict:
        invalid("$", "expected a list of messages or an object that holds one")
    known = {"messages", "tools", "max_tokens", "max_completion_tokens"}
    unknown = len(body.keys() - known - SAMPLING_NAMES)
    if unknown:
        invalid("$", f"has {unknown} fields a chat does not know")
    declared = body.get("tools")
    if tools is not None:
        if declared is not None:
            invalid("$.tools", "stand beside a file of tools")
        declared = load_strict(tools)
    if type(body.get("messages")) is not list:
        invalid("$.messages", "expected an array")
    if declared is not None and type(declared) is not list:
        invalid("$.tools", "expected an array")
    return Chat(body["messages"], declared, body.get("max_tokens"), body.get("max_completion_tokens"))
