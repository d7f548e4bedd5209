"""List everything of a request that is not in the prompt, once, with its reason (R147, R185)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.steps.fit import Fitted
from planner.steps.recall_summaries import use_of
from planner.values.receipt import HistoryReduced, Removal, SummaryUse
from planner.values.rung import Ladder, Layered
from planner.values.summary import SummaryRecord


@dataclass(frozen=True, slots=True)
class Removed:
    """Removals with turns as ranges, what became of each summary, and how much of the history is missing.

    `reduced` is None where every turn is raw or has its summary in the prompt.
    """

    removals: tuple[Removal, ...]
    summaries: tuple[SummaryUse, ...]
    reduced: HistoryReduced | None


@dataclass(slots=True)
class _Fates:
    """Why items left, and over which indexes of turns: `runs` are low, high and the summary that stands there."""

    reasons: dict[str, str] = field(default_factory=dict)
    runs: list[tuple[int, int, str]] = field(default_factory=list)
    begin: int = 0
    older: str = "over_budget"


def removed(layered: Layered, steps: Ladder, fitted: Fitted) -> Removed:
    """List everything of the request that is not in the prompt, once, turns as ranges (R147)."""
    history, reach = layered.history, steps.reach
    fates = _Fates(begin=reach.gone_through)
    for number, move in enumerate(steps.moves[: fitted.moves_made]):
        reason = fitted.beyond if fitted.needed is not None and number >= fitted.needed else move.reason
        if move.through:
            fates.older, fates.begin = reason, max(fates.begin, move.through)
        for key in move.leaves:
            fates.reasons[key] = reason
        if move.comes:
            fates.runs += [(*move.run, key) for key in move.comes]
    shown = fitted.measured.selection.history
    if layered.summaries:
        kept = {entry.id for entry in shown if not isinstance(entry, SummaryRecord)}
    else:
        kept = {entry.id for entry in shown}
    ranges = _missing_turns(layered, reach.gone_through, kept, fates)
    out = [*history.left_out, *(Removal(f"turn/{name}", "source_revoked") for name, _ in history.revoked), *steps.gone]
    for low, high, reason in ranges:
        first, last = f"turn/{history.turns[low].id}", f"turn/{history.turns[high - 1].id}"
        out.append(Removal(first, reason, last if high - low > 1 else None, high - low))
    reduced = _reduced(layered, ranges)
    if not layered.summaries and not history.unused and not layered.passages and not layered.conflicts:
        return Removed(tuple(out), (), reduced)
    uses = [*_uses(layered, steps, fitted, ranges, fates), *history.unused]
    out += [Removal(f"summary/{use.id}", use.fate) for use in uses if use.fate != "used"]
    present = {f"passage/{passage.citation_id}" for passage in fitted.measured.selection.passages}
    present |= {entry.id for entry in steps.gone}
    cited = (f"passage/{passage.citation_id}" for passage in layered.passages)
    out += [Removal(key, fates.reasons.get(key, "over_budget")) for key in cited if key not in present]
    told = fitted.measured.selection.conflicts
    out += [Removal(one.key, fates.reasons.get(one.key, "over_budget")) for one in layered.conflicts if one not in told]
    return Removed(tuple(out), tuple(uses), reduced)


def _missing_turns(layered: Layered, gone_through: int, kept: set[str], fates: _Fates) -> list[tuple[int, int, str]]:
    """Return (start, stop, reason) of every stretch of turns that left; an old stretch costs its pins only."""
    found: list[tuple[int, int, str]] = []
    begin = fates.begin
    runs = {low: (high, fates.reasons.get(key, "replaced_by_summary")) for low, high, key in fates.runs}

    def add(low: int, high: int, reason: str) -> None:
        if high <= low:
            return
        if found and found[-1][1] == low and found[-1][2] == reason:
            found[-1] = (found[-1][0], high, reason)
        else:
            found.append((low, high, reason))

    def between(low: int, high: int, reason: str) -> None:
        """Add a stretch less the turns that stay in it, and its runs as what they are."""
        stops = sorted({*(place for place in layered.older_staying(high) if place >= low),
                        *(place for place in runs if low <= place < high)})  # fmt: skip
        for stop in stops:
            if stop < low:
                continue  # inside a run
            add(low, stop, reason)
            low = stop + 1
            if stop in runs:
                low, why = runs[stop]
                add(stop, low, why)
        add(low, high, reason)

    if gone_through:
        between(0, gone_through - 1, "beyond_too_large")
        add(gone_through - 1, gone_through, "too_large")
    between(gone_through, begin, fates.older)
    turns = layered.history.turns
    if not runs:
        missing = len(turns) - begin - (len(kept) - len(layered.older_staying(begin)))
        for index in range(begin, len(turns)):
            if not missing:
                break  # the rest is all there
            turn_id = turns[index].id
            if turn_id not in kept:
                missing -= 1
                add(index, index + 1, fates.reasons.get(f"turn/{turn_id}", "over_budget"))
        return found
    index = begin
    while index < len(turns):
        if index in runs:
            high, why = runs[index]
            add(index, high, why)
            index = high
            continue
        turn_id = turns[index].id
        if turn_id not in kept:
            add(index, index + 1, fates.reasons.get(f"turn/{turn_id}", "over_budget"))
        index += 1
    return found


def _reduced(layered: Layered, ranges: Sequence[tuple[int, int, str]]) -> HistoryReduced | None:
    lost = [(low, high) for low, high, reason in ranges if reason != "replaced_by_summary"]
    revoked, boundary = layered.history.revoked, layered.history.boundary
    if not lost and not revoked and boundary is None:
        return None
    turns = layered.history.turns
    found = [(turns[low].sequence, turns[high - 1].sequence) for low, high in lost]
    found += [(sequence, sequence) for _, sequence in revoked]
    return HistoryReduced(sum(high - low for low, high in lost) + len(revoked), tuple(sorted(found)), boundary)


def _uses(
    layered: Layered, steps: Ladder, fitted: Fitted, ranges: Sequence[tuple[int, int, str]], fates: _Fates
) -> list[SummaryUse]:
    """Say what became of each current summary.

    One whose last turn left has the reason of that turn, whatever else speaks against it: the turns it could stand
    for are older than what fits, and nothing more is known of them.
    """
    shown = {entry.id for entry in fitted.measured.selection.history if isinstance(entry, SummaryRecord)}
    reach = steps.reach
    starts = [low for low, _, _ in ranges]
    out: list[SummaryUse] = []
    for summary in layered.summaries:
        low, high = reach.runs[summary.id]
        fate = reach.unused.get(f"summary/{summary.id}", "not_needed")
        place = bisect_left(starts, high) - 1
        if summary.id in shown:
            fate = "used"
        elif not reach.has_slot:
            fate = "summary_slot_missing"
        elif low >= high:  # of purged turns, so that only its own move tells why it is not there
            fate = reach.unused.get(f"summary/{summary.id}") or fates.reasons.get(
                f"summary/{summary.id}", "over_budget"
            )
        elif place >= 0 and ranges[place][1] >= high:
            fate = ranges[place][2]
        out.append(use_of(summary, fate))
    return out
