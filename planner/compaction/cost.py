"""What a rule of reuse costs in summaries, over the states of a conversation (R120)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from planner.compaction.propose import Material, propose
from planner.compaction.strategy import Settings
from planner.values.check_summary import may_be_skipped, run_of
from planner.values.compaction import CompactionPlan, Run

Reuse = Literal["sources", "any_revision"]
"""What makes a summary stale: a change of its sources, or, conservatively, any revision at all (R120)."""


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
