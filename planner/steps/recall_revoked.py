"""Take turns out of a history whose sources may not be used any more, at the very next plan (X39)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import overload

from planner.values.admission import rests_on
from planner.values.reasons import RefusalSignal
from planner.values.rung import History
from planner.values.turn import Turn


def without_revoked(history: History, citing: Iterable[Turn], revoked: frozenset[str]) -> History:
    """Return the history less the turns that rest on a revoked source.

    citing  turns that cite something; whether they are shown, and where, is looked up by their sequence.
    Refuses protected_source_revoked where such a turn may not leave: the request's own, protected, open, one that only
    a summary may stand for, or one that withdraws an older rule, which must not stand alone (X44).
    """
    if not revoked:
        return history
    if rests_on(history.open_turn, revoked):
        raise RefusalSignal("protected_source_revoked", f"turn {history.open_turn.id}")
    turns = history.turns
    found: list[tuple[int, Turn]] = []
    for turn in citing:
        if turn.state in ("completed", "open") and turn.id != history.open_turn.id and rests_on(turn, revoked):
            place = bisect_left(turns, turn.sequence, key=_sequence)
            if place < len(turns) and turns[place].id == turn.id:
                found.append((place, turn))
    if not found:
        return history
    found.sort(key=lambda entry: entry[0])
    staying = {*history.pinned, *history.held, *history.withdrawing}
    for place, turn in found:
        if place in staying:
            raise RefusalSignal("protected_source_revoked", f"turn {turn.id}")
    places = [place for place, _ in found]

    def moved(indexes: Sequence[int]) -> tuple[int, ...]:
        return tuple(index - bisect_left(places, index) for index in indexes)

    gone = frozenset(places)
    left: Sequence[Turn]
    if isinstance(turns, list):
        left = [turn for index, turn in enumerate(turns) if index not in gone]
    else:
        left = _Less(turns, places)
    return replace(
        history, turns=left, pinned=moved(history.pinned), held=moved(history.held),
        withdrawing=moved(history.withdrawing), revoked=tuple((turn.id, turn.sequence) for _, turn in found),
    )  # fmt: skip


def _sequence(turn: Turn) -> int:
    return turn.sequence


class _Less(Sequence[Turn]):
    """Turns less those at some places, rising; nothing is read before it is asked for."""

    def __init__(self, turns: Sequence[Turn], places: Sequence[int]) -> None:
        self._turns, self._count = turns, len(turns) - len(places)
        # A place less its number: how many turns that are left stand before it.
        self._before = [place - number for number, place in enumerate(places)]

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Turn: ...
    @overload
    def __getitem__(self, at: slice) -> list[Turn]: ...
    def __getitem__(self, at: int | slice) -> Turn | list[Turn]:
        if isinstance(at, slice):
            return [self[index] for index in range(self._count)[at]]
        index = range(self._count)[at]
        return self._turns[index + bisect_right(self._before, index)]
