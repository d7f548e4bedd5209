"""The engine of llama.cpp: a running server renders its own model's template by /apply-template.

A server holds one template, so the bundle's must be that one. Conversations of ours are sent, none of a user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.runtimes.http_json import JsonServer
from planner.runtimes.renderers import Rendered
from planner.values.reasons import PlannerFault

_REFUSED = frozenset({400, 500})
SWITCHES: Mapping[str, Any] = {
    "enable_thinking": True,
    "preserve_reasoning": True,
    "preserve_thinking": True,
    "clear_thinking": False,
    "truncate_history_thinking": False,
    "drop_thinking": False,
}
"""What a server tells templates unless it was started or asked otherwise (build b10775)."""


class _Refused(PlannerFault):
    """The server's template raised; what the server says of it may hold words of the template and is not kept."""


class _TemplateServer(JsonServer):
    """A llama.cpp server, asked for nothing but its template."""

    def status_fault(self, status: int, body: bytes) -> PlannerFault:
        """Tell a template that raised from a server without such a call."""
        if status in _REFUSED:
            return _Refused("upstream_failed", f"the model server answered with status {status}")
        return super().status_fault(status, body)

    def applied(self, body: Mapping[str, Any]) -> str | None:
        """Return the rendered prompt, None where the template raises there. Raises PlannerFault."""
        try:
            text = self.call_object("POST", "/apply-template", body).get("prompt")
        except _Refused:
            return None
        if type(text) is not str:
            raise PlannerFault("upstream_failed", "the answer has no prompt")
        return text


class LlamaRenderer:
    """Renders through a server at a base URL; it leaves out a begin token that it adds when it tokenizes."""

    name = "llama"
    drops_bos = True
    switches = SWITCHES

    def __init__(self, url: str, *, now: str) -> None:
        """Ask the server what it holds; `now` must be the present of its clock, which cannot be set.

        Raises PlannerFault upstream_down, upstream_failed where it is no llama.cpp server.
        """
        self.now = now
        self._server = _TemplateServer(url, timeout_s=60)
        known = self._server.call_object("GET", "/props")
        source, version = known.get("chat_template"), known.get("build_info")
        if type(source) is not str:
            raise PlannerFault("upstream_failed", "the server states no chat template")
        self._source = source
        self.version = version if isinstance(version, str) and version.isascii() and len(version) <= 40 else "-"

    def render(
        self,
        source: str,
        strings: Mapping[str, str],
        cases: Sequence[Mapping[str, Any]],
    ) -> tuple[Rendered, ...]:
        """Render each case with the strings of the server's own model.

        Raises PlannerFault runtime_mismatch where it holds another template, upstream_down.
        """
        del strings  # the server has those of its own model
        if source.strip() != self._source.strip():
            raise PlannerFault("runtime_mismatch", "the server holds another chat template than the bundle")
        answers = (self._server.applied({key: value for key, value in one.items() if value}) for one in cases)
        return tuple(Rendered(text, "" if text is not None else "it raises") for text in answers)
