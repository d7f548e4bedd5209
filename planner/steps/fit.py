"""Return the first rung whose exact ids leave room for the reserve and the margin (design.md §5).

Preference is the ladder's, measuring is the meter's. Sizes only say which rungs to measure, so the answer
equals a plain scan over every rung (law 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.steps.ladder import rung, rung_key
from planner.steps.measure import Measured
from planner.steps.size_store import BEYOND
from planner.steps.sizes import TOLERANCE_TOKENS, Sizes
from planner.steps.sums import Sums, estimates
from planner.values.passage import Passage
from planner.values.rung import Ladder, Layered, Move, Selection

_BLOCK_TOLERANCE_TOKENS = 8
_PER_PASSAGE = 2
"""Tokens by which the size of a passage may differ beside other neighbours: one at each border."""
_FORM_TOLERANCE_TOKENS = 8


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
) -> Fitted:
    """Return the first rung within `room` tokens, or the last rung with fits=False.

    steps     the ladder, fullest rung first.
    measure   selection -> exact size; remembered here, never called twice for one rung.
    """
    kept = layered.passages if passages is None else tuple(passages)
    sums = estimates(steps, layered, sizes, kept)
    tolerance = TOLERANCE_TOKENS + len(kept) + (_BLOCK_TOLERANCE_TOKENS if layered.conflicts else 0)
    if not layered.plain:  # each entry of a state block is counted alone, so its ends may merge
        tolerance += (
            len(steps.reach.covers) + len(steps.reach.borders) + len(layered.constraints) + _BLOCK_TOLERANCE_TOKENS
        )
    if not steps.reach.forms.empty:
        tolerance += _FORM_TOLERANCE_TOKENS
    last = len(steps.moves)
    known: dict[int, Measured] = {}
    shift = 0
    while True:
        at = _next(sums, room + tolerance - shift, known, room, steps)
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


def _next(sums: Sums, limit: int, known: dict[int, Measured], room: int, steps: Ladder) -> int:
    """Return the first rung that may fit and is not known to be too large.

    Below a measured rung only passages left or shortened since, each text with its two borders: what it leaves is
    known to that.
    """
    last = len(steps.moves)
    measured, spread = -1, 0
    for at in range(last + 1):
        found = known.get(at)
        if found is not None:
            if found.tokens <= room:
                return at
            measured, spread = at, 0
            continue
        if measured >= 0 and at:
            move = steps.moves[at - 1]
            spread += _PER_PASSAGE if move.shows is None else 2 * _PER_PASSAGE
            measured = measured if _takes_passages_only(move) else -1
        if sums[at] > limit:
            continue
        if measured >= 0:
            lower = known[measured].tokens - (sums[measured] - sums[at]) - spread
            if lower - TOLERANCE_TOKENS > room:
                continue
        return at
    return last


def _takes_passages_only(move: Move) -> bool:
    """Tell whether a move only takes passages away or shows one in a shorter form."""
    keys = move.leaves if move.shows is None else (move.shows.key,)
    return not move.comes and not move.through and all(key.startswith("passage/") for key in keys)
