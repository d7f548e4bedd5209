"""Every rung of a request's ladder, written out: which turns and passages each one keeps."""

from __future__ import annotations

from planner.values.request import PlanRequest

Rung = tuple[tuple[str, ...], tuple[str, ...]]


def rungs(request: PlanRequest) -> list[Rung]:
    """Return (turn ids, citation ids) of each rung, fullest first.

    Passages under the low-value line leave first, then the rest, each the least relevant first; then the
    completed turns without protection, oldest first. The request's own turn is not listed.
    """
    value = {entry.citation_id: entry.relevance for entry in request.passages}
    passages = sorted(value, key=lambda name: (-value[name], name))
    line = request.options.low_value_line or 0.0
    low = [name for name in reversed(passages) if value[name] < line]
    ordered = sorted(request.turns, key=lambda turn: turn.sequence)
    waiting = [turn.id for turn in ordered if turn.state == "open"]
    own = request.request.turn_id or (waiting[-1] if request.request.text is None else None)
    turns = [turn for turn in ordered if turn.state in ("open", "completed") and turn.id != own]
    kept = [turn.id for turn in turns]
    found: list[Rung] = [(tuple(kept), tuple(passages))]
    for name in [*low, *(name for name in reversed(passages) if name not in low)]:
        passages.remove(name)
        found.append((tuple(kept), tuple(passages)))
    for turn in turns:
        if turn.state == "completed" and not turn.pinned:
            kept.remove(turn.id)
            found.append((tuple(kept), ()))
    return found
