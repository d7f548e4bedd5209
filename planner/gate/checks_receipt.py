"""A receipt against what it is about: bundle, candidate, request and the answer it came with (R185, R192, R194)."""

from __future__ import annotations

from collections.abc import Iterator

from planner.values.bundle import Manifest
from planner.values.candidate import Candidate
from planner.values.check import check_request
from planner.values.digest import PLANNER_VERSION, chain_of, digest, request_digest
from planner.values.gate import Reason
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest
from planner.values.unsupported import check_supported

_OF_REQUEST = ("policy_version", "generation", "revision", "conversation_id", "now")
_OF_MANIFEST = ("template_entry", "template_version", "template_digest")


def check_receipt(
    request: PlanRequest, answer: Plan | Refusal, manifest: Manifest, candidate: Candidate
) -> Iterator[Reason]:
    """Give every reason why a receipt does not belong to this answer, bundle and candidate."""
    receipt = answer.receipt
    name = receipt.plan_id
    if receipt.candidate_id != candidate.candidate_id or receipt.app_version != candidate.app_version:
        yield Reason("receipt_of_other_candidate", name)
    if not is_counted(receipt):
        yield Reason("count_not_exact", name)
    if receipt.request_digest is None and isinstance(answer, Refusal) and _breaks_a_rule(request):
        # Such a request has no digest, so there is nothing that the header could be compared with.
        return
    others = [getattr(receipt, field) != getattr(manifest, field) for field in _OF_MANIFEST]
    if receipt.bundle_digest != manifest.digest or receipt.model_bundle_id != request.model_bundle_id or any(others):
        yield Reason("receipt_of_other_bundle", name)
    if plan_id_of(receipt) != name or receipt.planner_version != PLANNER_VERSION:
        yield Reason("plan_id_differs", name)
    header = [getattr(receipt, field) == getattr(request, field) for field in _OF_REQUEST]
    same = receipt.mode == request.options.mode and receipt.request_digest == digest_of(request)
    if not (same and all(header)):
        yield Reason("request_differs", name)
    if receipt.account != answer.account:
        yield Reason("account_differs", name)
    if isinstance(answer, Plan):
        yield from _lists(answer)


def is_counted(receipt: Receipt) -> bool:
    """Tell whether a receipt's count is that of its ids; parts that are no text are in it as the bundle declares them.

    What only a runtime counted needs a table of those counts, and none is read here: it does not pass.
    """
    return receipt.count_source == ("declared" if receipt.parts else "exact")


def _breaks_a_rule(request: PlanRequest) -> bool:
    try:
        check_request(request)
        check_supported(request)
    except RefusalSignal:
        return True
    return False


def digest_of(request: PlanRequest) -> str:
    """Return the digest of a request that holds its turns."""
    return request_digest(request, chain_of(sorted(request.turns, key=lambda turn: turn.sequence)).value())


def plan_id_of(receipt: Receipt) -> str:
    """Return the id that planner, bundle and request of a receipt come to (R44)."""
    text = f"{receipt.planner_version}\0{receipt.bundle_digest or ''}\0{receipt.request_digest}"
    return "p-" + digest(text.encode())[:32]


def _lists(plan: Plan) -> Iterator[Reason]:
    receipt = plan.receipt
    if receipt.kept != plan.kept or len(set(plan.kept)) != len(plan.kept):
        yield Reason("kept_differs", receipt.plan_id)
    if receipt.removed != plan.removed or {entry.id for entry in plan.removed} & set(plan.kept):
        yield Reason("removed_differs", receipt.plan_id)
    used = {f"{use.id}@{use.version}" for use in receipt.summaries if use.fate == "used"}
    shown = {key for key in plan.kept if key.startswith("summary/")}
    if used != set(receipt.summary_versions) or {f"summary/{one.partition('@')[0]}" for one in used} != shown:
        yield Reason("summary_versions_differ", receipt.plan_id)
