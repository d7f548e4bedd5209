"""Samples, cells and verdicts of the release gate: ids, numbers and reasons; the samples alone hold text (R191)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from planner.values.account import Account
from planner.values.candidate import Evidence, MatrixCell
from planner.values.integration import PlatformCheck
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest

Family = Literal[
    "over_budget", "turn_truncation", "old_summary", "permission_withdrawn", "retrieval_conflict", "lifecycle"
]
FAMILIES: tuple[Family, ...] = get_args(Family)
Boundary = Literal["exact", "one_over", "half"]
Verdict = Literal["pass", "block"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a sample demands of an answer, whatever bundle answers.

    outcome      `accepted`, or the reason of the refusal; several where bundles may rightly differ.
    kept         ids that must be in the prompt, `kind/id` as a receipt writes them.
    absent       ids that must not be.
    constraints  ids that must be live and carried, no more and no fewer; None where the sample says nothing.
    summaries    fate of each summary by id: `used`, or the code for which it was not.
    reduced      whether history must have been cut; None where either is right.
    """

    outcome: tuple[str, ...] = ("accepted",)
    kept: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    constraints: tuple[str, ...] | None = None
    summaries: Mapping[str, str] = field(default_factory=dict)
    reduced: bool | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a lifecycle script: what happens to the app, with its figures as plain JSON."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class WrittenFor:
    """What a sample was written for, as `candidate.json` spells it; None where the sample says nothing of it.

    A request holds neither digests of an app's files nor the versions it gives them, so only the sample can tell.
    """

    template_version: str | None = None
    tool_set_digest: str | None = None
    summary_schema_version: str | None = None
    hardening_digest: str | None = None
    policy_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One test of the gate, for every bundle and tier.

    boundary  the limit is set to exactly what everything together needs on a bundle, to one token less, or so that
              half of the prompt's tokens fit: a sample then means the same for every tokenizer.
    events    a lifecycle script; `request` is then what each plan of it asks.
    written_for  versions and digests that the candidate must state too, where the sample says them.
    """

    id: str
    family: Family
    request: PlanRequest
    expect: Expectation = Expectation()
    boundary: Boundary | None = None
    events: tuple[Event, ...] = ()
    written_for: WrittenFor = WrittenFor()
    schema_version: str = "1.0"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something blocks: a code of the gate's table and the id it is about, never a text."""

    code: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One sample on one bundle and tier. `digest` is of everything it depends on, so that equal cells are reused.

    compared  fields of the candidate that bundle or sample state too, by their names on the wire.
    """

    digest: str
    sample_id: str
    family: Family
    bundle_id: str
    bundle_digest: str
    tier: str
    verdict: Verdict
    outcome: str
    reasons: tuple[Reason, ...] = ()
    account: Account | None = None
    receipts: tuple[Receipt, ...] = field(default=(), repr=False)
    compared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was run: samples per family and bundle, tiers, and cells of the matrix that nothing was run in (R209).

    targets  how many cells the matrix has; with none, nothing is said about any device (R211).
    """

    families: Mapping[str, int]
    bundles: tuple[str, ...]
    tiers: tuple[str, ...]
    uncovered: tuple[MatrixCell, ...] = ()
    targets: int = 0


@dataclass(frozen=True, slots=True)
class GateResult:
    """The verdict over one candidate (R193, R194). `reused` cells were taken from an earlier run by their digest.

    unlisted     reasons of cells beyond those that are listed; the results hold them.
    compared     in how many cells bundle or sample state a field of the candidate too, and it was compared.
    integration  the platforms that somebody looked at again, and what they looked at there (R213).
    """

    candidate_id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    cells: int
    blocked: int
    reused: int
    coverage: Coverage
    evidence: tuple[Evidence, ...]
    claim: str
    integration: tuple[PlatformCheck, ...] = ()
    unlisted: int = 0
    compared: Mapping[str, int] = field(default_factory=dict)
    schema_version: str = "1.0"
