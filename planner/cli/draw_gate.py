"""The verdict of a gate on a terminal."""

from __future__ import annotations

from planner.cli.draw import rows, say
from planner.values.gate import GateResult
from planner.values.printable import printable

MOST_REASONS = 40


def draw_gate(result: GateResult) -> None:
    """Draw what was run, what blocks and why, what is not covered and not evidenced, and what a pass means."""
    say(f"{result.verdict}  candidate {result.candidate_id[:16]}")
    coverage = result.coverage
    rows(("family", "cells"), [(name, str(count)) for name, count in coverage.families.items()], right=(1,))
    say(f"bundles  {', '.join(coverage.bundles)}    tiers  {', '.join(coverage.tiers)}")
    say(f"cells    {result.cells:,} run, {result.reused:,} of them taken from before, {result.blocked:,} blocked")
    silent = [name for name, count in result.compared.items() if not count]
    for name, count in result.compared.items():
        if count:
            say(f"{name}  compared with bundle or sample in {count:,} of {result.cells:,} cells")
    if silent and result.cells:
        say(f"not compared  {', '.join(silent)}: no bundle and no sample states it")
    if result.reasons:
        shown = [(reason.code, printable(reason.id)) for reason in result.reasons[:MOST_REASONS]]
        rows(("blocks", "where"), shown)
        left = len(result.reasons) - len(shown) + result.unlisted
        if left:
            say(f"and {left:,} more; --json and --results hold them")
    for cell in coverage.uncovered:
        target = f"{cell.os} {cell.abi} {cell.vendor} {cell.runtime} {cell.runtime_version}"
        say(f"{cell.status}  {printable(target)}")
    if not coverage.targets:
        say("targets  none named: nothing is said about any device")
    for one in result.integration:
        say(f"{printable(one.platform)}  checked {_named(one.checked)}; not checked {_named(one.unchecked)}")
    if not result.integration:
        say("integration  not checked on any platform; the list stands in docs/integration.md")
    for part in result.evidence:
        say(f"{part.name}  {part.detail}")
    say(result.claim)


def _named(ids: tuple[str, ...]) -> str:
    return ", ".join(ids) or "nothing"
