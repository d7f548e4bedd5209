"""Parts that are no text: which were given placeholders, which could not be measured, and do the ids hold them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence

from planner.steps.frame_turn import FramedTurn
from planner.values.bundle import ControlToken
from planner.values.reasons import RefusalSignal
from planner.values.receipt import PartUse


def parts_used(
    turns: Sequence[tuple[str, FramedTurn]], ids: array[int], controls: Mapping[str, ControlToken]
) -> tuple[PartUse, ...]:
    """Return what each part of the kept turns costs, in the order of the prompt.

    controls  the bundle's control tokens by text.
    Refuses unmeasured_part, naming turn, message and part, where the bundle declares no cost or the part states
    no size; and where the prompt holds another number of placeholders than were declared.
    """
    framed = [part for _, turn in turns for part in turn.media]
    if not framed:
        return ()
    wanted: Counter[int] = Counter()
    out: list[PartUse] = []
    for part in framed:
        place = f"turn {part.turn}: message {part.message}: part {part.part}"
        if part.why is not None:
            raise RefusalSignal("unmeasured_part", f"{place}: {part.why}")
        wanted[controls[part.placeholder].id] += part.tokens
        out.append(PartUse(part.turn, part.message, part.part, part.type, part.tokens))
    for index, count in wanted.items():
        if ids.count(index) != count:
            detail = f"{ids.count(index)} placeholders stand in the prompt, {count} were declared"
            raise RefusalSignal("unmeasured_part", detail)
    return tuple(out)
