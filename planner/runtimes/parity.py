"""What a running model server makes of a text or of messages: its ids where it shows them, else its count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.runtimes.http_json import as_object
from planner.runtimes.llama_cpp import LlamaServer, whole
from planner.values.reasons import PlannerFault

_NO_COUNT = "the server does not say how many tokens it read"


@dataclass(frozen=True, slots=True)
class Read:
    """Tokens as the server read them; `ids` None where it shows none."""

    tokens: int
    ids: tuple[int, ...] | None = None


class ParitySource:
    """A server by what it answers: llama.cpp shows ids, any other one with a chat API its count."""

    def __init__(self, url: str, *, model: str | None = None, api_key: str | None = None) -> None:
        """Keep the settings. Raises PlannerFault upstream_down for what is no base URL."""
        self._server = LlamaServer(url, api_key=api_key)
        self._model = {} if model is None else {"model": model}
        self._shows_ids: bool | None = None

    @property
    def shows_ids(self) -> bool:
        """Whether it is a llama.cpp server; asked once."""
        if self._shows_ids is None:
            self._shows_ids = self._server.is_llama()
        return self._shows_ids

    def ids(self, ids: Sequence[int]) -> Read:
        """Return what a llama.cpp server reads of exact ids; it makes one token of an answer. Raises as `text`."""
        return Read(self._server.run(ids, 1).prompt_tokens)

    def text(self, prompt: str) -> Read:
        """Return what the server reads of a prompt's text. Raises PlannerFault upstream_down, upstream_failed."""
        if self.shows_ids:
            return self._tokenized(prompt)
        body = {**self._model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        return Read(_usage(self._server.call_object("POST", "/v1/completions", body)))

    def messages(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> Read:
        """Return what the server reads of messages that it renders itself. Raises as `text`."""
        body: dict[str, Any] = {**self._model, "messages": list(messages)}
        if tools:
            body["tools"] = list(tools)
        if self.shows_ids:
            rendered = self._server.call_object("POST", "/apply-template", body).get("prompt")
            if type(rendered) is not str:
                raise PlannerFault("upstream_failed", "the server does not show the prompt it makes")
            return self._tokenized(rendered)
        try:
            said = self._server.call_object("POST", "/v1/chat/completions/input_tokens", body)
        except PlannerFault as fault:
            if fault.code != "upstream_failed":
                raise
            said = {}
        if "input_tokens" in said:
            return Read(whole(said["input_tokens"], _NO_COUNT))
        body |= {"max_tokens": 1, "temperature": 0}
        return Read(_usage(self._server.call_object("POST", "/v1/chat/completions", body)))

    def _tokenized(self, prompt: str) -> Read:
        body = {"content": prompt, "add_special": True, "parse_special": True}
        found = self._server.call_object("POST", "/tokenize", body).get("tokens")
        if type(found) is not list:
            raise PlannerFault("upstream_failed", "the server does not show its tokens")
        ids = tuple(whole(one, "the server does not show its tokens") for one in found)
        return Read(len(ids), ids)


def _usage(body: dict[str, Any]) -> int:
    return whole(as_object(body.get("usage")).get("prompt_tokens"), _NO_COUNT)
