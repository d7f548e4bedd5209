"""Twins of a conversation: the same structure with one unique marker word in every string.

Rendering a twin shows what a template loses, raises on or rewrites by position, without any doubt about
which piece a word in the output came from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Message = dict[str, Any]
KIND_ORDER = {"policy": 0, "tools": 1, "call": 2, "result": 3, "user_text": 4, "assistant_text": 4}


@dataclass(frozen=True)
class Piece:
    """One thing a prompt must hold: `turn` is -1 for policy and tools, else the turn's position."""

    kind: str
    turn: int
    message: int
    part: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """Sort key of design.md §2: policy, tools, then the oldest turn; in a turn call, result, text."""
        rank = KIND_ORDER[self.kind]
        return (rank, self.message, self.part) if rank < 2 else (2, self.turn, rank, self.message, self.part)


@dataclass(frozen=True)
class Verdict:
    """What a template did to a list: `raised` names the class of an error, `missing` the lost pieces."""

    raised: str | None = None
    missing: tuple[Piece, ...] = ()

    @property
    def carried(self) -> bool:
        """True if the list renders with every piece in it."""
        return self.raised is None and not self.missing


@dataclass
class Twin:
    """A marked copy and, per piece, the marker words that must stand in the output."""

    messages: list[Message]
    tools: list[Any] | None
    pieces: dict[Piece, list[str]] = field(default_factory=dict)


class _Marker:
    def __init__(self) -> None:
        self._numbers = count(1)

    def word(self, words: list[str]) -> str:
        words.append(f"qzv{next(self._numbers):05d}w")
        return words[-1]

    def value(self, value: Any, words: list[str]) -> Any:
        """Copy a JSON value with every key and every text leaf replaced; numbers stay as they are."""
        if isinstance(value, dict):
            return {self.word(words): self.value(item, words) for item in value.values()}
        if isinstance(value, list):
            return [self.value(item, words) for item in value]
        return self.word(words) if isinstance(value, str) and value.strip() else value


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the positions of the messages that open a turn: every user message."""
    return [at for at, message in enumerate(messages) if message["role"] == "user"]


def _turn_of(messages: Sequence[Message]) -> list[int]:
    turn, answer, leading = -1, [], True
    for message in messages:
        role = message["role"]
        if leading and role in {"system", "developer"}:
            answer.append(-1)
            continue
        turn = max(turn, 0) if role != "user" or leading else turn + 1
        leading = False
        answer.append(turn)
    return answer


def _kind(message: Message, turn: int) -> str:
    if turn < 0:
        return "policy"
    return {"assistant": "assistant_text", "tool": "result"}.get(message["role"], "user_text")


def _twin_call(call: dict[str, Any], marker: _Marker, words: list[str]) -> dict[str, Any]:
    function = call["function"]
    arguments = function["arguments"]
    given_as_text = isinstance(arguments, str)
    if given_as_text:
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    marked = marker.word(words) if arguments is None else marker.value(arguments, words)
    if given_as_text and arguments is not None:
        marked = json.dumps(marked, ensure_ascii=False)
    return {**call, "function": {**function, "name": marker.word(words), "arguments": marked}}


def _twin_tool(tool: dict[str, Any], marker: _Marker, words: list[str]) -> dict[str, Any]:
    """Mark name, description and the top-level parameters' names and descriptions (design.md §4.1)."""
    function = dict(tool["function"])
    function["name"] = marker.word(words)
    if function.get("description"):
        function["description"] = marker.word(words)
    parameters = function.get("parameters")
    if isinstance(parameters, dict) and isinstance(parameters.get("properties"), dict):
        renamed: dict[str, str] = {}
        properties = {}
        for key, schema in parameters["properties"].items():
            renamed[key] = marker.word(words)
            marked = dict(schema)
            if marked.get("description"):
                marked["description"] = marker.word(words)
            properties[renamed[key]] = marked
        function["parameters"] = {**parameters, "properties": properties}
        if "required" in parameters:
            function["parameters"]["required"] = [renamed.get(key, key) for key in parameters["required"]]
    return {**tool, "function": function}


def twin_of(messages: Sequence[Message], tools: Sequence[Any] | None = None) -> Twin:
    """Return the marked twin of a list and its tools."""
    marker = _Marker()
    pieces: dict[Piece, list[str]] = {}
    marked: list[Message] = []
    for at, (message, turn) in enumerate(zip(messages, _turn_of(messages), strict=True)):
        copy = dict(message)
        content = message.get("content")
        if isinstance(content, str) and content.strip():
            words = pieces.setdefault(Piece(_kind(message, turn), turn, at), [])
            copy["content"] = marker.word(words)
        for key in ("reasoning_content", "thinking", "reasoning"):
            if message.get(key):
                copy[key] = marker.word([])
        if message.get("tool_calls"):
            calls = []
            for number, call in enumerate(message["tool_calls"]):
                words = pieces.setdefault(Piece("call", turn, at, number), [])
                calls.append(_twin_call(call, marker, words))
            copy["tool_calls"] = calls
        if message["role"] == "tool" and "name" in message:
            copy["name"] = marker.word([])
        marked.append(copy)
    marked_tools = None
    if tools:
        marked_tools = []
        for number, tool in enumerate(tools):
            words = pieces.setdefault(Piece("tools", -1, number), [])
            marked_tools.append(_twin_tool(tool, marker, words))
    return Twin(marked, marked_tools, pieces)


def structure_key(messages: Sequence[Message], tools: Sequence[Any] | None) -> str:
    """Return a key that is equal for lists with the same twin up to the marker words."""
    return json.dumps([list(map(_structure, messages)), list(map(_structure_of_tool, tools or ()))])


def _structure(message: Message) -> list[Any]:
    """Everything of a message that a twin keeps: role, emptiness, calls, keys, ids' shape and reasoning."""
    content = message.get("content")
    text = "text" if isinstance(content, str) and content.strip() else content
    calls = [
        [isinstance(item["function"]["arguments"], str), _skeleton(item["function"]["arguments"]),
         len(item["id"]) == 9, item["id"]]
        for item in message.get("tool_calls") or ()
    ]  # fmt: skip
    reasoning = [bool(message.get(key)) for key in ("reasoning_content", "thinking", "reasoning")]
    return [message["role"], text, calls, reasoning, message.get("tool_call_id")]


def _skeleton(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return "text"
    if isinstance(value, dict):
        return {"keys": [_leaf(item) for item in value.values()]}
    return _leaf(value)


def _leaf(value: Any) -> Any:
    if isinstance(value, dict):
        return {"keys": [_leaf(item) for item in value.values()]}
    if isinstance(value, list):
        return [_leaf(item) for item in value]
    return "text" if isinstance(value, str) and value.strip() else type(value).__name__


def _structure_of_tool(tool: dict[str, Any]) -> list[Any]:
    function = tool["function"]
    properties = (function.get("parameters") or {}).get("properties") or {}
    described = [bool(item.get("description")) for item in properties.values()]
    return [bool(function.get("description")), described]


def missing_pieces(twin: Twin, text: str) -> tuple[Piece, ...]:
    """List the pieces with a marker that is not in `text`, in the order refusals name them."""
    lost = [piece for piece, words in twin.pieces.items() if not all(word in text for word in words)]
    return tuple(sorted(lost, key=lambda piece: piece.order))
