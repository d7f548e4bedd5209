"""One cell of the gate: one sample, planned for one bundle and tier by the code every call goes through (R218).

A cell is a pure function of what its digest covers, so equal cells may be taken from an earlier run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from planner.gate.checks import check_answer, reasons_of
from planner.gate.identity import check_identity
from planner.gate.lifecycle import play
from planner.gate.limits import AS_ASKED, Planning, has_own_limit, request_of
from planner.values.bundle import Bundle, Manifest
from planner.values.candidate import Candidate
from planner.values.digest import PLANNER_VERSION, canonical
from planner.values.gate import CellResult, Reason, Sample
from planner.values.plan import Plan, Refusal
from planner.values.reasons import PlannerFault
from planner.values.request import PlanRequest


@dataclass(frozen=True, slots=True)
class Subject:
    """A bundle under the gate: its id, its files, the planning function of its planner, and bundles to switch to."""

    bundle_id: str
    bundle: Bundle
    plan: Planning
    others: Mapping[str, Bundle] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is run: a sample, the id and digest of a bundle, a tier, for a candidate; `limits` is the bundle's own."""

    sample: Sample
    bundle_id: str
    bundle_digest: str
    tier: str
    candidate: Candidate
    limits: str = ""

    @property
    def digest(self) -> str:
        """sha256 of everything the result depends on: equal digests have equal results."""
        parts = (_once(self.sample), self.bundle_id, self.bundle_digest, self.tier, _once(self.candidate), self.limits)
        return sha256(canonical(parts) + PLANNER_VERSION.encode()).hexdigest()


_last: dict[type, tuple[object, str]] = {}


def _once(value: Sample | Candidate) -> str:
    """Return the digest of a sample or candidate; cells come in runs of one, and most of their time went into it."""
    known = _last.get(type(value))
    if known is None or known[0] is not value:
        known = value, value.candidate_id if isinstance(value, Candidate) else sha256(canonical(value)).hexdigest()
        _last[type(value)] = known
    return known[1]


def cells_of(
    samples: Iterable[Sample],
    bundles: Sequence[tuple[str, str]],
    tiers: Sequence[str],
    candidate: Candidate,
    manifests: Mapping[str, Manifest] | None = None,
) -> Iterator[Cell]:
    """Give the cells one by one: samples by bundles by tiers; a sample with its own limit is run once per bundle.

    bundles    (id, digest) of each.
    manifests  of the bundles by id: a tier that one does not approve is not run on it, and limits that changed make
               other cells. None: all tiers are run on all bundles.
    """
    there = {bundle_id: tiers for bundle_id, _ in bundles}
    limits = dict.fromkeys(there, "")
    for bundle_id, manifest in (manifests or {}).items():
        approved = {tier.id for tier in manifest.tiers}
        there[bundle_id] = [tier for tier in tiers if tier in approved]
        limits[bundle_id] = limits_digest(manifest)
    for sample in samples:
        own = has_own_limit(sample)
        for bundle_id, digest in bundles:
            for tier in (AS_ASKED,) if own or not there[bundle_id] else there[bundle_id]:
                yield Cell(sample, bundle_id, digest, tier, candidate, limits[bundle_id])


def limits_digest(manifest: Manifest) -> str:
    """Return the digest of what a manifest states beside its digest and what a plan or its receipt depends on."""
    stated = (
        manifest.context_tokens, manifest.tiers, manifest.reserved_output_tokens, manifest.safety_margin_tokens,
        manifest.compact_at, manifest.template_version, manifest.app_versions, manifest.template_fallback,
    )  # fmt: skip
    return sha256(canonical(stated)).hexdigest()


def run_cell(cell: Cell, subject: Subject) -> CellResult:
    """Run a cell. A bundle that cannot be used blocks it; anything else that is raised is our bug."""
    try:
        if cell.bundle_digest != subject.bundle.manifest.digest:
            # Its files changed since the run began, or a worker opened others.
            raise PlannerFault("bundle_mismatch", "the bundle is not the one of the cell")
        return _identified(_run(cell, subject), cell, subject.bundle.manifest)
    except PlannerFault as fault:
        return _result(cell, fault.code, (Reason("bundle_unusable", fault.code),), ())


def _identified(result: CellResult, cell: Cell, manifest: Manifest) -> CellResult:
    """Return a result with what the candidate's versions and digests were compared with, and where they differ."""
    found = dict(check_identity(cell.candidate, cell.sample, manifest))
    reasons = (*(reason for reason in found.values() if reason is not None), *result.reasons)
    return replace(result, verdict="block" if reasons else "pass", reasons=reasons, compared=tuple(found))


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
        judged = [
            check_answer(one.request, one.answer, one.expect, one.bundle, cell.candidate, one.stale) for one in answers
        ]
        outcome = answers[-1].answer.receipt.outcome
        return _result(cell, outcome, reasons_of([broken, *judged]), [one.answer for one in answers])
    answer = subject.plan(request)
    found = check_answer(request, answer, cell.sample.expect, subject.bundle, cell.candidate)
    return _result(cell, answer.receipt.reason or answer.receipt.outcome, tuple(dict.fromkeys(found)), [answer])


def _request(cell: Cell, subject: Subject) -> PlanRequest | Refusal | None:
    return request_of(
        cell.sample, cell.tier, subject.plan, model_bundle_id=cell.bundle_id,
        candidate_id=cell.candidate.candidate_id, app_version=cell.candidate.app_version,
    )  # fmt: skip


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
