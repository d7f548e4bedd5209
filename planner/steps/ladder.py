"""List the moves that make a selection leaner, in the fixed order of design.md §5, from sizes never texts.

Moves 0, 2 and 6 (duplicates, shorter forms of results) stay empty until their rules are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from planner.values.passage import Passage
from planner.values.receipt import Removal
from planner.values.request import Options
from planner.values.rung import History, Ladder, Layered, Move, Selection
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn

Size = Callable[[str], int]


def ladder(
    layered: Layered,
    options: Options,
    size: Size,
    *,
    start: int = 0,
    gone_through: int = 0,
    passages: Sequence[Passage] | None = None,
    gone: tuple[Removal, ...] = (),
) -> Ladder:
    """Build the ladder.

    size      tokens of an item by its `kind/id`, used where a section has bounds and to see a summary's gain.
    start     index of the oldest turn looked at one by one; older unpinned turns leave as one range.
    gone_through  every unpinned turn before this index left already, too large or behind one that is.
    passages  those still in play, best first; all of them by default.
    """
    turns = layered.history.turns
    pinned = frozenset(layered.history.pinned)
    kept = [*(layered.passages if passages is None else passages)]
    moves: list[Move] = []
    for passage in _low_value(kept, options, size):
        moves.append(Move("low_value", (f"passage/{passage.citation_id}",)))
        kept.remove(passage)
    replaced, unused = _summary_runs(layered, size)
    for summary, run in replaced:
        moves.append(Move("replaced_by_summary", tuple(f"turn/{turn.id}" for turn in run), (f"summary/{summary.id}",)))
    floor = options.sections.retrieval.min or 0
    rest = sum(size(f"passage/{passage.citation_id}") for passage in kept) if floor else 0
    later: list[Passage] = []
    for passage in reversed(kept):
        if floor and rest - size(f"passage/{passage.citation_id}") < floor:
            later.append(passage)
            continue
        rest -= size(f"passage/{passage.citation_id}") if floor else 0
        moves.append(Move("over_budget", (f"passage/{passage.citation_id}",)))
    if start > gone_through:
        moves.append(Move("over_budget", (), through=start))
    last = [Move("over_budget", (f"passage/{passage.citation_id}",)) for passage in later]
    if replaced:
        return Ladder([*moves, *_oldest_first(turns, start, pinned, replaced), *last], gone, gone_through, unused)
    return Ladder(TurnByTurn(moves, turns, _unpinned(layered.history, start), last), gone, gone_through, unused)


class TurnByTurn(Sequence[Move]):
    """First moves, then every turn of `indexes` alone, then the last moves; a turn's is made when looked at.

    A plan looks at the few moves it makes, whatever the number of turns in its window.
    """

    def __init__(self, first: list[Move], turns: Sequence[Turn], indexes: Sequence[int], last: list[Move]) -> None:
        """Keep the parts."""
        self._first, self._turns, self._indexes, self._last = first, turns, indexes, last
        self._count = len(first) + len(indexes) + len(last)

    def __len__(self) -> int:
        """Return the number of moves."""
        return self._count

    def __iter__(self) -> Iterator[Move]:
        """Yield every move in order."""
        yield from self._first
        for index in self._indexes:
            yield Move("over_budget", (f"turn/{self._turns[index].id}",))
        yield from self._last

    @overload
    def __getitem__(self, at: int) -> Move: ...
    @overload
    def __getitem__(self, at: slice) -> list[Move]: ...
    def __getitem__(self, at: int | slice) -> Move | list[Move]:
        """Return one move, or a list of several."""
        if isinstance(at, slice):
            return [self[place] for place in range(self._count)[at]]
        place = range(self._count)[at] - len(self._first)
        if place < 0:
            return self._first[place]
        if place < len(self._indexes):
            return Move("over_budget", (f"turn/{self._turns[self._indexes[place]].id}",))
        return self._last[place - len(self._indexes)]


def _unpinned(history: History, start: int) -> Sequence[int]:
    every = range(start, len(history.turns))
    pinned = frozenset(index for index in history.pinned if index >= start)
    return [index for index in every if index not in pinned] if pinned else every


def _oldest_first(
    turns: Sequence[Turn],
    start: int,
    pinned: frozenset[int],
    replaced: Sequence[tuple[SummaryRecord, Sequence[Turn]]],
) -> list[Move]:
    """Return one move for each raw unpinned turn and each summary, by sequence; a summary stands at coversTo."""
    covered = {turn.id for _, run in replaced for turn in run}
    entries = [(summary.covers_to, 0, f"summary/{summary.id}") for summary, _ in replaced]
    entries += [
        (turns[index].sequence, 1, f"turn/{turns[index].id}")
        for index in range(start, len(turns))
        if index not in pinned and turns[index].id not in covered
    ]
    return [Move("over_budget", (key,)) for _, _, key in sorted(entries)]


def _low_value(passages: Sequence[Passage], options: Options, size: Size) -> list[Passage]:
    line, most = options.low_value_line, options.sections.retrieval.max
    out = [passage for passage in reversed(passages) if line is not None and passage.relevance < line]
    if most is not None:
        left = [passage for passage in passages if passage not in out]
        held = sum(size(f"passage/{passage.citation_id}") for passage in left)
        for passage in reversed(left):
            if held <= most:
                break
            held -= size(f"passage/{passage.citation_id}")
            out.append(passage)
    return out


def _summary_runs(layered: Layered, size: Size) -> tuple[list[tuple[SummaryRecord, list[Turn]]], dict[str, str]]:
    """Pair each summary with the whole unpinned turns it stands for; say why one cannot be used."""
    turns = layered.history.turns
    pinned = frozenset(layered.history.pinned)
    out: list[tuple[SummaryRecord, list[Turn]]] = []
    unused: dict[str, str] = {}
    for summary in layered.summaries:
        inside = [
            index for index, turn in enumerate(turns) if summary.covers_from <= turn.sequence <= summary.covers_to
        ]
        if not inside or any(index in pinned for index in inside):
            unused[f"summary/{summary.id}"] = "not_needed"
            continue
        following = turns[inside[-1] + 1] if inside[-1] + 1 < len(turns) else layered.open_turn
        run = [turns[index] for index in inside]
        if following.messages[0].role != "user":  # it could not carry the state block (design.md §6)
            unused[f"summary/{summary.id}"] = "summary_slot_missing"
        elif size(f"summary/{summary.id}") >= sum(size(f"turn/{turn.id}") for turn in run):
            unused[f"summary/{summary.id}"] = "no_gain"
        else:
            out.append((summary, run))
    return out, unused


def rung(steps: Ladder, layered: Layered, passages: Sequence[Passage], made: int) -> Selection:
    """Return the selection after the first `made` moves."""
    gone: set[str] = set()
    come: set[str] = set()
    begin = steps.gone_through
    for move in steps.moves[:made]:
        gone.update(move.leaves)
        come.update(move.comes)
        begin = max(begin, move.through)
    turns = layered.history.turns
    cited = tuple(entry for entry in passages if f"passage/{entry.citation_id}" not in gone)
    pins = [turns[index] for index in layered.history.pinned if index < begin]
    if not layered.summaries:
        whole = [*pins, *turns[begin:]]
        if gone:
            whole = [turn for turn in whole if f"turn/{turn.id}" not in gone]
        return Selection(tuple(whole), cited)
    indexes = [*(index for index in layered.history.pinned if index < begin), *range(begin, len(turns))]
    entries: list[tuple[int, int, Turn | SummaryRecord]] = [
        (turns[index].sequence, 1, turns[index]) for index in indexes if f"turn/{turns[index].id}" not in gone
    ]
    entries += [
        (entry.covers_to, 0, entry)
        for entry in layered.summaries
        if f"summary/{entry.id}" in come and f"summary/{entry.id}" not in gone
    ]
    entries.sort(key=lambda entry: entry[:2])
    return Selection(tuple(entry for _, _, entry in entries), cited)
