"""What a person sees of a ledger and of compaction: bars on stderr, tables of ids and codes. Never a word of a turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from planner.cli.draw import rows, say

if TYPE_CHECKING:
    from planner.compactor.shown import Status, Trial
    from planner.ledger.stored import StoredSummary
    from planner.values.compaction import CompactionPlan


@contextmanager
def moving_bar(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr that vanishes at the end; the callable takes how much of `total` is done."""
    shown = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def draw_compaction(plan: CompactionPlan) -> None:
    """Draw a compaction plan: one row a run."""
    say(f"plan {plan.plan_id}", "bold")
    cells = [
        (number, f"{run.covers_from} .. {run.covers_to}", len(run.turn_ids), len(run.source_ids),
         ", ".join(run.required_constraint_ids) or "-")
        for number, run in enumerate(plan.runs)
    ]  # fmt: skip
    rows(("run", "sequences", "turns", "messages", "constraints"), cells, right=(0, 2, 3))
    say(f"{len(plan.preserved_ids)} messages stay as they are")


def draw_trial(trial: Trial) -> None:
    """Draw what a trial found; its plan is one of runs."""
    cells = []
    for prompt in trial.prompts:
        verdict = trial.verdicts[prompt.run] if prompt.run < len(trial.verdicts) else "-"
        tokens = f"{len(prompt.ids):,}" if prompt.ids else "-"
        cells.append((prompt.run, f"{prompt.covers[0]} .. {prompt.covers[1]}", tokens, verdict))
    rows(("run", "sequences", "prompt tokens", "verdict"), cells, right=(0, 2))
    say("nothing was written")


def draw_status(status: Status) -> None:
    """Draw what stands, what is stale and why, what waits for a model."""
    if not status.on:
        say("status is switched off")
        return
    current = [(name, f"{first} .. {last}", "current", "")
               for name, (first, last) in zip(status.current, status.covers, strict=True)]  # fmt: skip
    stale = [
        (one.summary_id, "-" if one.covers is None else f"{one.covers[0]} .. {one.covers[1]}", "stale",
         one.cause if one.causing_id is None else f"{one.cause} {one.causing_id}")
        for one in status.stale
    ]  # fmt: skip
    if current or stale:
        rows(("summary", "sequences", "status", "why"), [*current, *stale])
    else:
        say("no summary is in use")
    notes = [("plan", f"{status.plan_id}, runs waiting: {_numbers(status.waiting)}")] if status.plan_id else []
    notes += [("unmet", name) for name in status.unmet]
    notes += (
        [("spent", f"runs not tried again before their sources change: {_numbers(status.spent)}")]
        if status.spent
        else []
    )
    if status.boundary is not None:
        notes.append(("boundary", f"originals up to sequence {status.boundary} were purged"))
    notes += [("notice", name) for name in status.notices]
    if notes:
        rows(("notes", ""), notes)


def draw_versions(found: Sequence[StoredSummary]) -> None:
    """Draw every stored version of every summary, oldest first."""
    cells = [
        (
            f"{one.summary_id}@{one.summary_version}",
            f"{one.covers[0]} .. {one.covers[1]}",
            one.status,
            one.generation,
            "" if one.staleness is None else f"{one.staleness.cause} {one.staleness.causing_id or ''}".strip(),
        )
        for one in found
    ]
    if cells:
        rows(("summary", "sequences", "status", "generation", "why"), cells, right=(3,))
    else:
        say("no summary was ever stored")


def _numbers(runs: Sequence[int]) -> str:
    return ", ".join(f"run {one}" for one in runs) or "none"
