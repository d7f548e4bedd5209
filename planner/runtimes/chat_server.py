"""One call of a model server over HTTP: llama.cpp by token ids, any OpenAI-compatible server by messages.

The only HTTP client of the package. It is never on the path of a plan: the plan is made first, then handed over.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.values.field_rules import is_whole
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.strict_json import Bounds, load_strict

_ANSWER = Bounds(total_bytes=8 * 1024 * 1024, field_bytes=8 * 1024 * 1024, list_items=100_000)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model wrote. `finish` is `length` where it was cut off; `prompt_tokens` as the server counted."""

    text: str = field(repr=False)
    finish: Literal["stop", "length", "unknown"]
    prompt_tokens: int | None = None


class ChatServer:
    """A server at a base URL, such as http://127.0.0.1:8080; nothing is sent before the first call."""

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None, timeout_s: float = 600
    ) -> None:
        """Keep the settings. Raises PlannerFault upstream_down for a URL that is no http or https address."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise PlannerFault("upstream_down", "the address is no http or https base URL")
        self._base = url.rstrip("/").removesuffix("/v1")
        self._model = model
        self._timeout_s = timeout_s
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        # A proxy of the environment must not see a call that stays on this machine.
        proxies: tuple[urllib.request.BaseHandler, ...] = ()
        if parts.hostname in _LOOPBACK:
            proxies = (urllib.request.ProxyHandler({}),)
        self._opener = urllib.request.build_opener(_NoRedirect(), *proxies)

    def is_llama(self) -> bool:
        """Tell whether the server takes token ids as llama.cpp does: it answers /props with its settings."""
        try:
            body = self._call("GET", "/props", None)
        except PlannerFault as fault:
            if fault.code == "upstream_failed":
                return False
            raise
        return isinstance(body.get("default_generation_settings"), dict)

    def complete_ids(self, ids: Sequence[int], max_tokens: int) -> Completion:
        """Run exact ids (llama.cpp /completion); temperature 0.

        Raises PlannerFault upstream_down, upstream_failed, and runtime_mismatch where the server counted
        another number of prompt tokens than it was given.
        """
        body = self._call(
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
        return Completion(text, "length" if cut else "stop", counted)

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> Completion:
        """Run a message list (/v1/chat/completions); temperature 0. Raises as `complete_ids`."""
        asked: dict[str, Any] = {"messages": list(messages), "max_tokens": max_tokens, "temperature": 0}
        if self._model is not None:
            asked["model"] = self._model
        body = self._call("POST", "/v1/chat/completions", asked)
        choices = body.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        text = message.get("content") if isinstance(message, dict) else None
        if not isinstance(first, dict) or type(text) is not str:
            raise PlannerFault("upstream_failed", "the answer has no message content")
        reason = first.get("finish_reason")
        usage = body.get("usage")
        counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        finish: Literal["stop", "length", "unknown"] = reason if reason in ("stop", "length") else "unknown"
        return Completion(text, finish, counted if is_whole(counted) else None)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        data = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        request = urllib.request.Request(self._base + path, data, self._headers, method=method)  # noqa: S310
        status = 0
        answer = b""
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                answer = response.read(_ANSWER.total_bytes + 1)
        except urllib.error.HTTPError as error:
            status = error.code
        except (OSError, http.client.HTTPException):
            status = -1
        # Raised outside the handler: an exception of the library may hold what was sent.
        if status < 0:
            raise PlannerFault("upstream_down", "no answer from the model server")
        if status:
            raise PlannerFault("upstream_failed", f"the model server answered with status {status}")
        return _json_object(answer)


def _json_object(answer: bytes) -> dict[str, Any]:
    found: Any = None
    try:
        found = load_strict(answer, _ANSWER)
    except RefusalSignal:
        found = None
    if type(found) is not dict:
        raise PlannerFault("upstream_failed", "the model server's answer is no JSON object")
    return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A conversation goes to the address that was named and to no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the library calls it by position
        """Follow nothing; the redirect's status is then an error."""
        return
