"""Which turns each current summary stands for, and which stand for turns that are gone (X1, X41, R146)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from planner.steps.sizes import Sizes
from planner.values.request import Options
from planner.values.rung import Cover, Layered
from planner.values.turn import Turn


def runs_of(layered: Layered) -> dict[str, tuple[int, int]]:
    """Return which indexes of turns each summary stands for, low and high, by its id; no turn's words are read."""
    turns = layered.history.turns
    return {
        summary.id: (
            bisect_left(turns, summary.covers_from, key=_sequence),
            bisect_left(turns, summary.covers_to + 1, key=_sequence),
        )
        for summary in layered.summaries
    }


def covers_of(layered: Layered, runs: Mapping[str, tuple[int, int]]) -> list[Cover]:
    """Return the summaries whose run holds turns and none that is pinned, by coverage (X1)."""
    out: list[Cover] = []
    for summary in layered.summaries:
        low, high = runs[summary.id]
        if low < high and not _any_within(layered.pinned, low, high):
            stays = _any_within(layered.held, low, high)
            out.append(Cover(summary, low, high, stays, _any_within(layered.history.withdrawing, low, high)))
    return out


def summary_most(options: Options, sizes: Sizes, room: int) -> int:
    """Return how many tokens of summaries stay before turns leave: as stated, or a third of the history's room.

    The room of the history is what the texts of everything else leave, each counted alone.
    """
    stated = options.sections.summary.max
    return stated if stated is not None else max(0, room - sizes.fixed_texts()) // 3


def _any_within(indexes: Sequence[int], low: int, high: int) -> bool:
    return bisect_left(indexes, low) < bisect_left(indexes, high)


def borders_of(layered: Layered, runs: Mapping[str, tuple[int, int]]) -> list[Cover]:
    """Return the summaries whose turns retention purged, by coverage: the declared border of the history.

    Only a view that was verified where it is kept has one; a request's own summaries bring their turns.
    """
    staying = layered.staying_summaries
    return [
        Cover(summary, low, high, summary.id in staying)
        for summary in layered.summaries
        for low, high in (runs[summary.id],)
        if low >= high
    ]


def _sequence(turn: Turn) -> int:
    return turn.sequence
