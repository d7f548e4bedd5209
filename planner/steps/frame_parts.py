"""Parts of a user message that are no text: what stands in the prompt for each, by the bundle's declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planner.values.part_cost import PartCost, PartType, part_tokens
from planner.values.turn import Message, Part


@dataclass(frozen=True, slots=True)
class FramedPart:
    """A part that is no text: its placeholders, or in `why` the reason for which it has none."""

    turn: str
    message: str
    part: str
    type: PartType
    tokens: int = 0
    placeholder: str = ""
    why: str | None = None


def framed_parts(
    turn_id: str, message: Message, costs: Mapping[str, PartCost]
) -> Iterator[tuple[FramedPart | None, str]]:
    """Yield each part of a message with its text in the prompt: None beside the words of a text part.

    A part that cannot be measured has no text; the plan that would hold it is refused (steps/parts.py), so that
    a turn that leaves the prompt anyway refuses nothing.
    """
    for part in message.parts:
        if part.type == "text":
            yield None, part.text or ""
        else:
            yield _framed(turn_id, message.id or "", part, part.type, costs.get(part.type))


def _framed(turn_id: str, message_id: str, part: Part, kind: PartType, cost: PartCost | None) -> tuple[FramedPart, str]:
    part_id = part.id or ""
    if cost is None:
        why = f"the bundle declares no cost of {kind}"
        return FramedPart(turn_id, message_id, part_id, kind, why=why), ""
    tokens = part_tokens(part, cost.rule)
    if tokens is None:
        why = "it states no size, or is beyond every window"
        return FramedPart(turn_id, message_id, part_id, kind, why=why), ""
    return FramedPart(turn_id, message_id, part_id, kind, tokens, cost.placeholder), cost.text(tokens)
