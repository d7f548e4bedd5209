"""Return the first rung whose exact ids leave room for the reserve and the margin (design.md §5).

Preference is the ladder's, measuring is the meter's. Sizes only say which rungs to measure, so the answer
equals a plain scan over every rung (law 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from planner.steps.ladder import rung
from planner.steps.measure import Measured
from planner.steps.sizes import BEYOND, TOLERANCE_TOKENS, Sizes, rung_key
from planner.values.passage import Passage
from planner.values.rung import Ladder, Layered, Selection
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Fitted:
    """The rung found and how many moves it took; `fits` is false only for the last rung.

    Moves from `needed` on were made for later plans, for the reason `beyond`.
    """

    measured: Measured = field(repr=False)
    moves_made: int
    fits: bool
    needed: int | None = None
    beyond: str = ""


def fit(
    steps: Ladder,
    layered: Layered,
    sizes: Sizes,
    room: int,
    measure: Callable[[Selection], Measured],
    *,
    passages: Sequence[Passage] | None = None,
    start: int = 0,
) -> Fitted:
    """Return the first rung within `room` tokens, or the last rung with fits=False.

    steps     the ladder, fullest rung first.
    measure   selection -> exact size; remembered here, never called twice for one rung.
    start     index of the oldest turn whose size is known.
    """
    kept = layered.passages if passages is None else tuple(passages)
    sums = estimates(steps, layered, sizes, kept, start)
    tolerance = TOLERANCE_TOKENS + len(kept) + 64 * len(layered.summaries)
    last = len(steps.moves)
    known: dict[int, Measured] = {}
    shift = 0
    while True:
        at = _next(sums, room + tolerance - shift, known, room, last)
        found = known.get(at)
        if found is None:
            selection = rung(steps, layered, kept, at)
            found = sizes.rungs.get(rung_key(selection)) or measure(selection)
            known[at] = found
            drift = found.tokens - (sums[at] + shift)
            if drift < -tolerance and sums[at] < BEYOND:
                # Sizes said too much, so an earlier rung may have been passed over: look again from the top.
                shift += drift
                continue
        if found.tokens <= room or at == last:
            return Fitted(found, at, found.tokens <= room)


def _next(sums: Sequence[int], limit: int, known: dict[int, Measured], room: int, last: int) -> int:
    for at, total in enumerate(sums):
        found = known.get(at)
        if found is not None:
            if found.tokens <= room:
                return at
        elif total <= limit:
            return at
    return last


def estimates(steps: Ladder, layered: Layered, sizes: Sizes, passages: Sequence[Passage], start: int) -> list[int]:
    """Return the summed size of every rung, in tokens of its carried form."""
    base = sizes.base
    if base is None:
        raise AssertionError("sizes were not learned")
    turns = layered.history.turns
    begin = max(start, steps.gone_through)
    indexes = [*_pins_before(layered, begin), *range(begin, len(turns))]
    kept = {turns[index].id: turns[index] for index in indexes}
    known = sizes.store.turns
    texts_only = base.rendered is None or any(known[turn_id].rendered is None for turn_id in kept)
    out = [BEYOND if start > steps.gone_through else 0]
    if not texts_only and not passages and not layered.summaries:
        total = (base.rendered or 0) + sum(known[turn_id].rendered or 0 for turn_id in kept)
        out[0] += total
        for move in steps.moves:
            for key in move.leaves:
                total -= known[key[5:]].rendered or 0
            out.append(total)
        return out
    return _mixed(steps, sizes, passages, kept, out)


def _mixed(
    steps: Ladder,
    sizes: Sizes,
    passages: Sequence[Passage],
    kept: dict[str, Turn],
    out: list[int],
) -> list[int]:
    """Sum rungs with passages or summaries, or with turns that only count by their texts."""
    base = sizes.base
    if base is None:
        raise AssertionError("sizes were not learned")
    rendered = (base.rendered or 0) + sum(sizes.rendered(turn) for turn in kept.values())
    raising = {turn.id for turn in kept.values() if sizes.raises(turn)}
    cited = len(passages)
    area = sizes.area() if cited else 0
    rendered += sum(sizes.item(f"passage/{passage.citation_id}") for passage in passages)
    texts = _text_sum(sizes, kept.values(), passages) if raising or base.rendered is None else 0
    held = out[0]
    out[0] = held + (texts if raising or base.rendered is None else rendered + area)
    for move in steps.moves:
        if move.through:
            held = 0
        for key in move.leaves:
            kind, _, item_id = key.partition("/")
            size = sizes.item(key)
            rendered -= size
            if kind == "passage":
                cited -= 1
                texts -= size if texts else 0
            elif kind == "turn":
                turn = kept.pop(item_id)
                texts -= sizes.text(turn) if texts else 0
                raising.discard(item_id)
        rendered += sum(sizes.item(key) for key in move.comes)
        plain = rendered + (area if cited else 0)
        out.append(held + (texts if raising or base.rendered is None else plain))
    return out


def _pins_before(layered: Layered, begin: int) -> list[int]:
    return [index for index in layered.history.pinned if index < begin]


def _text_sum(sizes: Sizes, turns: Iterable[Turn], passages: Sequence[Passage]) -> int:
    return sizes.measurer.text_tokens(Selection(history=tuple(turns), passages=tuple(passages)))
