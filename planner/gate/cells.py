"""One cell of the gate: one sample, planned for one bundle and tier by the code every call goes through (R218).

A cell is a pure function of what its digest covers, so equal cells may be taken from an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from planner.gate.checks import check_answer, reasons_of
from planner.gate.lifecycle import play
from planner.values.bundle import Bundle
from planner.values.candidate import Candidate
from planner.values.digest import PLANNER_VERSION, canonical
from planner.values.gate import Boundary, CellResult, Reason, Sample
from planner.values.plan import Plan, Refusal
from planner.values.reasons import CODES, PlannerFault
from planner.values.request import PlanRequest

Planning = Callable[[PlanRequest], Plan | Refusal]
_ENDLESS = 10**9
_FOR_ROOM = frozenset({"over_budget", "too_large", "beyond_too_large", "replaced_by_summary"})
"""Why something leaves because there is no room; what leaves for another reason leaves from any window."""
AS_ASKED = "as asked"
"""The tier of samples that name their own limit."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A bundle under the gate: its id, its files, the planning function of its planner, and bundles to switch to."""

    bundle_id: str
    bundle: Bundle
    plan: Planning
    others: Mapping[str, Bundle] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is run: a sample, the id and digest of a bundle, a tier, for a candidate."""

    sample: Sample
    bundle_id: str
    bundle_digest: str
    tier: str
    candidate: Candidate

    @property
    def digest(self) -> str:
        """sha256 of everything the result depends on: equal digests have equal results."""
        parts = (self.sample, self.bundle_id, self.bundle_digest, self.tier, self.candidate.candidate_id)
        return sha256(canonical(parts) + PLANNER_VERSION.encode()).hexdigest()


def cells_of(
    samples: Iterable[Sample], bundles: Sequence[tuple[str, str]], tiers: Sequence[str], candidate: Candidate
) -> Iterator[Cell]:
    """Give the cells one by one: samples by bundles by tiers; a sample with its own limit is run once per bundle.

    bundles  (id, digest) of each.
    """
    for sample in samples:
        own = sample.boundary is not None or sample.request.max_input_tokens is not None
        for bundle_id, digest in bundles:
            for tier in (AS_ASKED,) if own or not tiers else tiers:
                yield Cell(sample, bundle_id, digest, tier, candidate)


def run_cell(cell: Cell, subject: Subject) -> CellResult:
    """Run a cell. A bundle that cannot be used blocks it; anything else that is raised is our bug."""
    try:
        return _run(cell, subject)
    except PlannerFault as fault:
        return _result(cell, fault.code, (Reason("bundle_unusable", fault.code),), ())


def _run(cell: Cell, subject: Subject) -> CellResult:
    request = _request(cell, subject)
    if isinstance(request, Refusal):
        return _result(cell, request.reason, (Reason("outcome_differs", request.reason),), [request])
    if request is None:
        return _result(cell, "none", (Reason("sample_too_large", cell.sample.id),), ())
    if cell.sample.events:
        answers, broken = play(cell.sample, request, subject)
        if not answers:
            return _result(cell, "none", (*broken, Reason("lifecycle_broken", "no plan was made")), ())
        judged = [check_answer(one.request, one.answer, one.expect, one.bundle, cell.candidate) for one in answers]
        outcome = answers[-1].answer.receipt.outcome
        return _result(cell, outcome, reasons_of([broken, *judged]), [one.answer for one in answers])
    answer = subject.plan(request)
    found = check_answer(request, answer, cell.sample.expect, subject.bundle, cell.candidate)
    return _result(cell, answer.receipt.reason or answer.receipt.outcome, tuple(dict.fromkeys(found)), [answer])


def _request(cell: Cell, subject: Subject) -> PlanRequest | Refusal | None:
    asked = replace(
        cell.sample.request, model_bundle_id=cell.bundle_id, candidate_id=cell.candidate.candidate_id,
        app_version=cell.candidate.app_version,
    )  # fmt: skip
    if cell.sample.boundary is not None:
        limit = _limit(asked, cell.sample.boundary, subject)
        return replace(asked, max_input_tokens=limit, tier_id=None) if isinstance(limit, int) else limit
    return asked if cell.tier == AS_ASKED else replace(asked, tier_id=cell.tier)


def _limit(request: PlanRequest, boundary: Boundary, subject: Subject) -> int | Refusal | None:
    """Return the limit of a boundary (R38, X3).

    None where the sample never fits whole into the bundle, the refusal where it is refused whatever the room.
    """
    answer = subject.plan(replace(request, max_input_tokens=_ENDLESS, tier_id=None))
    if isinstance(answer, Refusal):
        return None if CODES[answer.reason.partition(":")[0]].outcome == "context_policy_overflow" else answer
    account = answer.account
    cut = {one.reason for one in answer.receipt.removed} & _FOR_ROOM
    if cut:
        return None
    beside = account.reserved_output_tokens + account.safety_margin_tokens
    tokens = {"exact": len(answer.ids), "one_over": len(answer.ids) - 1, "half": len(answer.ids) // 2}
    return tokens[boundary] + beside


def _result(cell: Cell, outcome: str, reasons: tuple[Reason, ...], answers: Sequence[Plan | Refusal]) -> CellResult:
    return CellResult(
        digest=cell.digest,
        sample_id=cell.sample.id,
        family=cell.sample.family,
        bundle_id=cell.bundle_id,
        bundle_digest=cell.bundle_digest,
        tier=cell.tier,
        verdict="block" if reasons else "pass",
        outcome=outcome,
        reasons=reasons,
        account=answers[-1].account if answers else None,
        receipts=tuple(answer.receipt for answer in answers),
    )
