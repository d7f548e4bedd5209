"""When a conversation should be compacted, and what that would cover; advice only, nothing is started (R169..R171)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from planner.compaction.propose import Material, propose
from planner.compaction.strategy import Settings
from planner.values.check_summary import may_be_skipped, run_of
from planner.values.compaction import CompactionPlan, Run
from planner.values.field_rules import is_share
from planner.values.window import Window

COMPACT_AT = 0.65
USUAL_COMPACT_AT = (0.60, 0.70)

Reuse = Literal["sources", "any_revision"]
"""What makes a summary stale: a change of its sources, or, conservatively, any revision at all (R120)."""


@dataclass(frozen=True, slots=True)
class CompactionAdvice:
    """What is due now; `fired` is to be handed in again with the next prompt.

    due     compaction should be planned: the threshold was crossed by this prompt.
    covers  the interval of turn sequences of each run that would be summarised.
    turns   how many turns these are, and `messages` how many messages.
    """

    due: bool
    fired: bool
    covers: tuple[tuple[int, int], ...] = ()
    turns: int = 0
    messages: int = 0


def reaches(prompt_tokens: int, window: Window, compact_at: float) -> bool:
    """Tell whether a prompt reaches the share of the usable input: window less reserved output and margin (X27).

    The ratio is taken as it is written: 0.65 of 20 is 13, whatever a double makes of it.

    >>> reaches(65, Window(total=120, reserved=19, margin=1), 0.65)
    True
    """
    return Fraction(prompt_tokens) >= Fraction(repr(compact_at)) * max(0, window.budget)


def advise(
    prompt_tokens: int, window: Window, *, compact_at: float, fired: bool, material: Material, settings: Settings
) -> CompactionAdvice:
    """Return whether compaction is due and what it would cover.

    It is due once per crossing: `fired` is the state after the plan before, and only a prompt below the threshold
    arms it again. Above it with nothing to cover it is not due, yet stays armed (R171: the tail comes first).
    """
    if not reaches(prompt_tokens, window, compact_at):
        return CompactionAdvice(due=False, fired=False)
    if fired:
        return CompactionAdvice(due=False, fired=True)
    plan = propose(material, settings)
    if not isinstance(plan, CompactionPlan):
        return CompactionAdvice(due=False, fired=False)
    return CompactionAdvice(
        due=True,
        fired=True,
        covers=tuple((run.covers_from, run.covers_to) for run in plan.runs),
        turns=sum(len(run.turn_ids) for run in plan.runs),
        messages=len(plan.compacted_ids),
    )


def compact_at_problem(ratio: object, *, overridden: bool = False) -> str | None:
    """Say what is wrong with a bundle's ratio, or None; outside the usual range it must be overridden by name (X27).

    >>> compact_at_problem(0.5)
    'is outside 0.6..0.7 and not overridden'
    """
    if not is_share(ratio) or ratio == 0:
        return "expected a share above 0, at most 1"
    low, high = USUAL_COMPACT_AT
    if not overridden and not low <= ratio <= high:  # type: ignore[operator]
        return f"is outside {low}..{high} and not overridden"
    return None


def summary_jobs(states: Iterable[Material], settings: Settings, reuse: Reuse) -> int:
    """Return how many summaries a script costs: the states of a conversation, one after each event (R120).

    After each event what no longer stands for its turns is dropped, then every run of a new plan is summarised.
    """
    held: list[tuple[Run, int]] = []
    jobs = 0
    for material in states:
        held = [entry for entry in held if _stands(*entry, material, reuse)]
        covered = tuple((run.covers_from, run.covers_to) for run, _ in held)
        plan = propose(replace(material, covered=covered), settings)
        runs = plan.runs if isinstance(plan, CompactionPlan) else ()
        held += [(run, material.revision) for run in runs]
        jobs += len(runs)
    return jobs


def _stands(run: Run, revision: int, material: Material, reuse: Reuse) -> bool:
    if reuse == "any_revision" and revision != material.revision:
        return False
    inside = [turn for turn in material.turns if run.covers_from <= turn.sequence <= run.covers_to]
    left = any(not may_be_skipped(turn, material.constraints) for turn in inside)
    return left and run_of(inside, material.constraints) == run
