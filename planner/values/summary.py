"""A summary: a versioned, derived view of whole turns (R75, R96; design.md §8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One sentence of the state with the messages it rests on.

    `id` is that of a constraint or of an open item of the ledger; other entries have none.
    """

    text: str = field(repr=False)
    message_ids: tuple[str, ...] = ()
    owner: str | None = field(default=None, repr=False)
    status: Literal["pending", "blocked", "done"] | None = None
    excerpt: str | None = field(default=None, repr=False)
    archive_ref: str | None = field(default=None, repr=False)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class SummaryState:
    """The six fields of R87; each list may be empty (R89)."""

    goal: str = field(repr=False)
    goal_from: str | None = None
    decisions: tuple[StateEntry, ...] = ()
    constraints: tuple[StateEntry, ...] = ()
    open_actions: tuple[StateEntry, ...] = ()
    questions: tuple[StateEntry, ...] = ()
    evidence: tuple[StateEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfirmedFact:
    """A fact with the message or confirmation it rests on (R95).

    `rejected_values` are values of its key that the application turned down when it resolved a dispute (R156).
    """

    id: str
    text: str = field(repr=False)
    fact_key: str | None = None
    fact_value: str | None = field(default=None, repr=False)
    source_ids: tuple[str, ...] = ()
    confirmation_id: str | None = None
    status: Literal["confirmed", "disputed"] = "confirmed"
    rejected_values: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class SummaryRecord:
    """One immutable summary version; `covers_from`/`covers_to` are turn sequences, both inclusive."""

    id: str
    plan_id: str
    conversation_id: str
    source_generation: int
    source_revision: int
    source_ids: tuple[str, ...]
    source_fingerprint: str
    covers_from: int
    covers_to: int
    through_sequence: int
    summary_version: int
    policy_version: str
    strategy_version: str
    summary_text: str = field(repr=False)
    state: SummaryState = field(repr=False)
    branch: str = "main"
    source_versions: tuple[int, ...] = ()
    protected_fingerprint: str | None = None
    summariser_bundle: str | None = None
    required_constraint_ids: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    confirmed_facts: tuple[ConfirmedFact, ...] = ()
    citation_ids: tuple[str, ...] = ()
