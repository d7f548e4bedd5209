"""Forms of tool calls: ids a template restricts, arguments as text or object, results as JSON (D05, D06)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from planner.values.profile import TemplateProfile
from planner.values.turn import Message

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def call_alias(call_id: str) -> str:
    """Return nine alphanumerics for a call id: itself where it is that already, else from its digest.

    >>> call_alias("abcdefgh1"), len(call_alias("call_1740241912345"))
    ('abcdefgh1', 9)
    """
    if len(call_id) == 9 and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:8], "big")
    digits = []
    for _ in range(9):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def arguments_for(arguments: dict[str, Any] | str, profile: TemplateProfile) -> Any:
    """Return call arguments in the form the template takes: as they came wherever that is printed as it is.

    Text that is not a JSON object stays text; nothing is guessed into JSON (D06). Only a certified template
    may name the rewrite that takes any JSON value, and empty text as the empty object.
    """
    if isinstance(arguments, str):
        if "arguments_object" in profile.rewrites:
            return parsed_json(arguments)
        if profile.text_arguments == "object":
            parsed = parsed_json(arguments)
            return parsed if isinstance(parsed, dict) and arguments else arguments
        return arguments
    if profile.object_arguments == "raises":
        return json.dumps(arguments, ensure_ascii=False)
    return arguments


def parsed_json(text: str) -> Any:
    """Return the JSON value a text spells: an empty object for no text, the text itself where it is no JSON."""
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return text


def without_reasoning(message: Message, index: int) -> Message:
    """Return the message for the call at `index` of several put one after the other: reasoning stands once."""
    if index == 0 or message.reasoning is None:
        return message
    return Message(role=message.role, id=message.id, tool_calls=message.tool_calls)
