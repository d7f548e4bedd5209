"""Turns own their messages: the smallest unit that is kept or leaves (R47, R48)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["system", "developer", "user", "assistant", "tool"]
TurnState = Literal["open", "completed", "cancelled", "superseded"]
ProtectionReason = Literal["pending-confirmation", "active-constraint", "audit-evidence"]
Material = Literal["chat", "code", "dispute", "tool_result"]

TRANSITIONS: Mapping[TurnState, frozenset[TurnState]] = {
    "open": frozenset({"completed", "cancelled", "superseded"}),
    "completed": frozenset({"superseded"}),
    "cancelled": frozenset(),
    "superseded": frozenset(),
}
"""The only moves between turn states (R56; design.md §8)."""


def may_become(before: TurnState, after: TurnState) -> bool:
    """Tell whether the table of states allows this move.

    >>> may_become("completed", "superseded"), may_become("cancelled", "open")
    (True, False)
    """
    return after in TRANSITIONS[before]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of an assistant message; `arguments` is a JSON object or the text the model wrote."""

    id: str
    name: str
    arguments: dict[str, Any] | str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call of the same turn; `text` may be empty and still is an answer (D08b)."""

    call_id: str
    text: str = field(repr=False)
    short_forms: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a message's content: words, or an image or sound of a stated size, whose data is never read.

    A part that is no text has an id and no text; it is planned where the bundle declares what its type costs.
    `width_px`, `height_px` and `duration_ms` are those of what the model's processor gets.
    """

    type: Literal["text", "image", "audio"]
    text: str | None = field(default=None, repr=False)
    id: str | None = None
    width_px: int | None = None
    height_px: int | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the application recorded it (R5, design.md §9).

    Exactly one of `text` and `parts` carries the words; a null text means the empty text (D08).
    `accepted` is false for an assistant candidate that was not chosen (X63).
    `sequence` is the ledger's; without one a message stands its place in the turn behind the turn's own.
    `version` counts the edits of this message, from 1 (design.md §8).
    """

    role: Role
    id: str | None = None
    text: str | None = field(default=None, repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)
    tool_calls: tuple[ToolCall, ...] = field(default=(), repr=False)
    tool_result: ToolResult | None = field(default=None, repr=False)
    reasoning: str | None = field(default=None, repr=False)
    source: str | None = None
    accepted: bool = True
    protection_reason: ProtectionReason | None = None
    constraint_ids: tuple[str, ...] = ()
    citation_ids: tuple[str, ...] = ()
    sequence: int | None = None
    version: int = 1

    def words(self) -> str:
        """Return the message's own text, parts joined without a separator, null as empty."""
        if self.tool_result is not None:
            return self.tool_result.text
        if self.parts:
            return "".join([part.text or "" for part in self.parts])
        return self.text or ""

    @property
    def has_media(self) -> bool:
        """True where a part of it is no text."""
        return any(part.type != "text" for part in self.parts)


@dataclass(frozen=True, slots=True)
class MustPreserve:
    """A constraint mark of a turn; `text` is the application's own wording (X61, D13)."""

    constraint_id: str
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An action or question of a turn that is still unfinished (X32)."""

    id: str
    status: Literal["pending", "blocked", "done"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message with every answer, call and result that belongs to it (R47).

    `sequence` is that of the first message and the only order there is (R12, design.md §2).
    """

    id: str
    sequence: int
    state: TurnState
    messages: tuple[Message, ...] = field(repr=False)
    must_preserve: tuple[MustPreserve, ...] = field(default=(), repr=False)
    supersedes: tuple[str, ...] = ()
    open_items: tuple[OpenItem, ...] = ()
    material: Material | None = None

    def sequence_of(self, index: int) -> int:
        """Return the sequence of a message by its place: its own, else the turn's plus the place."""
        own = self.messages[index].sequence
        return self.sequence + index if own is None else own

    @property
    def has_media(self) -> bool:
        """True when a message holds a part that is no text."""
        return any(message.parts and message.has_media for message in self.messages)

    @property
    def pinned(self) -> bool:
        """True when a message is protected: the whole turn then stays raw (X2)."""
        return any(message.protection_reason is not None for message in self.messages)
