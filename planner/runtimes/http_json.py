"""JSON over HTTP to a model server: whole answers and streams of events, each read strictly.

The only HTTP client of the package. It is never on the path of a plan: the plan is made first, then handed over.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.strict_json import Bounds, load_strict

_ANSWER = Bounds(total_bytes=8 * 1024 * 1024, field_bytes=8 * 1024 * 1024, list_items=100_000, any_text=True)
_ERROR_BYTES = 64 * 1024
_STREAM_BYTES = 64 * 1024 * 1024
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class JsonServer:
    """A server at a base URL, such as http://127.0.0.1:8080; nothing is sent before the first call."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = 600) -> None:
        """Keep the settings. Raises PlannerFault upstream_down for a URL that is no http or https address."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise PlannerFault("upstream_down", "the address is no http or https base URL")
        self._base = url.rstrip("/").removesuffix("/v1")
        self._timeout_s = timeout_s
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        # A proxy of the environment must not see a call that stays on this machine.
        proxies: tuple[urllib.request.BaseHandler, ...] = ()
        if parts.hostname in _LOOPBACK:
            proxies = (urllib.request.ProxyHandler({}),)
        self._opener = urllib.request.build_opener(_NoRedirect(), *proxies)

    def status_fault(self, status: int, body: bytes) -> PlannerFault:  # noqa: ARG002 - a subclass reads the body
        """Return the fault of an answer with an error's status; a subclass may know more than the number."""
        return PlannerFault("upstream_failed", f"the model server answered with status {status}")

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON value of one answer. Raises PlannerFault upstream_down, upstream_failed."""
        answer = b""
        with closing(self._open(method, path, body)) as response:
            try:
                answer = response.read(_ANSWER.total_bytes + 1)
                broken = False
            except (OSError, http.client.HTTPException):
                broken = True
        if broken:
            raise _broke_off()
        return parsed(answer)

    def call_object(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return one answer that must be a JSON object. Raises as `call`."""
        return as_object(self.call(method, path, body))

    def events(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the objects of a stream of server-sent events as they arrive; closing it ends the call.

        Raises PlannerFault upstream_down where the stream breaks off, upstream_failed for what is no event.
        """
        taken = 0
        with closing(self._open("POST", path, body)) as response:
            while True:
                line, broken = b"", False
                try:
                    line = response.readline(_ANSWER.total_bytes + 1)
                except (OSError, http.client.HTTPException):
                    broken = True
                if broken:
                    raise _broke_off()
                if not line:
                    return
                taken += len(line)
                if taken > _STREAM_BYTES:
                    raise PlannerFault("upstream_failed", f"the stream is longer than {_STREAM_BYTES} bytes")
                field, _, value = line.strip().partition(b":")
                if field == b"error":
                    raise PlannerFault("upstream_failed", "the model server reported an error while it answered")
                if field == b"data" and value.strip() != b"[DONE]":
                    yield as_object(parsed(value.strip()))

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        data = json.dumps(body, ensure_ascii=False).encode() if body is not None else None
        request = urllib.request.Request(self._base + path, data, self._headers, method=method)  # noqa: S310
        status, said, response = 0, b"", None
        try:
            response = self._opener.open(request, timeout=self._timeout_s)
        except urllib.error.HTTPError as error:
            status, said = error.code, _bounded(error)
        except (OSError, http.client.HTTPException):
            status = -1
        # Raised outside the handler: an exception of the library may hold what was sent.
        if status < 0:
            raise PlannerFault("upstream_down", "no answer from the model server")
        if status:
            raise self.status_fault(status, said)
        return response


def parsed(answer: bytes) -> Any:
    """Return the value of a JSON answer. Raises PlannerFault upstream_failed; nothing of the answer is in it."""
    found: Any = None
    try:
        found = load_strict(answer, _ANSWER)
    except RefusalSignal:
        found = None
    if found is None:
        raise PlannerFault("upstream_failed", "the model server's answer is no JSON")
    return found


def as_object(value: Any) -> dict[str, Any]:
    """Return a value that must be a JSON object. Raises PlannerFault upstream_failed."""
    if type(value) is not dict:
        raise PlannerFault("upstream_failed", "the model server's answer is no JSON object")
    return value


def sayable(text: str) -> str:
    """Return an answer's text as one that can be written as UTF-8.

    >>> sayable("a" + chr(0xD800))
    'a?'
    """
    return text.encode("utf-8", "replace").decode()


def _broke_off() -> PlannerFault:
    return PlannerFault("upstream_down", "the model server's answer broke off")


def _bounded(error: urllib.error.HTTPError) -> bytes:
    with closing(error):
        try:
            return error.read(_ERROR_BYTES)
        except (OSError, http.client.HTTPException):
            return b""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A conversation goes to the address that was named and to no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - the library calls it by position
        """Follow nothing; the redirect's status is then an error."""
        return
