"""Rows of compaction plans, each checked by its digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import apsw

from planner.ledger.codec import decode
from planner.ledger.facts import TABLES, fact_digest
from planner.ledger.faults import corrupt
from planner.values.compaction import CompactionPlan

_COLUMNS = ", ".join(TABLES["plan"].columns)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A stored plan with its event; the value carries the rest."""

    event: int
    plan: CompactionPlan


def plan_row(connection: apsw.Connection, conversation: int, plan_id: str) -> PlanRow | None:
    """Return a stored plan, checked by its digest."""
    return _one(connection, "conversation = ? AND id = ?", (conversation, plan_id))


def active_row(connection: apsw.Connection, conversation: int) -> PlanRow | None:
    """Return the active plan, checked by its digest."""
    return _one(
        connection, "event = (SELECT plan FROM active_plan WHERE conversation = ?) AND conversation = ?",
        (conversation, conversation),
    )  # fmt: skip


def active_key(connection: apsw.Connection, conversation: int) -> tuple[int, str] | None:
    """Return event and id of the active plan, without reading its body."""
    row: Any = connection.execute(
        "SELECT p.event, p.id FROM active_plan a JOIN plan p ON p.event = a.plan WHERE a.conversation = ?",
        (conversation,),
    ).fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def _one(connection: apsw.Connection, where: str, bindings: tuple[int | str, ...]) -> PlanRow | None:
    row = connection.execute(
        f"SELECT {_COLUMNS}, digest FROM plan WHERE {where}",  # noqa: S608 - our own words
        bindings,
    ).fetchone()
    if row is None:
        return None
    *columns, digest = row
    if fact_digest("plan", columns) != digest:
        corrupt(f"plan of event {columns[0]}")
    return PlanRow(int(columns[0]), decode(CompactionPlan, str(columns[-1]), f"plan of event {columns[0]}"))
