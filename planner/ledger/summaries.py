"""Saving a summary: a short write that compares, then version, sources and pointer together (R113..R124, X11, X51).

What is slow (the model, the checks, the fingerprint of the sources) the caller did on a snapshot before. Here only
the active plan, the generation, the versions and the index of touches are compared, so an append waits for this write
and never for a check (R122). A version that comes too late is kept as a record without its words: cause, ids and
diagnostics (R116, R188). A save that failed leaves everything as it was and is noted afterwards (R123).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from planner.ledger.current import CAUSES, Line, first_touch
from planner.ledger.diagnostics import text_free
from planner.ledger.heads import conversation_key, read_head
from planner.ledger.lineage import NO_CUT, lineage
from planner.ledger.plan_rows import PlanRow, active_key, plan_row
from planner.ledger.pointers import move_pointer
from planner.ledger.scope import Scope, branch_id, open_scope
from planner.ledger.store import Store
from planner.ledger.stored import Active, Checked, Saved
from planner.ledger.summary_rows import Fate, Source, put_sources, put_version, row_of_id, rows_where, sources_of
from planner.values.check_record import check_record
from planner.values.compaction import CompactionPlan, Run
from planner.values.field_rules import holds_forbidden, is_id
from planner.values.reasons import PlannerFault, RefusalSignal
from planner.values.summary import SummaryRecord

_ENVIRONMENT = frozenset({"ledger_full", "ledger_io", "ledger_busy"})
"""Faults of the machine: the save failed and may be tried again, the earlier summary is as it was."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One delivery: the record, what it was checked on, its frozen plan, and where its sources stand.

    Plans and places of sources never change, so they are read before the write.
    """

    record: SummaryRecord
    checked: Checked
    plan: PlanRow | None
    sources: tuple[Source, ...] | str = field(repr=False)
    diagnostics: str | None


def save_summary(
    store: Store, record: SummaryRecord, plan_id: str, checked: Checked, diagnostics: Mapping[str, Any] | None = None
) -> Saved:
    """Store one summary of one run of a plan, and make it current if nothing moved on meanwhile.

    checked      the newest event of the snapshot on which the caller verified the sources, and the versions in force.
    diagnostics  numbers, codes and ids; anything else is counted and left out.
    Returns      `accepted`; `duplicate` where the plan's run has its summary; `stale-source` with the cause; `failed`
                 where the machine let the save down, and then nothing else changed.
    Raises RefusalSignal `invalid-summary` for a record that is none of the plan's run (nothing is stored), PlannerFault
    `duplicate_id` for an id in use, `conversation_not_found`, and what says that the ledger itself is unsound.
    """
    record = _sound(record, plan_id)
    with store.read("read the sources") as connection:
        conversation = conversation_key(connection, record.conversation_id)
        line = lineage(connection, read_head(connection, conversation).branch, NO_CUT)
        plan = plan_row(connection, conversation, plan_id)
        sources = sources_of(connection, conversation, line, record)
        job = _Job(record, checked, plan, sources, text_free(diagnostics))
    try:
        return _save(store, job)
    except RefusalSignal:
        raise
    except Exception as error:
        code = error.code if isinstance(error, PlannerFault) else "save_failed"
        # Whatever happened, what is thrown is the first error and not that the note of it failed too. Behind a writer
        # that does not end, a note would only wait once more.
        if code != "ledger_busy":
            with suppress(Exception):
                _note_failure(store, job, code)
        if code in _ENVIRONMENT:
            return Saved("failed", record.id, cause=code)
        raise


def _save(store: Store, job: _Job) -> Saved:
    record = job.record
    with store.write("save a summary") as tx:
        scope = open_scope(tx, record.conversation_id, None)
        known = _delivered(scope, record)
        cause = None if known is not None else find_cause(scope, job)
        tx.fail("after_reread")
        if known is not None:
            return known
        if cause is not None:
            fate = Fate("stale-source", *cause, diagnostics=job.diagnostics)
            put_version(scope, record, fate, job.checked.event)
            return Saved("stale-source", record.id, None, *cause)
        return write_accepted(scope, record, job.sources, Fate("accepted", diagnostics=job.diagnostics))


def write_accepted(scope: Scope, record: SummaryRecord, sources: tuple[Source, ...] | str, fate: Fate) -> Saved:
    """Write version, sources and pointer of a summary that was compared in this very transaction (R121)."""
    record = replace(record, branch=branch_id(scope.tx, scope.branch))
    # Compared up to the newest event, so a later touch is the first thing that can make it stale.
    event, stored = put_version(scope, record, fate, scope.tx.event)
    put_sources(scope, event, sources if isinstance(sources, tuple) else ())
    move_pointer(scope, event)
    return Saved("accepted", stored.id, stored.summary_version)


def _delivered(scope: Scope, record: SummaryRecord) -> Saved | None:
    """Return the answer to a delivery that came before, None for a first one (D14d)."""
    connection, conversation = scope.tx.connection, scope.conversation
    same_run = rows_where(
        connection,
        "conversation = ? AND plan_id = ? AND covers_from = ? AND covers_to = ? AND status = 'accepted'"
        " AND adopted_from IS NULL",
        (conversation, record.plan_id, record.covers_from, record.covers_to),
    )
    if same_run:
        return Saved("duplicate", same_run[0].id, same_run[0].version)
    same_id = row_of_id(connection, conversation, record.id)
    if same_id is None:
        return None
    if (same_id.plan_id, same_id.covers) != (record.plan_id, (record.covers_from, record.covers_to)):
        raise PlannerFault("duplicate_id", "the summary id belongs to another run")
    return Saved("stale-source", same_id.id, None, same_id.cause, same_id.causing_id)


def find_cause(scope: Scope, job: _Job) -> tuple[str, str | None] | None:
    """Return why a delivery is too late, with the id that made it so; None where it is not.

    Raises RefusalSignal `invalid-summary` where it is no summary of a run of its plan.
    """
    record, active = job.record, active_key(scope.tx.connection, scope.conversation)
    if job.plan is None or active is None or active[0] != job.plan.event:
        return "plan_inactive", None if active is None else active[1]
    plan = job.plan.plan
    if not record.source_generation == plan.generation == scope.head.generation:
        return "other_generation", None
    mismatch = version_mismatch(record, job.checked.active)
    if mismatch is not None:
        return mismatch, None
    _check_run(plan, record)
    if isinstance(job.sources, str):
        return "source_missing", job.sources
    turns = [one.turn_sequence for one in job.sources]
    if (min(turns), max(turns)) != (record.covers_from, record.covers_to):
        _refuse("its coverage does not begin and end with the turns of its sources")
    # The fingerprint was frozen with the plan: what moved since then cannot have been in it, whatever the caller saw.
    since = min(job.checked.event, plan.event) if plan.event else job.checked.event
    return touched_since(scope, record, since)


def version_mismatch(record: SummaryRecord, active: Active) -> str | None:
    """Return which version of a record is no longer the active one (R86, X13)."""
    if active.policy_version not in (None, record.policy_version):
        return "policy_version"
    return "strategy_version" if active.strategy_version not in (None, record.strategy_version) else None


def touched_since(scope: Scope, record: SummaryRecord, event: int) -> tuple[str, str | None] | None:
    """Return what touched the covered turns after an event, as cause and causing id; None where nothing did."""
    line = Line(scope.conversation, scope.line, scope.head.generation, scope.head.purged_through)
    touch = first_touch(scope.tx.connection, line, (record.covers_from, record.covers_to), event)
    return None if touch is None else (CAUSES[touch[1]], touch[2])


def _check_run(plan: CompactionPlan, record: SummaryRecord) -> None:
    """Refuse a record whose sources are not those of a run, or a piece of one that was split (X66)."""
    run = next((one for one in plan.runs if one.covers_from <= record.covers_from <= one.covers_to), None)
    if run is None or record.covers_to > run.covers_to:
        _refuse("covers what no run of its plan covers")
    pairs = list(zip(run.source_ids, run.source_versions, strict=True))
    mine = list(zip(record.source_ids, record.source_versions, strict=True))
    start = next((place for place, pair in enumerate(pairs) if pair == mine[0]), 0)
    if pairs[start : start + len(mine)] != mine:
        _refuse("its sources are not those of the run, in that order")
    required, wanted = record.required_constraint_ids, run.required_constraint_ids
    if not set(required) <= set(wanted):
        _refuse("requires a constraint that its run does not mark")
    if (record.covers_from, record.covers_to) == (run.covers_from, run.covers_to):
        _check_whole(record, run)


def _check_whole(record: SummaryRecord, run: Run) -> None:
    if record.source_ids != run.source_ids:
        _refuse("its sources are not all of the run")
    if set(record.required_constraint_ids) != set(run.required_constraint_ids):
        _refuse("lacks a constraint that its run marks")
    if set(record.open_items) != set(run.open_items):
        _refuse("its open items are not those of the run")
    if record.citation_ids != run.citation_ids:
        _refuse("its citations are not those of the run")
    if record.source_fingerprint != run.source_fingerprint:
        _refuse("its fingerprint is not that of the run")
    if record.protected_fingerprint != run.protected_fingerprint:
        _refuse("its protected fingerprint is not that of the run")


def _sound(record: SummaryRecord, plan_id: str) -> SummaryRecord:
    """Return the record with its text trimmed; what has no sources, text or id is no envelope (R78)."""
    text = record.summary_text.strip()
    if not text or holds_forbidden(text):
        _refuse("its text is blank or cannot be stored")
    if not record.source_ids or len(record.source_ids) != len(record.source_versions):
        _refuse("its sources are missing or have no versions")
    if len(set(record.source_ids)) != len(record.source_ids):
        _refuse("names a source twice")
    if not is_id(record.id) or record.plan_id != plan_id or record.covers_from > record.covers_to:
        _refuse("its id, plan or coverage is no valid one")
    flaw: str | None = None
    try:
        check_record(record, "$")
    except RefusalSignal as signal:
        flaw = signal.detail
    if flaw is not None:
        # It would stand in the way of every later plan, which checks what it is given.
        _refuse(flaw)
    return replace(record, summary_text=text)


def _refuse(detail: str) -> NoReturn:
    raise RefusalSignal("invalid-summary", detail)


def _note_failure(store: Store, job: _Job, code: str) -> None:
    """Record a failed save, unless it was durable already; the id stays free for the retry (R123, R124)."""
    record = job.record
    with store.write("note a failed save") as tx:
        scope = open_scope(tx, record.conversation_id, None)
        if _delivered(scope, record) is None:
            put_version(scope, record, Fate("failed", code, diagnostics=job.diagnostics), job.checked.event)
