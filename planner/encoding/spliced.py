"""The spliced speed: old turns' ids are kept and only the end of the prompt is rendered (design.md §4.8).

A turn's ids are the stretch from the run that begins with its first character to that of the next turn. A run
is encoded alone, so the stretch is the same wherever the turn stands, as long as the template writes the turn
the same way: the bundle's self-test proves that it depends on at most K following turns, and those are always
rendered anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import is_not

from planner.encoding.assemble import Assembled
from planner.values.prompt import Leaf

_OLD_TURNS = ("history", "")
"""The line of the account that turns beside the request's own are charged to."""


@dataclass(frozen=True, slots=True)
class FrozenTurn:
    """The ids of one turn, how many of them are its own alone, and the control strings it spells."""

    item: str
    ids: array[int] = field(repr=False)
    charge: int
    neutralised: int
    label: Leaf = field(repr=False)


def request_begins_with(assembled: Assembled, turns: Sequence[str]) -> str | None:
    """Return the first item of the request's own message: a passage, a preference or the request itself.

    `turns` are the items of the history's turns, in order.
    """
    after = assembled.starts.get(turns[-1], -1) if turns else -1
    moving = [
        item
        for item, start in assembled.starts.items()
        if start > after
        and (assembled.labels[item].section in ("request", "retrieval") or assembled.labels[item].of_which)
        and assembled.labels[item].section not in ("policy", "tool")
    ]
    return min(moving, key=assembled.starts.__getitem__, default=None)


def freeze(assembled: Assembled, items: Sequence[str]) -> dict[str, FrozenTurn]:
    """Cut a render into the turns named by `items`, in order, the last of them before the request's message.

    Returns nothing where one of them does not begin a run of its own: such a template is not spliced.
    """
    out: dict[str, FrozenTurn] = {}
    starts, clean = assembled.starts, assembled.clean_starts
    end = request_begins_with(assembled, items)
    if end is None:
        return {}
    order = [*items, end]
    if any(item not in starts or not clean[item] for item in order):
        return {}
    for item, following in pairwise(order):
        start, stop = starts[item], starts[following]
        if stop <= start:
            return {}
        neutralised = sum([count for index, count in assembled.neutral_at if start <= index < stop])
        out[item] = FrozenTurn(
            item, assembled.ids[start:stop], assembled.charges[item], neutralised, assembled.labels[item]
        )
    return out


class Block:
    """Consecutive frozen turns in one piece, column by column, so that a stretch of them is copied at once."""

    def __init__(self) -> None:
        """Start empty."""
        self._clear()

    def _clear(self) -> None:
        self._turns: list[FrozenTurn] = []
        self._places: dict[str, int] = {}
        self._edges: list[int] = [0]
        self._ids: array[int] = array("i")
        self._items: list[str] = []
        self._charges: list[int] = []
        self._labels: list[Leaf] = []
        self._neutralised: list[int] = []

    def put(self, out: Assembled, frozen: Sequence[FrozenTurn]) -> None:
        """Append these turns to `out`, with their charges, labels, starts and control strings."""
        if not frozen:
            return
        first = self._hold(frozen)
        here = slice(first, first + len(frozen))
        edges = self._edges[first : here.stop + 1]
        shift = len(out.ids) - edges[0]
        width = out.ids.itemsize
        with memoryview(self._ids) as every, every.cast("B") as held:
            out.ids.frombytes(held[edges[0] * width : edges[-1] * width])
        starts = [edge + shift for edge in edges[:-1]]
        items = self._items[here]
        charges = self._charges[here]
        out.charges.update(zip(items, charges, strict=True))
        out.lines[_OLD_TURNS] = out.lines.get(_OLD_TURNS, 0) + sum(charges)
        out.labels.update(zip(items, self._labels[here], strict=True))
        out.starts.update(zip(items, starts, strict=True))
        neutralised = self._neutralised[here]
        if any(neutralised):
            out.neutral_at += [(start, count) for start, count in zip(starts, neutralised, strict=True) if count]

    def _hold(self, frozen: Sequence[FrozenTurn]) -> int:
        """Make sure that these turns stand here in this order; return the place of the first.

        A turn that was frozen anew is another object, so an older copy of it is never used. A front that has
        long left the window is dropped.
        """
        first = self._places.get(frozen[0].item, 0)
        held = self._turns[first : first + len(frozen)]
        if any(map(is_not, held, frozen)) or first > 2 * len(frozen) + 64:
            self._clear()
            first, held = 0, []
        for turn in frozen[len(held) :]:
            self._places[turn.item] = len(self._turns)
            self._turns.append(turn)
            self._ids.extend(turn.ids)
            self._edges.append(len(self._ids))
            self._items.append(turn.item)
            self._charges.append(turn.charge)
            self._labels.append(turn.label)
            self._neutralised.append(turn.neutralised)
        return first


def splice(tail: Assembled, frozen: Sequence[FrozenTurn], first: str, block: Block | None = None) -> Assembled:
    """Put frozen turns before `first`, the first history or request item of a rendered tail.

    block  holds the turns of earlier calls in one piece, to copy from.
    """
    at = tail.starts[first]
    out = Assembled(
        ids=tail.ids[:at],
        charges=dict(tail.charges),
        labels=dict(tail.labels),
        clean_starts=tail.clean_starts,
        lines=dict(tail.lines),
        front=tail.front,  # the turns come right before `first`
        neutral_at=[entry for entry in tail.neutral_at if entry[0] < at],
    )
    (block or Block()).put(out, frozen)
    moved = len(out.ids) - at
    out.ids.extend(tail.ids[at:])
    for item, start in tail.starts.items():
        out.starts[item] = start if start < at else start + moved
    out.neutral_at += [(index + moved, count) for index, count in tail.neutral_at if index >= at]
    out.neutralised = sum([count for _, count in out.neutral_at])
    return out
