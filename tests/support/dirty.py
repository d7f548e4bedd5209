"""Dirty conversations: one control string planted in one text channel, beside an inert twin.

threats.md §2.7: whole, split over two neighbouring fields, and in full-width characters. The twin is the
same chat with inert text of the same length in the same places, so control ids of the two must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
PLACEMENTS = ("whole", "split", "full_width")
PLAIN_CHANNELS = ("policy", "user", "assistant", "request")
REASONING_CHANNELS = ("old_reasoning", "open_reasoning")
TOOL_CHANNELS = (
    "result", "open_result", "tool_description", "property_key", "property_description", "enum_value",
    "argument_key", "argument_value",
)  # fmt: skip
CHANNELS = (*PLAIN_CHANNELS, *REASONING_CHANNELS, *TOOL_CHANNELS)

# The field that stands next to a channel in a prompt; the second half of a split string goes to its start.
NEIGHBOUR = {
    "policy": "user", "user": "assistant", "assistant": "request", "request": "open_call_text",
    "old_reasoning": "assistant", "open_reasoning": "open_call_text", "result": "assistant",
    "open_result": "open_result_2", "tool_description": "property_key",
    "property_key": "property_description", "property_description": "enum_value",
    "enum_value": "enum_value_2", "argument_key": "argument_value",
    "argument_value": "argument_key_2",
}  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """A dirty chat and its inert twin; `literal` is the planted text, `halves` its two parts if split."""

    messages: list[Message]
    tools: list[Any]
    inert_messages: list[Message]
    inert_tools: list[Any]
    literal: str
    halves: tuple[str, ...]


def full_width(text: str) -> str:
    """Write printable ASCII in full-width forms.

    >>> full_width("<s>")
    '＜ｓ＞'
    """
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def inert_like(text: str) -> str:
    """Return plain letters of the same length.

    >>> inert_like("<|x|>")
    'inert'
    """
    return ("inert" * (len(text) // 5 + 1))[: len(text)]


class _Chat:
    """Named fields of a small chat with reasoning, tools, two old calls and an open tool loop."""

    def __init__(self, *, tools: bool, reasoning: bool, open_loop: bool) -> None:
        self.tools, self.reasoning, self.open_loop = tools, reasoning, open_loop
        self.fields: dict[str, str] = {
            "policy": "answer in short sentences", "user": "where is the grey kettle",
            "assistant": "it stands in the pantry", "request": "and the blue one",
            "old_reasoning": "kettles are kept together", "open_reasoning": "look again",
            "result": "grey kettle found", "open_result": "blue kettle found", "open_result_2": "shelf two",
            "tool_description": "look something up", "property_key": "subject",
            "property_description": "what to look for", "enum_value": "near", "enum_value_2": "far",
            "argument_key": "subject", "argument_value": "kettle", "argument_key_2": "extra",
            "open_call_text": "",
        }  # fmt: skip

    def _call(self, call_id: str) -> dict[str, Any]:
        get = self.fields.__getitem__
        arguments = {get("argument_key"): get("argument_value"), get("argument_key_2"): "value"}
        return {"id": call_id, "type": "function",
                "function": {"name": "look_up", "arguments": arguments}}  # fmt: skip

    def _thought(self, field: str) -> dict[str, str]:
        return {"reasoning_content": self.fields[field]} if self.reasoning else {}

    def messages(self) -> list[Message]:
        get = self.fields.__getitem__
        out: list[Message] = [
            {"role": "system", "content": get("policy")}, {"role": "user", "content": get("user")},
        ]  # fmt: skip
        if self.tools:
            out += [{"role": "assistant", "content": "", "tool_calls": [self._call("oldcall01")]},
                    {"role": "tool", "tool_call_id": "oldcall01", "content": get("result")}]  # fmt: skip
        out.append({"role": "assistant", "content": get("assistant"), **self._thought("old_reasoning")})
        out.append({"role": "user", "content": get("request")})
        if self.tools and self.open_loop:
            for number, field in enumerate(("open_result", "open_result_2"), 1):
                text = get("open_call_text") if number == 1 else ""
                out += [{"role": "assistant", "content": text,
                         "tool_calls": [self._call(f"opencall{number}")],
                         **(self._thought("open_reasoning") if number == 1 else {})},
                        {"role": "tool", "tool_call_id": f"opencall{number}",
                         "content": get(field)}]  # fmt: skip
        return out

    def declared(self) -> list[Any]:
        get = self.fields.__getitem__
        properties = {
            get("property_key"): {"type": "string", "description": get("property_description")},
            "distance": {"type": "string", "description": "how far",
                         "enum": [get("enum_value"), get("enum_value_2")]},
        }  # fmt: skip
        return [{"type": "function", "function": {
            "name": "look_up", "description": get("tool_description"),
            "parameters": {"type": "object", "properties": properties, "required": ["distance"]},
        }}] if self.tools else []  # fmt: skip


def channels(*, tools: bool = True, reasoning: bool = True, open_loop: bool = True) -> tuple[str, ...]:
    """Name the channels of a chat with or without tools, reasoning and an open tool loop."""
    named = list(PLAIN_CHANNELS)
    if reasoning:
        named += REASONING_CHANNELS if tools and open_loop else REASONING_CHANNELS[:1]
    if tools:
        named += [name for name in TOOL_CHANNELS if open_loop or name != "open_result"]
    return tuple(named)


def dirty(
    control: str, channel: str, placement: str = "whole", *, tools: bool = True, reasoning: bool = True,
    open_loop: bool = True, text_beside_call: bool = False, inert: Callable[[str], str] = inert_like,
) -> Planted:  # fmt: skip
    """Plant `control` in `channel` and return the chat with its inert twin.

    placement         "whole", "split" (first half at the end of the field, second at the start of the
                      neighbouring field) or "full_width"
    text_beside_call  lets a split reach the text beside an open call; without it the request's neighbour
                      is the open result
    inert             text that stands for the control string in the twin; give the identity for a string
                      the template itself parses (design.md §4.1)
    Raises ValueError for a channel or placement the chat does not have.
    """
    if placement not in PLACEMENTS or channel not in channels(tools=tools, reasoning=reasoning, open_loop=open_loop):
        raise ValueError("no such channel or placement in this chat")
    chat, twin = (_Chat(tools=tools, reasoning=reasoning, open_loop=open_loop) for _ in range(2))
    literal = full_width(control) if placement == "full_width" else control
    if placement != "split" or len(control) < 2:
        _plant(chat.fields, channel, literal, None)
        _plant(twin.fields, channel, inert(literal), None)
        halves: tuple[str, ...] = ()
    else:
        middle = len(control) // 2
        halves = (control[:middle], control[middle:])
        neighbour = _neighbour(channel, tools and open_loop, text_beside_call)
        _plant(chat.fields, channel, halves[0], neighbour, halves[1])
        replaced = inert(control)
        middle_of_twin = min(middle, len(replaced))
        _plant(twin.fields, channel, replaced[:middle_of_twin], neighbour, replaced[middle_of_twin:])
    return Planted(
        chat.messages(), chat.declared(), twin.messages(), twin.declared(), literal, halves
    )  # fmt: skip


def _neighbour(channel: str, open_loop: bool, text_beside_call: bool) -> str:
    name = NEIGHBOUR[channel]
    if name == "open_call_text" and not text_beside_call:
        name = "open_result"
    if name.startswith("open_") and not open_loop:
        name = "policy"
    return name


def _plant(fields: dict[str, str], channel: str, text: str, neighbour: str | None, rest: str = "") -> None:
    """Put text into a field: in the middle of its words, or at its end with the rest in the neighbour."""
    if neighbour is None:
        first, _, last = fields[channel].partition(" ")
        fields[channel] = f"{first} {text} {last}".strip() if last else f"{first}{text}"
        return
    fields[channel] += text
    fields[neighbour] = rest + fields[neighbour]
