"""Compaction as values: what is to be summarised, frozen, and how an answer was judged (R63, design.md §8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from planner.values.receipt import Removal
from planner.values.summary import SummaryRecord

Risk = Literal["low", "high"]

STRATEGY_VERSION = "1"
"""Version of the rules of selection, fingerprint, prompt, checks and summary fields together (X13).

A summary made under another one is stale: over-invalidating is safe.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A gap-free run of whole completed unprotected turns (X1); one summary stands for it.

    `covers_from` and `covers_to` are sequences of the first and the last turn, `through_sequence` the highest
    sequence of a message. `source_ids` and `source_versions` are parallel, by sequence of the message.
    `skipped` names cancelled and superseded turns inside the interval (X37).
    """

    turn_ids: tuple[str, ...]
    source_ids: tuple[str, ...]
    source_versions: tuple[int, ...]
    covers_from: int
    covers_to: int
    through_sequence: int
    source_fingerprint: str
    protected_fingerprint: str
    required_constraint_ids: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    citation_ids: tuple[str, ...] = ()
    skipped: tuple[Removal, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """A frozen set of sources (R63, R70). Planning it changes nothing; runs are accepted one by one.

    `event` is the ledger event the plan saw last. `compacted_ids` and `preserved_ids` are message ids and, with
    the messages of `skipped` turns, the whole ledger (R69).
    """

    plan_id: str
    conversation_id: str
    branch: str
    generation: int
    source_revision: int
    policy_version: str
    strategy_version: str
    runs: tuple[Run, ...]
    preserved_ids: tuple[str, ...]
    skipped: tuple[Removal, ...] = ()
    event: int = 0

    @property
    def compacted_ids(self) -> tuple[str, ...]:
        """Ids of every message a run covers, by sequence."""
        return tuple(entry for run in self.runs for entry in run.source_ids)

    @property
    def through_sequence(self) -> int | None:
        """The highest covered sequence; None where nothing is compacted (X46). No proof of continuity (R71)."""
        return max((run.through_sequence for run in self.runs), default=None)


@dataclass(frozen=True, slots=True)
class Unplanned:
    """No compaction plan: `invalid-input`, or `nothing_to_compact` where the set of sources is empty (R64, R72).

    Any other reason is that of the refusal of the summariser's call, such as `role_not_supported` (R215).
    """

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A summary that is not taken: `invalid-summary` or `stale-source`, with ids and numbers, never text (R114)."""

    reason: str
    detail: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A summary that passed every check, not yet stored; `record` is complete (R75, R96)."""

    record: SummaryRecord = field(repr=False)


@dataclass(frozen=True, slots=True)
class Staleness:
    """Why a summary no longer stands for its turns, with the id that caused it (R154)."""

    summary_id: str
    cause: str
    causing_id: str | None = None
    covers: tuple[int, int] | None = None
