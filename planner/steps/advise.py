"""Whether compaction is due after a plan, and what it would cover: advice only (R169..R171, X27)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

from planner.steps.covers import runs_of
from planner.values.plan import Advice, CompactionAdvice
from planner.values.request import PlanRequest
from planner.values.rung import Layered

DEFAULT_TAIL_TURNS = 2
DEFAULT_COMPACT_AT = 0.65


def advise(
    request: PlanRequest, layered: Layered, input_tokens: int, budget: int, bundle_share: float | None = None
) -> Advice:
    """Return the advice of an accepted plan.

    input_tokens  of the prompt; compaction is due from `compactAt` of `budget` on, the window less the reserved
                  output and the margin. It is told once per crossing: only a plan below arms it again.
    bundle_share  the bundle's own `compactAt`, for a request that states none; else it is 0.65.
    Above with nothing to cover nothing is told, and it stays armed.
    """
    share = next(one for one in (request.options.compact_at, bundle_share, DEFAULT_COMPACT_AT) if one is not None)
    threshold = _due_from(share, budget)
    if input_tokens < threshold:
        return Advice()
    if request.previous is not None and request.previous.advice_fired:
        return Advice(advice_fired=True)
    covers = runs_to_cover(layered, request.options.tail_turns or DEFAULT_TAIL_TURNS)
    if not covers:
        return Advice()
    due = CompactionAdvice(input_tokens, threshold, covers, request.request.risk or "high")
    return Advice(compaction=due, advice_fired=True)


@lru_cache(maxsize=64)
def _due_from(compact_at: float, budget: int) -> int:
    """Return the fewest tokens at which compaction is due; the same for every plan of a window."""
    # As it is written: 0.65 of 20 is 13, whatever a double makes of it.
    return ceil(Fraction(repr(compact_at)) * max(0, budget))


def runs_to_cover(layered: Layered, tail_turns: int) -> tuple[tuple[int, int], ...]:
    """Return first and last sequence of each run of movable turns before the tail and outside current summaries.

    Only the turns at the borders are read. What else forbids to cover a turn is found when compaction is planned.
    """
    turns, pinned = layered.history.turns, frozenset(layered.history.pinned)
    end, left = len(turns), tail_turns
    while end > 0 and left:
        end -= 1
        left -= turns[end].state == "completed"
    blocked = sorted({*((at, at + 1) for at in pinned if at < end), *runs_of(layered).values(), (end, end)})
    out: list[tuple[int, int]] = []
    at = 0
    for low, high in blocked:
        if at < min(low, end):
            out.append((turns[at].sequence, turns[min(low, end) - 1].sequence))
        at = max(at, high)
    return tuple(out)
