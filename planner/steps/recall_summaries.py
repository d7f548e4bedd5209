"""Which summaries stand for their turns now, and why the others do not (R85, R142, X44, X47, X51)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from planner.values.check_summary import SummaryFrame, live_marks, summary_problem
from planner.values.compaction import Rejected, Staleness
from planner.values.fingerprint import fingerprint
from planner.values.reasons import RefusalSignal
from planner.values.receipt import SummaryUse
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn

Verdicts = dict[str, tuple[SummaryRecord, SummaryUse | None]]
Inside = Callable[[SummaryRecord], Sequence[Turn]]
"""Returns every turn of a summary's interval, of every state, by sequence."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Current summaries by coverage, no two over one turn, and what became of the others."""

    current: tuple[SummaryRecord, ...] = field(default=(), repr=False)
    unused: tuple[SummaryUse, ...] = ()


def judge(
    records: Sequence[SummaryRecord],
    frame: SummaryFrame,
    inside: Inside,
    known: Verdicts | None = None,
) -> Judged:
    """Verify each summary by full recomputation; of overlapping ones the widest is taken, then the newest.

    known  verdicts of earlier calls with the same frame and turns, by id; new ones are added.
    """
    if not records:
        return Judged()
    ids = [record.id for record in records]
    if len(set(ids)) != len(ids):  # which copy is true cannot be told, so none is used (X47)
        firsts = {record.id: record for record in reversed(records)}
        twice = tuple(dict.fromkeys(entry for entry in ids if ids.count(entry) > 1))
        return Judged((), tuple(use_of(one, "invalid-summary", "duplicate_id", twice) for one in firsts.values()))
    memo: Verdicts = {} if known is None else known
    valid: list[SummaryRecord] = []
    unused: list[SummaryUse] = []
    for record in records:
        seen = memo.get(record.id)
        if seen is None or seen[0] != record:
            seen = memo[record.id] = (record, _problem(record, frame, inside(record)))
        if seen[1] is None:
            valid.append(record)
        else:
            unused.append(seen[1])
    current, overlapped = without_overlaps(valid)
    return Judged(current, (*unused, *overlapped))


def without_overlaps(records: Iterable[SummaryRecord]) -> tuple[tuple[SummaryRecord, ...], tuple[SummaryUse, ...]]:
    """Return summaries that share no turn, by coverage, the widest first taken, then the newest (X51)."""
    taken: list[SummaryRecord] = []
    left: list[SummaryUse] = []
    order = sorted(
        records, key=lambda one: (one.covers_from - one.covers_to, -one.summary_version, -one.covers_to, one.id)
    )
    for record in order:
        rival = next(
            (one for one in taken if record.covers_from <= one.covers_to and one.covers_from <= record.covers_to), None
        )
        if rival is None:
            taken.append(record)
        else:
            left.append(use_of(record, "overlapped", "overlap", (rival.id,)))
    return tuple(sorted(taken, key=lambda one: one.covers_to)), tuple(left)


def use_of(record: SummaryRecord, fate: str, cause: str | None = None, ids: Sequence[str] = ()) -> SummaryUse:
    """Return what became of a summary."""
    return SummaryUse(
        record.id, record.summary_version, (record.covers_from, record.covers_to), fate, cause, tuple(ids)
    )


def use_of_stale(stale: Staleness) -> SummaryUse:
    """Return what became of a summary that the ledger found stale; its version is not known here."""
    ids = () if stale.causing_id is None else (stale.causing_id,)
    return SummaryUse(stale.summary_id, 0, stale.covers or (0, 0), "stale-source", stale.cause, ids)


def refuse_unused(unused: Sequence[SummaryUse]) -> None:
    """Refuse where a summary is invalid or stale and the request wants to know. Raises RefusalSignal."""
    for entry in unused:
        if entry.fate in ("invalid-summary", "stale-source"):
            ids = f": {', '.join(entry.ids)}" if entry.ids else ""
            raise RefusalSignal(entry.fate, f"summary {entry.id}: {entry.cause}{ids}")


def _problem(record: SummaryRecord, frame: SummaryFrame, turns: Sequence[Turn]) -> SummaryUse | None:
    found = summary_problem(record, turns, frame)
    if found is None:
        return None
    if isinstance(found, Rejected):
        ids = [entry for entry in found.ids if entry != record.id]
        return use_of(record, "invalid-summary", found.detail, ids)
    if found.cause == "constraint_changed":
        return _constraints(record, frame, turns)
    if found.cause == "citation_revoked":  # which one is told in the audit record only (R159)
        return use_of(record, "stale-source", found.cause)
    return use_of(record, "stale-source", found.cause, () if found.causing_id is None else (found.causing_id,))


def _constraints(record: SummaryRecord, frame: SummaryFrame, turns: Sequence[Turn]) -> SummaryUse:
    """Tell a summary that lost or invented a constraint from one whose constraints changed since (R99, R100, X45)."""
    covered = [turn for turn in turns if turn.state == "completed"]
    marked = {mark.constraint_id for turn in covered for mark in turn.must_preserve}
    live = {mark.constraint_id for turn in covered for mark in live_marks(turn, frame.constraints)}
    named = set(record.required_constraint_ids)
    if named - marked:
        return use_of(record, "invalid-summary", "unknown_constraint", sorted(named - marked))
    if live - named and record.source_fingerprint == fingerprint(covered):
        return use_of(record, "invalid-summary", "constraint_missing", sorted(live - named))
    return use_of(record, "stale-source", "constraint_changed", sorted(live ^ named))
