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

from planner.encoding.runs import Assembled
from planner.values.prompt import Leaf


@dataclass(frozen=True, slots=True)
class FrozenTurn:
    """The ids of one turn, how many of them are its own alone, and the control strings it spells."""

    ids: array[int] = field(repr=False)
    charge: int
    neutralised: int
    label: Leaf = field(repr=False)


def freeze(assembled: Assembled, items: Sequence[str], end: str) -> dict[str, FrozenTurn]:
    """Cut a render into the turns named by `items`, in order; `end` is the item that follows them.

    Returns nothing where one of them does not begin a run of its own: such a template is not spliced.
    """
    out: dict[str, FrozenTurn] = {}
    starts, clean = assembled.starts, assembled.clean_starts
    order = [*items, end]
    if any(item not in starts or not clean[item] for item in order):
        return {}
    for item, following in pairwise(order):
        start, stop = starts[item], starts[following]
        if stop <= start:
            return {}
        neutralised = sum(count for index, count in assembled.neutral_at if start <= index < stop)
        out[item] = FrozenTurn(assembled.ids[start:stop], assembled.charges[item], neutralised, assembled.labels[item])
    return out


def splice(tail: Assembled, frozen: Sequence[tuple[str, FrozenTurn]], first: str) -> Assembled:
    """Put frozen turns before `first`, the first history or request item of a rendered tail."""
    at = tail.starts[first]
    ids = tail.ids[:at]
    charges = dict(tail.charges)
    labels = dict(tail.labels)
    starts: dict[str, int] = {}
    neutral_at = [entry for entry in tail.neutral_at if entry[0] < at]
    for item, turn in frozen:
        starts[item] = len(ids)
        charges[item] = turn.charge
        labels[item] = turn.label
        if turn.neutralised:
            neutral_at.append((len(ids), turn.neutralised))
        ids.extend(turn.ids)
    moved = len(ids) - at
    ids.extend(tail.ids[at:])
    for item, start in tail.starts.items():
        starts[item] = start if start < at else start + moved
    neutral_at += [(index + moved, count) for index, count in tail.neutral_at if index >= at]
    return Assembled(
        ids=ids,
        charges=charges,
        labels=labels,
        starts=starts,
        clean_starts=tail.clean_starts,
        neutral_at=neutral_at,
        neutralised=sum(count for _, count in neutral_at),
    )
