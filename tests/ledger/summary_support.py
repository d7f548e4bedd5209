"""Conversations, plans and summaries for the tests of the ledger's summary side."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from planner.ledger.ledger import Ledger
from planner.ledger.stored import Active, Checked, Saved
from planner.values.check_summary import SummaryFrame, run_of, summary_problem
from planner.values.compaction import STRATEGY_VERSION, CompactionPlan, Run
from planner.values.constraint import Constraint
from planner.values.summary import StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Message, Turn

CHAT = "c1"
POLICY = "policy-1"
ACTIVE = Active(POLICY)
Span = tuple[str, str]


def said(number: int, *, words: str = "Question") -> tuple[Message, Message]:
    """Return a question and its answer."""
    return (
        Message("user", f"u{number}", f"{words} {number}?"),
        Message("assistant", f"a{number}", f"Answer {number}."),
    )


def fill(ledger: Ledger, *numbers: int, chat: str = CHAT, **fields: Any) -> None:
    """Append completed turns t<number>."""
    for number in numbers:
        ledger.append(chat, f"t{number}", said(number), state="completed", **fields)


def edit(ledger: Ledger, number: int, words: str = "Changed", chat: str = CHAT) -> None:
    """Edit the question of a turn."""
    ledger.edit(chat, f"u{number}", said(number, words=words)[0])


def turns_of(ledger: Ledger, chat: str = CHAT) -> tuple[Turn, ...]:
    """Return every visible turn."""
    return tuple(ledger.turns(chat))


def plan_of(
    ledger: Ledger, plan_id: str, *spans: Span, chat: str = CHAT, policy: str = POLICY, event: int | None = None
) -> CompactionPlan:
    """Return a plan whose runs go from one turn to another, as the conversation stands now."""
    head, turns = ledger.head(chat), turns_of(ledger, chat)
    constraints = ledger.view(chat).constraints
    runs = tuple(run_between(turns, constraints, span) for span in spans)
    covered = {entry for run in runs for entry in run.source_ids}
    preserved = tuple(message.id or "" for turn in turns for message in turn.messages if message.id not in covered)
    return CompactionPlan(
        plan_id, chat, head.branch, head.generation, head.revision, policy, STRATEGY_VERSION, runs, preserved,
        event=head.event if event is None else event,
    )  # fmt: skip


def run_between(turns: Sequence[Turn], constraints: Sequence[Constraint], span: Span) -> Run:
    """Return the run from one turn to another."""
    sequences = {turn.id: turn.sequence for turn in turns}
    first, last = (sequences[name] for name in span)
    return run_of([turn for turn in turns if first <= turn.sequence <= last], constraints)


def freeze(ledger: Ledger, plan_id: str, *spans: Span, **fields: Any) -> CompactionPlan:
    """Make a plan the active one, whatever was."""
    return ledger.save_plan(plan_of(ledger, plan_id, *spans, **fields), replace=True)


def summary_of(plan: CompactionPlan, summary_id: str = "s1", run: int = 0, **fields: Any) -> SummaryRecord:
    """Return a sound summary of one run, as the accept step would leave it."""
    source = plan.runs[run]
    state = SummaryState(
        goal="Ask a question.",
        constraints=tuple(StateEntry("A rule.", id=entry) for entry in source.required_constraint_ids),
        open_actions=tuple(StateEntry("Do it.", id=entry, status="pending") for entry in source.open_items),
        evidence=(StateEntry("It was asked.", message_ids=source.source_ids[:1]),),
    )
    return SummaryRecord(**{
        "id": summary_id, "plan_id": plan.plan_id, "conversation_id": plan.conversation_id,
        "source_generation": plan.generation, "source_revision": plan.source_revision,
        "source_ids": source.source_ids, "source_versions": source.source_versions,
        "source_fingerprint": source.source_fingerprint, "protected_fingerprint": source.protected_fingerprint,
        "covers_from": source.covers_from, "covers_to": source.covers_to,
        "through_sequence": source.through_sequence, "summary_version": 1, "policy_version": plan.policy_version,
        "strategy_version": plan.strategy_version, "summary_text": f"Goal: {summary_id}.", "state": state,
        "required_constraint_ids": source.required_constraint_ids, "open_items": source.open_items,
        "citation_ids": source.citation_ids, **fields,
    })  # fmt: skip


def deliver(ledger: Ledger, record: SummaryRecord, *, event: int | None = None, active: Active = ACTIVE) -> Saved:
    """Save a summary that was checked on the newest snapshot, or on one up to `event`."""
    seen = ledger.head(record.conversation_id).event if event is None else event
    return ledger.save_summary(record, record.plan_id, Checked(seen, active))


def current_ids(ledger: Ledger, chat: str = CHAT, active: Active = ACTIVE) -> list[str]:
    """Return the ids of the current summaries by coverage."""
    return [record.id for record in ledger.view(chat, active=active).summaries]


def causes(ledger: Ledger, chat: str = CHAT, active: Active = ACTIVE) -> dict[str, tuple[str, str | None]]:
    """Return why summaries are stale: id -> cause and causing id."""
    return {one.summary_id: (one.cause, one.causing_id) for one in ledger.view(chat, active=active).stale}


def statuses(ledger: Ledger, chat: str = CHAT, active: Active = ACTIVE) -> list[tuple[str, str]]:
    """Return id and status of every version."""
    return [(one.summary_id, one.status) for one in ledger.summaries(chat, active)]


def recomputed(ledger: Ledger, record: SummaryRecord, chat: str = CHAT) -> bool:
    """Tell by full recomputation whether a record stands for its turns (values/check_summary.py)."""
    frame = SummaryFrame(chat, None, POLICY, constraints=ledger.view(chat).constraints)
    return summary_problem(record, turns_of(ledger, chat), frame) is None


TEXT_TABLES = ("message", "turn", "mark", "touch", "conversation", "branch", "generation", "part", "policy")
DERIVED = {"summary": ("salt", "digest", "event"), "summary_source": ("summary",), "active_run": ("summary",)}


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    found = {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}
    connection.close()
    return found


def summary_state(path: Path) -> dict[str, Any]:
    """Return what the summary side says, without numbers of events and without what is random."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    versions = connection.execute(
        "SELECT id, version, plan_id, covers_from, covers_to, status, cause, body FROM summary"
        " WHERE status <> 'failed' ORDER BY event"
    ).fetchall()
    sources = connection.execute(
        "SELECT s.id, position, message_id, sequence, x.version, turn_sequence FROM summary_source x"
        " JOIN summary s ON s.event = x.summary ORDER BY s.event, position"
    ).fetchall()
    pointers = connection.execute(
        "SELECT r.branch, r.covers_from, r.covers_to, s.id FROM active_run r JOIN summary s ON s.event = r.summary"
        " ORDER BY 1, 2"
    ).fetchall()
    failed = connection.execute("SELECT count(*) FROM summary WHERE status = 'failed'").get
    connection.close()
    return {"versions": versions, "sources": sources, "pointers": pointers, "failed": failed}


def copy_ledger(source: Path, target: Path) -> Path:
    """Copy a closed ledger with its anchor."""
    for name in (source.name, f"{source.name}-anchor"):
        if (source.parent / name).exists():
            shutil.copy(source.parent / name, target.parent / name.replace(source.name, target.name, 1))
    return target
