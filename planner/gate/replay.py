"""Rebuild the input of a recorded call, or name the layer and part that differ or are gone (R186)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.encoding.encoder import Encoder
from planner.gate.checks import immutable_ids
from planner.gate.checks_receipt import digest_of
from planner.pipeline import Job, Stores, run
from planner.steps.admit import admission_of
from planner.steps.answer import refused
from planner.steps.recall import recall
from planner.steps.seal import Sealing
from planner.values.account import Account
from planner.values.bundle import Manifest
from planner.values.check import check_request
from planner.values.digest import withheld_digest
from planner.values.plan import Plan, Refusal
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt
from planner.values.request import PlanRequest
from planner.values.strict_json import load_strict
from planner.values.unsupported import check_supported

LAYERS = {
    "policy": "immutable_policy", "scope": "immutable_policy", "schema": "output_schema", "tool": "tools",
    "constraint": "history", "summary": "summary", "turn": "history", "passage": "retrieval_data",
    "preference": "required_request", "parameter": "required_request", "request": "required_request",
    "conflict": "retrieval_data", "framing": "framing", "notice": "history",
}  # fmt: skip
"""The layer an item's kind stands in, as the plan file writes it (X16)."""
_SENT = frozenset({
    "turn", "summary", "passage", "policy", "scope", "tool", "schema", "preference", "parameter",
})  # fmt: skip
"""Kinds of items that a request brings."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One part that is not as it was: `gone`, `changed`, `added`, or `moved` between kept and removed."""

    layer: str
    part: str
    how: str

    @property
    def line(self) -> str:
        """The difference as one line."""
        return f"{self.layer}: {self.part} {self.how}"


def differences(receipt: Receipt, request: PlanRequest, again: Plan | Refusal, manifest: Manifest) -> list[Difference]:
    """Return why a replay is not the recorded call; none where it has the same ids (or is the same refusal).

    request  what could be rebuilt: turns and summaries that are gone are not in it.
    again    the plan of it, for the bundle that is here now.
    The parts are told apart by their ids and tokens: a receipt holds no text and no digest of single items.
    """
    if same_input(receipt, again):
        return []
    found = list(_identity(receipt, again, manifest))
    found += _gone(receipt, request)
    found += _items(receipt.account, again.account, {one.part for one in found})
    found += _order(receipt, again, {one.part for one in found})
    # Same ids, same tokens, other words: only the digests tell, and they cannot say where.
    return found or [Difference("request", "texts of the same length", "changed")]


def same_input(receipt: Receipt, again: Plan | Refusal) -> bool:
    """Tell whether a replay is the recorded call: the digest of the final input, or a refusal's request and reason.

    The refusal of a request that broke a rule has no digest of it, and nothing shows that it was this one.
    """
    if receipt.final_input_digest is None:
        before, after = (
            (one.request_digest, one.bundle_digest, one.outcome, one.reason) for one in (receipt, again.receipt)
        )
        return isinstance(again, Refusal) and receipt.request_digest is not None and before == after
    return again.receipt.final_input_digest == receipt.final_input_digest


def _identity(receipt: Receipt, again: Plan | Refusal, manifest: Manifest) -> Iterator[Difference]:
    if receipt.bundle_digest != manifest.digest:
        if receipt.template_digest != manifest.template_digest:
            yield Difference("bundle", "template", "changed")
        else:
            yield Difference("bundle", manifest.id, "changed")
    if receipt.planner_version != again.receipt.planner_version:
        yield Difference("planner", receipt.planner_version, "changed")
    if (receipt.outcome, receipt.reason) != (again.receipt.outcome, again.receipt.reason):
        yield Difference("outcome", again.receipt.reason or again.receipt.outcome, "changed")


def plan_withholding(request: PlanRequest, encoder: Encoder, revoked: frozenset[str]) -> Plan | Refusal:
    """Plan a request as its call was: without what its caller withheld, which stands in no request (X39).

    Raises PlannerFault as planning does.
    """
    sealing = Sealing(request, None, None)
    try:
        check_request(request)
        check_supported(request)
        digest = withheld_digest(digest_of(request), revoked)
        request, admission = admission_of(request, request.turns, revoked)
        sealing = Sealing(request, encoder.bundle.manifest, digest, None, admission)
        history = recall(request, revoked=admission.revoked)
    except RefusalSignal as signal:
        return refused(sealing, signal)
    return run(Job(request, history, encoder, sealing, Stores()))


def withheld(audit: bytes) -> frozenset[str]:
    """Return the citation ids of an audit record that its caller withheld; none where it is no such record."""
    try:
        tree = load_strict(audit)
        rows = [(row["check"], row["id"]) for row in tree["excluded"]]
    except (RefusalSignal, KeyError, TypeError):
        return frozenset()
    return frozenset(str(name).partition("/")[2] for check, name in rows if check == "caller")


def known_ids(request: PlanRequest) -> set[str]:
    """List every item that could be in a prompt of this request, as a receipt names it."""
    found = set(immutable_ids(request))
    found |= {f"turn/{turn.id}" for turn in request.turns}
    found |= {f"summary/{one.id}" for one in request.summaries}
    found |= {f"passage/{one.citation_id}" for one in request.passages}
    found |= {f"preference/{one.id}" for one in request.preferences}
    return found


def _gone(receipt: Receipt, request: PlanRequest) -> Iterator[Difference]:
    # The turn of the question itself need not be among the request's turns.
    known = known_ids(request) | {receipt_turn(receipt)}
    for key in receipt.kept:
        kind = key.partition("/")[0]
        if kind in _SENT and key not in known:
            yield Difference(LAYERS[kind], key, "gone")


def receipt_turn(receipt: Receipt) -> str | None:
    """Return the turn that held the request of a recorded call: the last turn among what was kept."""
    turns = [key for key in receipt.kept if key.startswith("turn/")]
    return turns[-1] if turns else None


def _items(before: Account | None, after: Account | None, told: set[str]) -> Iterator[Difference]:
    if before is None or after is None:
        return
    for key in dict.fromkeys((*before.items, *after.items)):
        one, two = before.items.get(key), after.items.get(key)
        if one == two or key in told:
            continue
        how = "moved" if None in (one, two) else "changed"
        yield Difference(LAYERS.get(key.partition("/")[0], "framing"), key, how)


def _order(receipt: Receipt, again: Plan | Refusal, told: set[str]) -> Iterator[Difference]:
    if isinstance(again, Plan) and not told and receipt.kept != again.kept:
        yield Difference("history", "order of the items", "changed")
