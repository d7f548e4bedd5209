"""Return the first rung whose exact ids leave room for the reserve and the margin (design.md §5).

Preference is the ladder's, measuring is the meter's. Sizes only say which rungs to measure, so the answer
equals a plain scan over every rung (law 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner.steps.ladder import rung
from planner.steps.measure import Measured
from planner.steps.sizes import BEYOND, TOLERANCE_TOKENS, Sizes, TurnSize, rung_key
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
            found = (sizes.rungs and sizes.rungs.get(rung_key(selection))) or measure(selection)
            known[at] = found
            drift = found.tokens - (sums[at] + shift)
            if drift < -tolerance and sums[at] < BEYOND:
                # Sizes said too much, so an earlier rung may have been passed over: look again from the top.
                shift += drift
                continue
        if found.tokens <= room or at == last:
            return Fitted(found, at, found.tokens <= room)


def _next(sums: Sums, limit: int, known: dict[int, Measured], room: int, last: int) -> int:
    for at in range(last + 1):
        found = known.get(at)
        if found is not None:
            if found.tokens <= room:
                return at
        elif sums[at] <= limit:
            return at
    return last


class Sums:
    """Sizes of rungs, fullest first, added up only as far as they are looked at."""

    def __init__(self, sums: Iterable[int]) -> None:
        """Take one size a rung."""
        self._more = iter(sums)
        self._seen: list[int] = []

    def __getitem__(self, at: int) -> int:
        """Return the size of a rung."""
        while len(self._seen) <= at:
            self._seen.append(next(self._more))
        return self._seen[at]


def estimates(steps: Ladder, layered: Layered, sizes: Sizes, passages: Sequence[Passage], start: int) -> Sums:
    """Return the summed size of every rung, in tokens of its carried form."""
    base = sizes.base
    if base is None:
        raise AssertionError("sizes were not learned")
    turns = layered.history.turns
    begin = max(start, steps.gone_through)
    indexes = [*_pins_before(layered, begin), *range(begin, len(turns))]
    known = sizes.store.turns
    figures = [known[turns[index].id].rendered for index in indexes]
    held = BEYOND if start > steps.gone_through else 0
    if base.rendered is not None and None not in figures and not passages and not layered.summaries:
        return Sums(_plain_sums(steps, known, base.rendered + sum(figures), held))  # type: ignore[arg-type]
    kept = {turns[index].id: turns[index] for index in indexes}
    return Sums(_mixed(steps, sizes, passages, kept, [held]))


def _plain_sums(steps: Ladder, known: Mapping[str, TurnSize], total: int, held: int) -> Iterator[int]:
    yield total + held
    for move in steps.moves:
        for key in move.leaves:
            total -= known[key[5:]].rendered or 0
        yield total


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
