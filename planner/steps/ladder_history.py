"""Moves of the history where its section has bounds: what is beyond the maximum first, the minimum last (design.md §5).

A bound orders moves and forces none: nothing leaves while all fits. Sizes are those of turns as they are shown first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from planner.steps.size_store import BEYOND
from planner.values.request import SectionBounds
from planner.values.rung import Cover, Horizon, Layered, Move

Size = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class HistoryMoves:
    """Turns and runs beyond the maximum, then what leaves oldest first, then what the minimum holds back.

    `replaced` are ids of summaries that came early already; their runs are not replaced again.
    """

    early: list[Move] = field(default_factory=list)
    oldest: list[Move] = field(default_factory=list)
    last: list[Move] = field(default_factory=list)
    replaced: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A turn, a run or a border, by sequence. `move` takes it away, None where it stays or a summary takes its place.

    tokens  of the entry as it stands first; `after` those of what may still leave oldest first.
    """

    tokens: int
    move: Move | None
    cover: Cover | None = None
    after: int = 0


def bounded_moves(
    layered: Layered, reach: Horizon, size: Size, bounds: SectionBounds, left: frozenset[str]
) -> HistoryMoves:
    """Return the moves of a history with bounds.

    left  ids of summaries that left before, beyond their own section's maximum.
    """
    entries = list(_entries(layered, reach, size, left))
    begin = max(reach.start, reach.gone_through)
    older = sum(size(f"turn/{layered.history.turns[at].id}") for at in layered.older_staying(begin))
    early, cut = _beyond(entries, bounds.max)
    replaced = frozenset(entry.cover.summary.id for entry in entries[:cut] if entry.cover is not None)
    through = [Move("over_budget", (), through=reach.start)] if reach.start > reach.gone_through else []
    oldest: list[Move] = [] if cut else through
    last: list[Move] = []
    least = bounds.min or 0
    rest = older + sum(entry.tokens for entry in entries[cut:] if entry.cover is None)
    rest += sum(entry.after for entry in entries if entry.cover is not None)
    for place, entry in enumerate(entries):
        if entry.move is None or (place < cut and entry.cover is None):
            continue
        tokens = entry.tokens if entry.cover is None else entry.after
        if last or rest - tokens < least:  # never a hole: what is newer stays as long
            last.append(entry.move)
        else:
            oldest.append(entry.move)
            rest -= tokens
    return HistoryMoves([*through, *early] if cut else early, oldest, last, replaced)


def _beyond(entries: Sequence[_Entry], most: int | None) -> tuple[list[Move], int]:
    """Return the moves of what is beyond the maximum, and how many of the entries that is."""
    if most is None:
        return [], 0
    held, cut = 0, 0
    for place in range(len(entries) - 1, -1, -1):
        held += entries[place].tokens
        if held > most:
            cut = place + 1
            break
    moves = [replaced(entry.cover) if entry.cover is not None else entry.move for entry in entries[:cut]]
    return [move for move in moves if move is not None], cut


def replaced(cover: Cover) -> Move:
    """Return the move by which a summary takes the place of its run."""
    return Move("replaced_by_summary", (), (f"summary/{cover.summary.id}",), run=(cover.low, cover.high))


def _entries(layered: Layered, reach: Horizon, size: Size, left: frozenset[str]) -> Iterator[_Entry]:
    """Yield what a plan looks at one by one, oldest first; older turns are one range or stay."""
    turns = layered.history.turns
    for border in reach.borders:
        key = f"summary/{border.summary.id}"
        if border.summary.id not in left:
            yield _Entry(size(key), None if border.stays else Move("over_budget", (key,)))
    staying = frozenset(layered.pinned).union(layered.held)
    runs = {cover.low: cover for cover in reach.covers}
    at = max(reach.start, reach.gone_through)
    while at < len(turns):
        cover = runs.get(at)
        if cover is None:
            key = f"turn/{turns[at].id}"
            yield _Entry(size(key), None if at in staying else Move("over_budget", (key,)))
            at += 1
            continue
        key = f"summary/{cover.summary.id}"
        may_leave = not cover.stays and cover.summary.id not in left
        raw = BEYOND
        if cover.low >= reach.raw_from:
            raw = sum(size(f"turn/{turn.id}") for turn in turns[cover.low : cover.high])
        after = 0 if cover.summary.id in left else size(key)
        yield _Entry(raw, Move("over_budget", (key,)) if may_leave else None, cover, after)
        at = cover.high
