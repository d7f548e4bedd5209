"""The framed prompt as values: leaves of content, spans of text, ids (R43, X40)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

Section = Literal["policy", "tool", "request", "history", "retrieval"]
LeafKind = Literal[
    "policy", "tools", "call", "result", "user_text", "assistant_text", "reasoning", "system_text",
    "summary", "passage", "glue", "media",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One string of content and whom it belongs to. Compared by identity: two equal texts are two leaves.

    `item` is the `kind/id` the account charges, `of_which` the bracketed line it also counts for,
    `message` the message id for diagnostics, `path` the JSON path inside a tool or argument,
    `kind` media marks placeholders that we wrote ourselves: their control tokens are obeyed.
    `required` whether its text must be found in the prompt (design.md §4.1).
    """

    item: str
    section: Section
    kind: LeafKind
    text: str = field(repr=False)
    role: str = ""
    turn: str = ""
    message: str = ""
    path: str = ""
    of_which: str = ""
    required: bool = True


Span = tuple[Leaf | None, int]
"""Owner (None is framing) and length in characters."""


@dataclass(frozen=True, slots=True)
class TemplateInputs:
    """What the chat template gets. Strings of content are owned by `leaves`; roles are plain text."""

    messages: Sequence[Mapping[str, Any]] = field(repr=False)
    tools: Sequence[Mapping[str, Any]] | None = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    leaves: Sequence[Leaf] = field(default=(), repr=False)
    now: str | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """Template output with the owner of every character; span lengths add up to `len(text)`."""

    text: str = field(repr=False)
    spans: Sequence[Span] = field(repr=False)


@dataclass(slots=True)
class Counters:
    """Noise-free cost of one plan (design.md §4.9)."""

    renders: int = 0
    mini_renders: int = 0
    audit_renders: int = 0
    probe_renders: int = 0
    characters_rendered: int = 0
    characters_encoded: int = 0
    runs_encoded: int = 0
    cache_hits: int = 0
    audit_characters_rendered: int = 0
    audit_characters_encoded: int = 0
    audit_differences: int = 0
    speed: str = "certified"

    def as_dict(self) -> dict[str, int | str]:
        """Return the counters by name, for diagnostics."""
        return dict(zip(self.__slots__, _counted(self), strict=True))


_counted = attrgetter(*Counters.__slots__)
