"""One whole answer of a model server: llama.cpp by token ids, any OpenAI-compatible server by messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.runtimes.http_json import sayable
from planner.runtimes.llama_cpp import LlamaServer
from planner.values.field_rules import is_whole
from planner.values.reasons import PlannerFault


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote. `finish` is `length` where it was cut off; `prompt_tokens` as the server counted."""

    text: str = field(repr=False)
    finish: Literal["stop", "length", "unknown"]
    prompt_tokens: int | None = None


class ChatServer(LlamaServer):
    """A server whose kind is found out; it takes messages where it takes no ids."""

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None, timeout_s: float = 600
    ) -> None:
        """Keep the settings. Raises PlannerFault upstream_down for a URL that is no http or https address."""
        super().__init__(url, api_key=api_key, timeout_s=timeout_s)
        self._model = model

    def complete_ids(self, ids: Sequence[int], max_tokens: int) -> Completion:
        """Run exact ids (llama.cpp /completion); temperature 0.

        Raises PlannerFault upstream_down, upstream_failed, and runtime_mismatch where the server counted
        another number of prompt tokens than it was given.
        """
        body = self.call_object(
            "POST",
            "/completion",
            {"prompt": list(ids), "n_predict": max_tokens, "temperature": 0, "cache_prompt": True},
        )
        text, counted = body.get("content"), body.get("tokens_evaluated")
        if type(text) is not str or not is_whole(counted):
            raise PlannerFault("upstream_failed", "the answer has no content or no token count")
        if counted != len(ids):
            raise PlannerFault("runtime_mismatch", f"the server read {counted} tokens, the plan has {len(ids)}")
        cut = body.get("stop_type") == "limit" or body.get("truncated") is True
        return Completion(sayable(text), "length" if cut else "stop", counted)

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> Completion:
        """Run a message list (/v1/chat/completions); temperature 0. Raises as `complete_ids`."""
        asked: dict[str, Any] = {"messages": list(messages), "max_tokens": max_tokens, "temperature": 0}
        if self._model is not None:
            asked["model"] = self._model
        body = self.call_object("POST", "/v1/chat/completions", asked)
        choices = body.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        text = message.get("content") if isinstance(message, dict) else None
        reason = first.get("finish_reason") if isinstance(first, dict) else None
        if text is None and isinstance(message, dict) and reason == "length":
            text = ""  # cut off within its reasoning, which such a server hands out apart
        if type(text) is not str:
            raise PlannerFault("upstream_failed", "the answer has no message content")
        usage = body.get("usage")
        counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        finish: Literal["stop", "length", "unknown"] = reason if reason in ("stop", "length") else "unknown"
        return Completion(sayable(text), finish, counted if is_whole(counted) else None)
