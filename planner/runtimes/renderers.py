"""The engines a chat template can be tried in beside Jinja2, behind one port.

An engine is somebody else's program: it gets a template and conversations of ours, and its answer is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Rendered:
    """What an engine wrote, or None and one of a closed set of reasons why it wrote nothing."""

    text: str | None = field(repr=False)
    reason: str = ""


class Renderer(Protocol):
    """An engine, ready to render: what it needs was looked for when it was made."""

    @property
    def name(self) -> str:
        """`npm` or `llama`."""

    @property
    def version(self) -> str:
        """As the engine states it, `-` where it does not."""

    @property
    def drops_bos(self) -> bool:
        """Whether the begin token at the very start is left to the tokenizer there."""

    @property
    def switches(self) -> Mapping[str, Any]:
        """What the engine tells every template by itself, where the caller says nothing."""

    @property
    def now(self) -> str:
        """RFC 3339 instant that `strftime_now` prints there."""

    def render(
        self, source: str, strings: Mapping[str, str], cases: Sequence[Mapping[str, Any]]
    ) -> tuple[Rendered, ...]:
        """Render each case: `messages`, and `tools` or None, always with the header of an answer.

        strings are the bundle's bos_token and the like. Raises PlannerFault where the engine cannot be used.
        """
