"""Eleven conversations that a template is rendered with in two engines.

The texts are ours. Each shape adds one thing that engines are known to treat differently: null content, numbers that
a reader of JSON may not keep, characters a filter may escape, white space at the ends, contents as parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from planner.values.profile import TemplateProfile

Message = dict[str, Any]
TOOL = {
    "type": "function",
    "function": {
        "name": "find_rooms",
        "description": "List free rooms; \"seats\" < 500 & 'floor' > 0, Größe and 房间 too.",
        "parameters": {
            "type": "object",
            "properties": {
                "date": {"type": "string", "description": "Day, as in 2026-12-03."},
                "seats": {"type": "integer", "minimum": 1, "default": 20},
                "rate": {"type": "number", "maximum": 0.5},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["quiet", "large"]}},
            },
            "required": ["date"],
        },
    },
}
_ORDINARY = {
    "date": "2026-12-03",
    "note": "\"A\" & <b> 'c' – Größe 房间 👩‍💻\nnext\tline",
    "tags": ["quiet"],
    "open": True,
}
_NUMBERS = {
    "date": "2026-12-03", "rate": 1.0, "step": 1e-7, "large": 12345678901234567890, "huge": 1e21, "share": 0.1,
    "minus": -0.0, "none": None, "deep": {"list": [1, 2.5, False], "empty": {}},
}  # fmt: skip


def _say(role: str, text: str | None) -> Message:
    return {"role": role, "content": text}


def _call(arguments: Mapping[str, Any], text: str | None = "", number: int = 1) -> Message:
    calls = [
        {
            "id": f"a1b2c000{index}",
            "type": "function",
            "function": {"name": "find_rooms", "arguments": deepcopy(dict(arguments))},
        }
        for index in range(1, number + 1)
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def _result(number: int = 1) -> Message:
    return {"role": "tool", "tool_call_id": f"a1b2c000{number}", "name": "find_rooms", "content": '{"room": "4.17"}'}


_ASKED = _say("user", "Which rooms are free?")
_POLICY = _say("system", "Answer in one sentence.")
_THOUGHT = {"reasoning_content": "Look at the list.", "thinking": "Look at the list."}

SHAPES: Mapping[str, Callable[[], tuple[list[Message], bool]]] = {
    "question": lambda: ([_ASKED], False),
    "policy": lambda: ([_POLICY, _ASKED], False),
    "answered": lambda: (
        [_POLICY, _say("user", " \nIs 4.17 free? "), _say("assistant", "\n Yes, \"4.17\" is.\u00a0\n"), _ASKED], False,
    ),
    "tools": lambda: ([_POLICY, _ASKED], True),
    "call": lambda: ([_POLICY, _ASKED, _call(_ORDINARY), _result()], True),
    "parallel_calls": lambda: ([_ASKED, _call(_ORDINARY, number=2), _result(1), _result(2)], True),
    "null_content": lambda: ([_ASKED, _call({"date": "2026-12-03"}, None), _result()], True),
    "text_beside_call": lambda: ([_ASKED, _call({"date": "2026-12-03"}, "I look it up."), _result()], True),
    "reasoning": lambda: ([_ASKED, _say("assistant", "4.17 is free.") | _THOUGHT, _say("user", "And 4.20?")], False),
    "numbers": lambda: ([_ASKED, _call(_NUMBERS), _result()], True),
    "parts": lambda: ([{"role": "user", "content": [{"type": "text", "text": "Which rooms are free?"}]}], False),
}  # fmt: skip
"""Name to (messages, whether tools are declared), in the order of a table."""


def case(name: str, profile: TemplateProfile) -> dict[str, Any]:
    """Return `messages` and `tools` of a shape, fresh, in the form the template takes.

    Only what no render at all would come of otherwise is adapted: contents as parts, arguments as text.
    """
    messages, tools = SHAPES[name]()
    messages = deepcopy(messages)
    for message in messages:
        if profile.content_form == "parts" and isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        if profile.object_arguments != "kept":
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    return {"messages": messages, "tools": [deepcopy(TOOL)] if tools else None}
