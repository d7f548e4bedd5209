"""What the summary side of the ledger takes and answers: values, never rows (R125)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from planner.values.compaction import STRATEGY_VERSION, Staleness
from planner.values.summary import SummaryRecord

SaveStatus = Literal["accepted", "stale-source", "failed", "duplicate"]
StoredStatus = Literal["current", "stale", "superseded", "failed"]


@dataclass(frozen=True, slots=True)
class Active:
    """The versions that are in force now; None is not compared (X13)."""

    policy_version: str | None = None
    strategy_version: str | None = STRATEGY_VERSION


@dataclass(frozen=True, slots=True)
class Checked:
    """On what a summary was verified: the newest event of the read snapshot, and the versions then in force."""

    event: int
    active: Active


@dataclass(frozen=True, slots=True)
class Saved:
    """How a save ended.

    `duplicate` names the version that the plan's run has already; `cause` and `causing_id` say why not accepted.
    """

    status: SaveStatus
    summary_id: str
    summary_version: int | None = None
    cause: str | None = None
    causing_id: str | None = None


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """One stored version with where it stands now (R77, R149).

    status      `current`, `stale` (`staleness` says why), `superseded` by another current one, `failed`.
    record      None where the body was never kept or retention took it.
    diagnostics ids, numbers and codes of a version that was not accepted.
    """

    summary_id: str
    summary_version: int
    status: StoredStatus
    branch: str
    generation: int
    plan_id: str
    covers: tuple[int, int]
    event: int
    staleness: Staleness | None = None
    adopted_from: str | None = None
    diagnostics: Mapping[str, object] = field(default_factory=dict)
    record: SummaryRecord | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Invalidation:
    """The one receipt that a summary stopped being current in a branch (R154)."""

    staleness: Staleness
    branch: str
    event: int
