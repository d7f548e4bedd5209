"""List the moves that make a selection leaner, in the fixed order of design.md §5, from sizes never texts.

Shorter forms: those of results in old turns are move 2, those of passages come right before passages leave, those of
the open turn are move 6 (docs/forms.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import overload

from planner.steps.ladder_history import HistoryMoves, bounded_moves, replaced
from planner.steps.ladder_passages import PassageMoves, passage_moves, shorter
from planner.values.constraint import Constraint
from planner.values.forms import Shown
from planner.values.give_way import FORMS, PASSAGES, SUMMARIES, TURNS, full_order
from planner.values.passage import Passage
from planner.values.rank import at_the_edges
from planner.values.receipt import Removal
from planner.values.request import Options, SectionBounds
from planner.values.rung import Cover, Horizon, Ladder, Layered, Move, Selection
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn

Size = Callable[[str], int]
EVERYTHING = Horizon()


def ladder(
    layered: Layered,
    options: Options,
    size: Size,
    *,
    reach: Horizon = EVERYTHING,
    passages: Sequence[Passage] | None = None,
    gone: tuple[Removal, ...] = (),
) -> Ladder:
    """Build the ladder.

    size      tokens of an item by its `kind/id`, used where a section has bounds.
    reach     how far back turns are looked at one by one, and which summaries may stand for theirs.
    passages  those still in play, best first; all of them by default.
    """
    kept, forms = layered.passages if passages is None else passages, reach.forms
    cited = PassageMoves()
    if kept:
        cited = passage_moves(kept, layered.pinned_passages, layered.twins, options, size, forms.cited)
    history = _history_moves(layered, options, size, reach)
    groups: dict[int, Sequence[Move]] = {
        FORMS: [*map(shorter, forms.old)],
        SUMMARIES: [replaced(cover) for cover in reach.covers if cover.summary.id not in history.replaced],
        PASSAGES: cited.by_value,
    }
    order = full_order(options.give_way_order)
    at = order.index(TURNS)
    first = [*cited.early, *history.early, *(move for name in order[:at] for move in groups[name])]
    behind = [move for name in order[at + 1 :] for move in groups[name]]
    last = [*behind, *map(shorter, forms.own), *cited.last, *history.last, *_unexplained(layered)]
    first += history.oldest
    if reach.covers or options.sections.history != SectionBounds():
        return Ladder([*first, *last], gone, reach)
    return Ladder(TurnByTurn(first, layered.history.turns, _movable(layered, reach.start), last), gone, reach)


def _history_moves(layered: Layered, options: Options, size: Size, reach: Horizon) -> HistoryMoves:
    """Return the moves of turns and summaries; without bounds and runs, those of single turns are made when asked."""
    beyond = _beyond_most(reach, size)
    left = frozenset(cover.summary.id for cover in beyond)
    head = [Move("over_budget", (f"summary/{cover.summary.id}",)) for cover in beyond]
    bounds = options.sections.history
    if bounds != SectionBounds():
        found = bounded_moves(layered, reach, size, bounds, left)
        return replace(found, oldest=[*head, *found.oldest])
    if reach.start > reach.gone_through:
        head.append(Move("over_budget", (), through=reach.start))
    head += [  # older than every turn
        Move("over_budget", (f"summary/{one.summary.id}",))
        for one in reach.borders
        if not one.stays and one.summary.id not in left
    ]
    covers = [cover for cover in reach.covers if not cover.stays and cover.summary.id not in left]
    return HistoryMoves(oldest=[*head, *(_oldest_first(layered, reach, covers) if reach.covers else ())])


def _unexplained(layered: Layered) -> list[Move]:
    """Return the very last moves of a request without high impact: a dispute leaves with the passage behind it."""
    if layered.request.high_impact is not False:
        return []
    out: list[Move] = []
    for one in reversed(layered.conflicts):
        others = {other.citation_id for other in layered.conflicts if other is not one} | layered.required
        alone = one.citation_id is not None and one.citation_id not in others
        out.append(Move("over_budget", (one.key, f"passage/{one.citation_id}") if alone else (one.key,)))
    return out


def _beyond_most(reach: Horizon, size: Size) -> list[Cover]:
    """Return the oldest summaries beyond the most that stay; what tells of a withdrawal is not counted (X44)."""
    counted = [(cover, size(f"summary/{cover.summary.id}")) for cover in (*reach.borders, *reach.covers)
               if not cover.exempt]  # fmt: skip
    held = sum(tokens for _, tokens in counted)
    out: list[Cover] = []
    for cover, tokens in counted:
        if reach.summary_most is None or held <= reach.summary_most:
            break
        if not cover.stays:
            out.append(cover)
            held -= tokens
    return out


class TurnByTurn(Sequence[Move]):
    """First moves, then every turn of `indexes` alone, then the last moves; a turn's is made when looked at.

    A plan looks at the few moves it makes, whatever the number of turns in its window.
    """

    def __init__(self, first: list[Move], turns: Sequence[Turn], indexes: Sequence[int], last: list[Move]) -> None:
        """Keep the parts."""
        self._first, self._turns, self._indexes, self._last = first, turns, indexes, last
        self._count = len(first) + len(indexes) + len(last)
        self._made: list[Move] = []

    def __len__(self) -> int:
        """Return the number of moves."""
        return self._count

    def __iter__(self) -> Iterator[Move]:
        """Yield every move in order."""
        yield from self._first
        made = self._made
        for place, index in enumerate(self._indexes):
            if place == len(made):
                made.append(Move("over_budget", (f"turn/{self._turns[index].id}",)))
            yield made[place]
        yield from self._last

    @overload
    def __getitem__(self, at: int) -> Move: ...
    @overload
    def __getitem__(self, at: slice) -> list[Move]: ...
    def __getitem__(self, at: int | slice) -> Move | list[Move]:
        """Return one move, or a list of several."""
        if isinstance(at, slice):
            start, stop, step = at.indices(self._count)
            if step > 0:
                return list(islice(self, start, stop, step))
            return [self[place] for place in range(start, stop, step)]
        place = range(self._count)[at] - len(self._first)
        if place < 0:
            return self._first[place]
        if place < len(self._indexes):
            return Move("over_budget", (f"turn/{self._turns[self._indexes[place]].id}",))
        return self._last[place - len(self._indexes)]


def _movable(layered: Layered, start: int) -> Sequence[int]:
    """Return the indexes from `start` on of turns that may leave alone."""
    every = range(start, len(layered.history.turns))
    staying = frozenset(index for index in layered.pinned if index >= start)
    if layered.held:
        staying = staying.union(layered.held)
    return [index for index in every if index not in staying] if staying else every


def _oldest_first(layered: Layered, reach: Horizon, covers: Sequence[Cover]) -> list[Move]:
    """Return one move for each raw movable turn and each of these summaries; a summary stands at its run's end."""
    turns = layered.history.turns
    entries = [(cover.high - 1, f"summary/{cover.summary.id}") for cover in covers]
    runs = iter(reach.covers)
    run = next(runs, None)
    for index in _movable(layered, reach.start):
        while run is not None and run.high <= index:
            run = next(runs, None)
        if run is None or index < run.low:
            entries.append((index, f"turn/{turns[index].id}"))
    return [Move("over_budget", (key,)) for _, key in sorted(entries)]


def rung(steps: Ladder, layered: Layered, passages: Sequence[Passage], made: int) -> Selection:
    """Return the selection after the first `made` moves."""
    gone: set[str] = set()
    come: set[str] = set()
    runs: list[tuple[int, int]] = []
    begin = steps.reach.gone_through
    forms = {key: dict(shown) for key, shown in steps.reach.forms.first.items()}
    for move in steps.moves[:made]:
        if move.shows is not None:
            forms.setdefault(move.shows.key, {})[move.shows.place] = move.shows.form
        gone.update(move.leaves)
        come.update(move.comes)
        if move.through:
            begin = max(begin, move.through)
        if move.comes:
            runs.append(move.run)
    turns = layered.history.turns
    cited = tuple([entry for entry in passages if f"passage/{entry.citation_id}" not in gone])
    cited = at_the_edges(cited) if layered.edges else cited
    told = tuple(one for one in layered.conflicts if one.key not in gone)
    older = layered.older_staying(begin)
    if not runs:
        whole = [*(turns[index] for index in older), *turns[begin:]]
    else:
        whole = [turns[index] for index in outside(runs, older, begin, len(turns))]
    if gone:
        left = {key[5:] for key in gone if key.startswith("turn/")}
        whole = [turn for turn in whole if turn.id not in left]
    kept_forms: dict[str, Shown] = {}
    if forms:
        keys = {f"turn/{turn.id}" for turn in (*whole, layered.open_turn)} | {f"passage/{p.citation_id}" for p in cited}
        kept_forms = {key: tuple(sorted(found.items())) for key, found in sorted(forms.items()) if key in keys}
        cited = tuple(_formed(entry, kept_forms.get(f"passage/{entry.citation_id}", ())) for entry in cited)
    if layered.plain:
        return Selection(tuple(whole), cited, conflicts=told, forms=kept_forms)
    borders = [cover for cover in steps.reach.borders if f"summary/{cover.summary.id}" not in gone]
    shown = [cover for cover in steps.reach.covers if f"summary/{cover.summary.id}" in come - gone]
    missing = layered.notice and (_misses(layered, whole, shown) or len(borders) < len(steps.reach.borders))
    shown = [*borders, *shown]
    return Selection(_in_order(whole, shown), cited, carried(layered, whole), missing, told, kept_forms)


def _formed(passage: Passage, shown: Shown) -> Passage:
    return replace(passage, text=shown[0][1].text) if shown else passage


def outside(runs: Iterable[tuple[int, int]], older: Iterable[int], begin: int, end: int) -> Iterator[int]:
    """Yield the older indexes and those from `begin` to `end` that lie in none of the runs; runs are not read."""
    ordered = sorted(runs)
    yield from (index for index in older if not any(low <= index < high for low, high in ordered))
    at = begin
    for low, high in ordered:
        yield from range(at, max(at, low))
        at = max(at, high)
    yield from range(at, end)


def _in_order(whole: Sequence[Turn], shown: Sequence[Cover]) -> tuple[Turn | SummaryRecord, ...]:
    entries: list[Turn | SummaryRecord] = []
    waiting = list(reversed(shown))
    for turn in whole:
        while waiting and waiting[-1].summary.covers_to < turn.sequence:
            entries.append(waiting.pop().summary)
        entries.append(turn)
    return (*entries, *(cover.summary for cover in reversed(waiting)))


def carried(layered: Layered, whole: Iterable[Turn]) -> tuple[Constraint, ...]:
    """Return the constraints whose turn is not among these raw ones, the request's own turn apart."""
    if not layered.constraints:
        return ()
    raw = {turn.id for turn in whole}
    raw.add(layered.open_turn.id)
    return tuple(entry for entry in layered.constraints if entry.text is not None and entry.turn_id not in raw)


def _misses(layered: Layered, whole: Sequence[Turn], shown: Sequence[Cover]) -> bool:
    """Tell whether a turn is neither raw nor covered by a summary that is shown."""
    covered = sum(cover.high - cover.low for cover in shown)
    return len(whole) + covered < len(layered.history.turns) or bool(layered.history.revoked)


RungKey = tuple[tuple[str, ...], tuple[str, ...], int, bool, int, tuple[tuple[str, Shown], ...]]


def rung_key(selection: Selection) -> RungKey:
    """Return what tells one rung from another."""
    history = tuple(entry.id for entry in selection.history)
    cited = tuple(passage.citation_id for passage in selection.passages)
    forms = tuple(sorted(selection.forms.items()))
    return history, cited, len(selection.constraints), selection.notice, len(selection.conflicts), forms
