"""Summaries that are current by every check, made from turns without the compaction rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from planner.values.check_summary import run_of
from planner.values.compaction import STRATEGY_VERSION
from planner.values.constraint import Constraint
from planner.values.relations import relations
from planner.values.summary import StateEntry, SummaryRecord, SummaryState
from planner.values.turn import Turn

CONVERSATION = "chat"


def live(turns: Iterable[Turn]) -> tuple[Constraint, ...]:
    """Return the constraints in force."""
    return relations(sorted(turns, key=lambda turn: turn.sequence)).constraints


def record_of(
    summary_id: str, inside: Sequence[Turn], text: str, constraints: tuple[Constraint, ...] = (), **fields: Any
) -> SummaryRecord:
    """Return a whole summary of an interval; `constraints` are the live ones of the conversation."""
    run = run_of(inside, constraints)
    state = SummaryState(
        goal="goal",
        constraints=tuple(StateEntry("rule", id=name) for name in run.required_constraint_ids),
        open_actions=tuple(StateEntry("item", id=name, status="pending") for name in run.open_items),
    )
    known: dict[str, Any] = {
        "id": summary_id, "plan_id": "plan", "conversation_id": CONVERSATION, "source_generation": 1,
        "source_revision": 0, "source_ids": run.source_ids, "source_versions": run.source_versions,
        "source_fingerprint": run.source_fingerprint, "protected_fingerprint": run.protected_fingerprint,
        "covers_from": run.covers_from, "covers_to": run.covers_to, "through_sequence": run.through_sequence,
        "summary_version": 1, "policy_version": "unversioned", "strategy_version": STRATEGY_VERSION,
        "summary_text": text, "state": state, "required_constraint_ids": run.required_constraint_ids,
        "open_items": run.open_items, "citation_ids": run.citation_ids,
    }  # fmt: skip
    return SummaryRecord(**{**known, **fields})
