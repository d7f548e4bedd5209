"""llama.cpp's template engine as ggufdoctor ships it: for any template text, without a server per template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.runtimes.llama_renderer import SWITCHES
from planner.runtimes.renderers import Rendered


class LlamaEngine:
    """A renderer over that engine; raises ImportError where the package is absent, OSError where it cannot run."""

    name = "llama"
    drops_bos = False
    switches: Mapping[str, Any] = SWITCHES

    def __init__(self) -> None:
        from ggufdoctor.engines.llamacpp_engine import LlamaCppEngine

        self._engine = LlamaCppEngine()
        if not self._engine.available:
            raise OSError(self._engine.unavailable_reason)
        self.version: str = self._engine.version
        asked = {"messages": [{"role": "user", "content": "x"}]}
        # Its clock stands still; the reference is set to the same instant.
        self.now: str = self._engine.render("{{ strftime_now('%Y-%m-%dT%H:%M:%S') }}", asked).text + "+00:00"

    def render(
        self, source: str, strings: Mapping[str, str], cases: Sequence[Mapping[str, Any]]
    ) -> tuple[Rendered, ...]:
        """Render each case, what is None left out as a server's caller would."""
        found = []
        for one in cases:
            given = {key: value for key, value in one.items() if value is not None}
            text = self._engine.render(source, {**strings, **given}).text
            found.append(Rendered(text, "" if text is not None else "it raises"))
        return tuple(found)
