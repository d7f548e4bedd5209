"""What a cell of the gate demands of one answer; each rule is judged from the request, not by the planner's word.

A check returns reasons; none means that it holds. The codes stand in `planner/gate/codes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.gate.checks_receipt import check_receipt
from planner.gate.checks_state import check_citations, check_constraints, check_summaries
from planner.gate.plan_file import judge_bytes
from planner.steps.window import resolve_window
from planner.values.bundle import Bundle, Manifest
from planner.values.candidate import Candidate
from planner.values.digest import final_input_digest
from planner.values.gate import Expectation, Reason
from planner.values.plan import Plan, Refusal
from planner.values.request import PlanRequest
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn
from planner.wire.dump import dump_plan_file


def check_answer(
    request: PlanRequest,
    answer: Plan | Refusal,
    expect: Expectation,
    bundle: Bundle,
    candidate: Candidate,
    stale: tuple[SummaryRecord, ...] = (),
) -> list[Reason]:
    """Return every reason why this answer blocks the release (R193).

    stale  summaries that a ledger keeps beside those of the request and holds for no longer current.

    The share of the fixed part is judged within approved tiers alone: a limit made for a test says nothing of it.
    """
    found = [*check_receipt(request, answer, bundle.manifest, candidate), *_outcome(answer, expect)]
    if isinstance(answer, Refusal):
        return found
    return [
        *found,
        *_immutables(request, answer),
        *check_constraints(request, answer, expect),
        *check_summaries(request, answer, stale),
        *check_citations(request, answer),
        *_budget(request, answer, bundle.manifest),
        *_parity(answer, bundle),
        *_structure(answer),
        *_turns(request, answer),
        *_expected(answer, expect),
        *_fixed_cost(request, answer, candidate),
    ]


def _outcome(answer: Plan | Refusal, expect: Expectation) -> Iterator[Reason]:
    outcome = "accepted" if isinstance(answer, Plan) else answer.reason
    receipt = answer.receipt
    if outcome not in expect.outcome or (receipt.reason or receipt.outcome) != outcome:
        yield Reason("outcome_differs", outcome)


def immutable_ids(request: PlanRequest) -> list[str]:
    """List what may never leave a prompt of this request, as a receipt names it (R28)."""
    found = [f"policy/{item.id}" for item in request.policy]
    found += [f"scope/{item.id}" for item in request.data_scope]
    found += [f"tool/{tool.id}" for tool in request.tools]
    if request.output_schema is not None:
        found.append(f"schema/{request.output_schema.id}")
    found += [f"parameter/{item.id}" for item in request.request.required_parameters]
    return found


def _immutables(request: PlanRequest, plan: Plan) -> Iterator[Reason]:
    for key in immutable_ids(request):
        if key not in plan.kept:
            yield Reason("immutable_missing", key)
    if not any(key.startswith("request/") for key in plan.kept):
        yield Reason("immutable_missing", "request")
    gone = {entry.id for entry in plan.removed}
    for key in (*immutable_ids(request), *(key for key in gone if key.startswith(("policy/", "scope/", "request/")))):
        if key in gone:
            yield Reason("immutable_removed", key)


def _budget(request: PlanRequest, plan: Plan, manifest: Manifest) -> Iterator[Reason]:
    account = plan.account
    if len(plan.ids) + account.reserved_output_tokens > account.usable_tokens:
        yield Reason("over_limit", "plan")
    limits = [request.max_input_tokens, manifest.context_tokens]
    limits += [tier.max_input_tokens for tier in manifest.tiers if tier.id == request.tier_id]
    if any(limit is not None and account.input_limit > limit for limit in limits):
        yield Reason("limit_raised", "plan")
    if account.input_tokens != len(plan.ids) or sum(account.items.values()) > len(plan.ids):
        yield Reason("account_differs", "plan")
    if plan.max_output_tokens != resolve_window(request, manifest).window.most_output(len(plan.ids)):
        yield Reason("output_limit_differs", "plan")


def _parity(plan: Plan, bundle: Bundle) -> Iterator[Reason]:
    if plan.receipt.final_input_digest != final_input_digest(bundle.manifest.digest, plan.ids):
        yield Reason("digest_differs", plan.receipt.plan_id)
    # Where content spelled a control token the plain encoder obeys it; the planner's own audit covers those plans.
    if plan.prompt is None or plan.receipt.neutralised:
        return
    if list(bundle.engine.encode_parsed(plan.prompt)) != list(plan.ids):
        yield Reason("parity_mismatch", plan.receipt.plan_id)


def _structure(plan: Plan) -> Iterator[Reason]:
    data = dump_plan_file(plan.plan_file)
    if judge_bytes(data).message is not None or judge_bytes(data, compat=True).message is not None:
        yield Reason("structure_rejected", plan.receipt.plan_id)
    if sum(item.tokens for item in plan.plan_file.items) != len(plan.ids):
        yield Reason("file_differs", plan.receipt.plan_id)
    if not {key for key, _, _ in plan.file_items} <= set(plan.kept) | set(plan.account.items):
        yield Reason("file_differs", plan.receipt.plan_id)


def _turns(request: PlanRequest, plan: Plan) -> Iterator[Reason]:
    """Turns stand whole, in order, never ended ones and never beside a summary that covers them (R47..R52, R205)."""
    by_key = {f"turn/{turn.id}": turn for turn in request.turns}
    kept = [by_key[key] for key in plan.kept if key in by_key]
    sequences = [turn.sequence for turn in kept]
    if sequences != sorted(set(sequences)):
        yield Reason("turns_reordered", "history")
    for turn in kept:
        if turn.state in ("cancelled", "superseded"):
            yield Reason("ended_turn_present", f"turn/{turn.id}")
    covers = [use.covers for use in plan.receipt.summaries if use.fate == "used"]
    covered = [turn for turn in request.turns if any(low <= turn.sequence <= high for low, high in covers)]
    for turn in kept:
        if turn in covered:
            yield Reason("turn_beside_its_summary", f"turn/{turn.id}")
    if not _says_what_is_absent(request, plan, kept, covered):
        yield Reason("reduction_differs", "history")


def _says_what_is_absent(request: PlanRequest, plan: Plan, kept: list[Turn], covered: list[Turn]) -> bool:
    """Tell whether the notice counts every turn that is in the prompt in no form, and its ranges hold no other."""
    spoken = [turn for turn in request.turns if turn.state not in ("cancelled", "superseded")]
    absent = [turn for turn in spoken if turn not in kept and turn not in covered]
    ranges = () if plan.receipt.history_reduced is None else plan.receipt.history_reduced.ranges
    within = [turn for turn in spoken if any(low <= turn.sequence <= high for low, high in ranges)]
    return len(absent) == _reduced(plan) and sorted(t.id for t in within) == sorted(t.id for t in absent)


def _expected(plan: Plan, expect: Expectation) -> Iterator[Reason]:
    for key in expect.kept:
        if key not in plan.kept:
            yield Reason("expected_missing", key)
    for key in expect.absent:
        if key in plan.kept:
            yield Reason("unwanted_present", key)
    fates = {use.id: use.fate for use in plan.receipt.summaries}
    for name, fate in sorted(expect.summaries.items()):
        if fates.get(name) != fate:
            yield Reason("summary_fate_differs", name)
    if expect.reduced is not None and expect.reduced != bool(_reduced(plan)):
        yield Reason("reduction_differs", "history")


def _reduced(plan: Plan) -> int:
    return 0 if plan.receipt.history_reduced is None else plan.receipt.history_reduced.removed


def _fixed_cost(request: PlanRequest, plan: Plan, candidate: Candidate) -> Iterator[Reason]:
    account, caps = plan.account, candidate.caps
    fixed = account.policy_tokens + account.tool_tokens
    if caps.policy is not None and fixed > caps.policy:
        yield Reason("policy_over_cap", "policy")
    if request.tier_id is not None and fixed > caps.fixed_share * account.input_limit:
        yield Reason("fixed_share_over_cap", "policy")
    if caps.fresh is not None and plan.receipt.fresh_tokens is not None and plan.receipt.fresh_tokens > caps.fresh:
        yield Reason("fresh_over_cap", plan.receipt.plan_id)


def reasons_of(results: Sequence[Sequence[Reason]]) -> tuple[Reason, ...]:
    """Return the distinct reasons in the order they first occur."""
    return tuple(dict.fromkeys(reason for row in results for reason in row))
