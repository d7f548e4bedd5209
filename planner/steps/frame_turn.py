"""Frame one turn: its messages as the template takes them, every string owned (design.md §6, Framing).

A framed turn depends on the turn, the profile and the allowed concessions, never on its neighbours, so a
growing conversation frames each turn once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planner.steps.frame_calls import arguments_for, call_alias, parsed_json, without_reasoning
from planner.steps.frame_parts import FramedPart, framed_parts
from planner.steps.framing import Framing
from planner.steps.hidden import Found, Look
from planner.steps.layer import turn_kind
from planner.values.forms import Shown
from planner.values.plan import FileItem
from planner.values.prompt import Leaf, LeafKind, Section
from planner.values.turn import Message, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class FramedTurn:
    """Messages of one turn, its leaves in order, the texts left out, and what shapes it holds.

    `key` is the turn's `kind/id`, `file_item` how the plan file lists it.
    `opens_with_user`: a user's words come first; a blank question has no span, its frame counts before the turn.
    `parsed` tells that a text spells one of the template's parsed strings: what stands around it may change.
    `shown` are the shorter forms it was framed in.
    `noted` tells that a plan says something of it: a concession, another call id, a flag, hidden characters or media.
    `aliases` maps call ids to the ids shown instead, `used` a concession to message ids; `shapes` are the names
    `explain` asks the profile about.
    """

    messages: tuple[dict[str, Any], ...] = field(repr=False)
    leaves: tuple[Leaf, ...] = field(repr=False)
    omitted: tuple[Leaf, ...] = field(default=(), repr=False)
    shapes: frozenset[str] = frozenset()
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    message_ids: tuple[str, ...] = ()
    key: str = ""
    file_item: FileItem = ("", "", None)
    opens_with_user: bool = False
    parsed: bool = False
    hidden: tuple[Found, ...] = ()
    noted: bool = False
    shown: Shown = ()
    media: tuple[FramedPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a turn's tokens are charged. The user text of the open turn is the request itself."""

    item: str
    section: Section
    of_which: str = ""
    request_item: str | None = None


def frame_turn(turn: Turn, place: Place, framing: Framing, shown: Shown = ()) -> FramedTurn:
    """Frame every accepted message of a turn, in order; parallel calls stay together unless conceded.

    shown  the forms that `turn` has already taken, kept beside the framed turn.
    """
    framed = _TurnFramer(turn, place, framing).run()
    return replace(framed, shown=shown) if shown else framed


class _TurnFramer:
    def __init__(self, turn: Turn, place: Place, framing: Framing) -> None:
        self.turn = turn
        self.place = place
        self.framing = framing
        self.profile = framing.profile
        self.messages: list[dict[str, Any]] = []
        self.message_ids: list[str] = []
        self.leaves: list[Leaf] = []
        self.omitted: list[Leaf] = []
        self.shapes: set[str] = set()
        self.used: dict[str, list[str]] = {}
        self.aliases: dict[str, str] = {}
        self.flags: set[str] = set()
        self.media: list[FramedPart] = []
        self.answer_goes_on = False
        self.look = Look(framing.strips)

    def run(self) -> FramedTurn:
        messages = [message for message in self.turn.messages if message.accepted]
        position = 0
        while position < len(messages):
            message = messages[position]
            following = messages[position + 1 :]
            self.answer_goes_on = bool(following) and following[0].role == "assistant"
            if len(message.tool_calls) > 1:
                self.shapes.add("parallel_calls")
                if self.framing.applies("serialise_parallel_calls"):
                    position += 1 + self.serialise(message, following)
                    continue
            self.add(message)
            position += 1
        hidden = self.look.found()
        return FramedTurn(
            tuple(self.messages), tuple(self.leaves), tuple(self.omitted), frozenset(self.shapes),
            {name: tuple(ids) for name, ids in self.used.items()}, self.aliases, frozenset(self.flags),
            tuple(self.message_ids), self.place.item, self.file_item(),
            self.opens_with_user(messages), self.spells_parsed_string(), hidden,
            bool(self.used or self.aliases or self.flags or hidden or self.media), media=tuple(self.media),
        )  # fmt: skip

    def opens_with_user(self, messages: list[Message]) -> bool:
        return bool(messages and self.leaves) and messages[0].role == "user" and bool(self.leaves[0].text.strip())

    def spells_parsed_string(self) -> bool:
        marks = [(entry.role, entry.opener) for entry in self.profile.parsed_strings]
        return any(
            mark in leaf.text for leaf in self.leaves for role, mark in marks if role in (leaf.role, "reasoning")
        )

    def file_item(self) -> FileItem:
        kind = "required_request" if self.place.request_item is not None else turn_kind(self.turn)
        return self.place.item, kind, self.turn.sequence

    def put(self, message: Message, framed: dict[str, Any]) -> None:
        self.messages.append(framed)
        self.message_ids.append(message.id or "")

    def add(self, message: Message) -> None:
        if message.role == "user":
            self.put(message, self.text_message(message, "user_text"))
        elif message.role == "assistant":
            self.put(message, self.assistant(message, message.tool_calls, message.words()))
        elif message.role == "tool":
            self.put(message, self.result(message))
        else:
            self.other_role(message)

    def other_role(self, message: Message) -> None:
        # A system or developer message inside a turn is data in its place, never policy (R6, R14, D12).
        shape = "late_" + message.role
        self.shapes.add(shape)
        unsupported = getattr(self.profile, shape) != "kept"
        if unsupported and self.framing.drop_unsupported:
            self.omitted.append(self.leaf(message, "system_text", message.words()))
            return
        self.put(message, self.text_message(message, "system_text"))

    def leaf(self, message: Message, kind: LeafKind, text: str, *, path: str = "", required: bool = True) -> Leaf:
        place = self.place
        item, section, of_which = place.item, place.section, place.of_which
        if place.request_item is not None and kind == "user_text":
            item, section, of_which = place.request_item, "request", ""
        if self.framing.by_message:
            item = f"{place.item}#{message.id}"
        return Leaf(
            item, section, kind, text, message.role, self.turn.id, message.id or "", path, of_which, required,
        )  # fmt: skip

    def owned(self, leaf: Leaf, *, key: bool = False) -> str:
        leaf = self.look.leaf(leaf, key=key)
        self.leaves.append(leaf)
        return self.framing.wrap(leaf)

    def content(self, text: str) -> Any:
        if self.profile.content_form == "parts":
            return [{"type": "text", "text": text}]
        return text

    def text_message(self, message: Message, kind: LeafKind) -> dict[str, Any]:
        return {
            "role": message.role,
            "content": self.content(self.words(message, kind)),
        }

    def words(self, message: Message, kind: LeafKind) -> str:
        if not message.has_media:
            return self.owned(self.leaf(message, kind, message.words()))
        out = ""
        for framed, text in framed_parts(self.turn.id, message, self.framing.costs):
            out = out + (
                self.owned(self.leaf(message, kind, text)) if framed is None else self.media_text(message, framed, text)
            )
        return out

    def media_text(self, message: Message, part: FramedPart, text: str) -> str:
        self.media.append(part)
        if not text:
            return ""
        leaf = replace(self.leaf(message, "user_text", text), kind="media")
        self.leaves.append(leaf)
        return self.framing.wrap(leaf)

    def assistant(self, message: Message, calls: tuple[ToolCall, ...], text: str) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant"}
        if "rstrip_assistant_spaces" in self.profile.rewrites and not self.answer_goes_on:
            text = text.rstrip(" ")
        if calls:
            self.shapes.add("tool_call")
        if calls and text.strip():
            self.shapes.add("text_beside_call")
            if self.framing.applies("omit_text_beside_call"):
                self.omitted.append(self.leaf(message, "assistant_text", text, path="beside_call"))
                self.note("omit_text_beside_call", message)
                text = ""
        if message.reasoning is not None:
            self.reasoning(message, out, beside_text=bool(calls and text.strip()))
        leaf = self.leaf(message, "assistant_text", text, path="beside_call" if calls else "")
        out["content"] = self.content(self.owned(leaf))
        if calls:
            out["tool_calls"] = [self.call(message, call, index, len(calls)) for index, call in enumerate(calls)]
        return out

    def reasoning(self, message: Message, out: dict[str, Any], *, beside_text: bool) -> None:
        self.shapes.add("reasoning")
        raises = self.profile.reasoning_beside_text if beside_text else self.profile.reasoning
        if raises == "raises":
            self.flags.add("reasoning_omitted")
            return
        text = self.owned(self.leaf(message, "reasoning", message.reasoning or "", required=False))
        out["reasoning_content"] = text
        out["thinking"] = text

    def note(self, concession: str, message: Message) -> None:
        ids = self.used.setdefault(concession, [])
        if message.id and message.id not in ids:
            ids.append(message.id)

    def call_id(self, message: Message, call_id: str) -> str:
        shown = call_id
        if self.profile.call_ids == "nine_alphanumerics":
            shown = call_alias(call_id)
            self.aliases[call_id] = shown
        return self.owned(self.leaf(message, "glue", shown, required=False))

    def call(self, message: Message, call: ToolCall, index: int, count: int) -> dict[str, Any]:
        path = f"{index + 1}/{count}"
        name = self.owned(self.leaf(message, "call", call.name, path=path))
        return {
            "id": self.call_id(message, call.id),
            "type": "function",
            "function": {"name": name, "arguments": self.arguments(message, call.arguments, path)},
        }

    def arguments(self, message: Message, arguments: dict[str, Any] | str, path: str) -> Any:
        rewritten = arguments_for(arguments, self.profile)
        return self.wrap_json(message, rewritten, "call", path)

    def wrap_json(self, message: Message, value: Any, kind: LeafKind, path: str) -> Any:
        if isinstance(value, str):
            return self.owned(self.leaf(message, kind, value, path=path))
        if isinstance(value, Mapping):
            value = self.look.keys(self.place.item, kind, value)
            return {
                self.owned(self.leaf(message, kind, key, path=path), key=True): self.wrap_json(
                    message, inner, kind, path
                )
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.wrap_json(message, inner, kind, path) for inner in value]
        return value

    def result(self, message: Message) -> dict[str, Any]:
        self.shapes.add("tool_result")
        text = message.words()
        call_id = message.tool_result.call_id if message.tool_result is not None else ""
        content: Any
        if "results_json" in self.profile.rewrites:
            content = self.wrap_json(message, parsed_json(text), "result", "")
        else:
            content = self.content(self.owned(self.leaf(message, "result", text)))
        return {"role": "tool", "tool_call_id": self.call_id(message, call_id), "content": content}

    def serialise(self, message: Message, following: list[Message]) -> int:
        """Put each result right after its call; return how many of the following messages were used."""
        results: dict[str, Message] = {}
        used = 0
        for other in following:
            if other.role != "tool" or other.tool_result is None:
                break
            results[other.tool_result.call_id] = other
            used += 1
        answered = [call for call in message.tool_calls if call.id in results]
        waiting = tuple(call for call in message.tool_calls if call.id not in results)
        text = message.words()
        self.note("serialise_parallel_calls", message)
        for index, call in enumerate(answered):
            shown = without_reasoning(message, index)
            self.put(message, self.assistant(shown, (call,), "" if index else text))
            self.put(results[call.id], self.result(results[call.id]))
        if waiting:
            step = len(answered)
            shown = without_reasoning(message, step)
            self.put(message, self.assistant(shown, waiting, "" if step else text))
        return used
