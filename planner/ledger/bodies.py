"""What of a message is stored as JSON in its row, in the spelling of the wire; ids, role and protection are columns."""

from __future__ import annotations

import json
from typing import Any

from planner.ledger.faults import corrupt
from planner.values.turn import Message, Part, ProtectionReason, Role, ToolCall, ToolResult


def message_body(message: Message) -> str:
    """Return the content of a message as one line of JSON; what is empty is left out."""
    body: dict[str, Any] = {}
    if message.text is not None:
        body["text"] = message.text
    if message.parts:
        body["parts"] = [_part_body(part) for part in message.parts]
    if message.tool_calls:
        body["toolCalls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    if message.tool_result is not None:
        result = message.tool_result
        body["toolResult"] = {"callId": result.call_id, "text": result.text}
        if result.short_forms:
            body["toolResult"]["shortForms"] = list(result.short_forms)
    if message.reasoning is not None:
        body["reasoning"] = message.reasoning
    if message.source is not None:
        body["source"] = message.source
    if not message.accepted:
        body["accepted"] = False
    if message.constraint_ids:
        body["constraintIds"] = list(message.constraint_ids)
    if message.citation_ids:
        body["citationIds"] = list(message.citation_ids)
    return _encode(body)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


_scan = json.JSONDecoder().raw_decode
_PLAIN = frozenset({"text", "reasoning"})


def message_from(
    body: str, *, message_id: str, role: Role, protection: ProtectionReason | None, sequence: int, version: int
) -> Message:
    """Return the message of a row whose digest was checked. Raises PlannerFault `ledger_corrupt`."""
    try:
        stored, end = _scan(body)
        if end != len(body):
            raise ValueError
        if stored.keys() <= _PLAIN:  # most messages are words and nothing else
            return Message(
                role, message_id, stored.get("text"), reasoning=stored.get("reasoning"), protection_reason=protection,
                sequence=sequence, version=version,
            )  # fmt: skip
        result = stored.get("toolResult")
        return Message(
            role=role,
            id=message_id,
            text=stored.get("text"),
            parts=tuple(map(_part_from, stored.get("parts", ()))),
            tool_calls=tuple(
                ToolCall(call["id"], call["name"], call["arguments"]) for call in stored.get("toolCalls", ())
            ),
            tool_result=_result(result) if result is not None else None,
            reasoning=stored.get("reasoning"),
            source=stored.get("source"),
            accepted=stored.get("accepted", True),
            protection_reason=protection,
            constraint_ids=tuple(stored.get("constraintIds", ())),
            citation_ids=tuple(stored.get("citationIds", ())),
            sequence=sequence,
            version=version,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        corrupt(f"body of the message with sequence {sequence}")


_PART_FIELDS = {"text": "text", "id": "id", "width_px": "widthPx", "height_px": "heightPx",
                "duration_ms": "durationMs"}  # fmt: skip


def _part_body(part: Part) -> dict[str, Any]:
    held = ((wire, getattr(part, name)) for name, wire in _PART_FIELDS.items())
    return {"type": part.type, **{wire: value for wire, value in held if value is not None}}


def _part_from(stored: dict[str, Any]) -> Part:
    if stored["type"] == "text":
        return Part("text", stored["text"])
    return Part(stored["type"], **{name: stored.get(wire) for name, wire in _PART_FIELDS.items()})


def _result(stored: dict[str, Any]) -> ToolResult:
    return ToolResult(stored["callId"], stored["text"], tuple(stored.get("shortForms", ())))


def constraint_ids(body: str | None) -> tuple[str, ...]:
    """Return the constraints a stored message names, without reading the rest of it where it names none."""
    if body is None or '"constraintIds"' not in body:
        return ()
    return tuple(json.loads(body).get("constraintIds", ()))
