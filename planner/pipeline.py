"""One plan, one screen: recall -> layer -> ladder -> fit -> account -> seal (design.md §2).

Every step is pure over frozen values; a refusal leaves at once and is sealed like a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from planner.encoding.encoder import Encoder, Encoding
from planner.encoding.tracked import own
from planner.steps.account import account
from planner.steps.audit import audit
from planner.steps.control_text import refuse_control_text
from planner.steps.fit import Fitted, fit
from planner.steps.frame_turn import Framing
from planner.steps.ladder import ladder
from planner.steps.layer import layer
from planner.steps.measure import FrameStore, Measured, Measurer, make_measurer
from planner.steps.overflow import overflow
from planner.steps.seal import (
    Sealing,
    file_items,
    kept_ids,
    plan_receipt,
    prefix,
    refusal_receipt,
    removals,
)
from planner.steps.sizes import Sizes, SizeStore
from planner.steps.splice import FrozenStore
from planner.steps.sticky import lower
from planner.steps.window import Resolved, resolve_window
from planner.values.account import Account
from planner.values.passage import Passage
from planner.values.plan import Advice, Plan, Refusal
from planner.values.prompt import Counters
from planner.values.reasons import RefusalSignal, outcome_of
from planner.values.receipt import HistoryReduced, Removal
from planner.values.request import PlanRequest
from planner.values.rung import History, Ladder, Layered
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


@dataclass(slots=True)
class Stores:
    """What a growing conversation remembers between plans: framed turns and their sizes."""

    framed: FrameStore = field(default_factory=FrameStore)
    carried: FrameStore = field(default_factory=FrameStore)
    sizes: SizeStore = field(default_factory=SizeStore)
    frozen: FrozenStore = field(default_factory=FrozenStore)

    def forget(self, turn_id: str) -> None:
        """Drop what is known of a turn that has a newer version."""
        self.framed.turns.pop(turn_id, None)
        self.carried.turns.pop(turn_id, None)
        self.sizes.turns.pop(turn_id, None)
        self.frozen.turns.pop(turn_id, None)


@dataclass(frozen=True, slots=True)
class Job:
    """One planning call: the request, its history, the bundle's encoder, and stores that may outlive it."""

    request: PlanRequest
    history: History
    encoder: Encoder
    sealing: Sealing
    stores: Stores
    summaries: tuple[SummaryRecord, ...] = ()


def run(job: Job) -> Plan | Refusal:
    """Answer one request. Raises PlannerFault for a bundle that cannot be used; anything else is our bug."""
    counters = Counters()
    try:
        return _plan(job, counters)
    except RefusalSignal as signal:
        return refuse(job.sealing, signal, counters)


def refuse(
    sealing: Sealing,
    signal: RefusalSignal,
    counters: Counters | None = None,
    *,
    account: Account | None = None,
    missing: int = 0,
    advice: Advice | None = None,
) -> Refusal:
    """Seal a refusal."""
    if advice is None:
        advice = Advice(concession=signal.concession)
    return Refusal(
        outcome=outcome_of(signal.reason),
        reason=signal.reason,
        detail=signal.detail,
        receipt=refusal_receipt(sealing, signal.reason, account, ()),
        account=account,
        tokens_missing=missing,
        advice=advice,
        diagnostics=counters.as_dict() if counters is not None else {},
    )


def _plan(job: Job, counters: Counters) -> Plan | Refusal:
    request, encoder = job.request, job.encoder
    manifest = encoder.bundle.manifest
    resolved = resolve_window(request, manifest)
    _refuse_unknown_options(request, encoder.bundle.profile.options)
    layered = layer(request, job.history, job.summaries)
    measurer = _measurer(job, layered, counters)
    sizes = Sizes(measurer, job.stores.sizes)
    byte_limit = _byte_limit(resolved, manifest.longest_token_bytes)
    _refuse_huge(layered, byte_limit)
    start, gone_through = sizes.horizon(resolved.window.budget, byte_limit)
    passages = tuple(p for p in layered.passages if byte_limit is None or len(p.text.encode()) <= byte_limit)
    steps = ladder(
        layered, request.options, sizes.item, start=start, gone_through=gone_through, passages=passages,
        gone=_gone(layered, passages),
    )  # fmt: skip
    fitted = fit(
        steps, layered, sizes, resolved.window.budget, measurer.measure, passages=passages, start=start
    )
    if not fitted.fits:
        return _overflowed(job, measurer, fitted.measured, resolved, counters)
    fitted = lower(fitted, steps, layered, sizes, request, resolved.window.budget, measurer.measure, passages)
    if encoder.audit_due():
        fitted = replace(fitted, measured=audit(fitted.measured, measurer))
    if counters.speed != "spliced":
        sizes.refresh(fitted.measured)
    return _seal(job, layered, steps, fitted, resolved, counters)


def _measurer(job: Job, layered: Layered, counters: Counters) -> Measurer:
    allowed = {*job.request.options.concessions, *job.encoder.bundle.manifest.concessions}
    framing = Framing(job.encoder.bundle.profile, frozenset(allowed), own)
    stores = (job.stores.framed, job.stores.carried, job.stores.frozen)
    return make_measurer(job.encoder, layered, framing, job.request, counters, stores)


def _refuse_unknown_options(request: PlanRequest, known: tuple[str, ...]) -> None:
    if any(name not in known for name in request.template_options):
        raise RefusalSignal("invalid-input", "$.templateOptions: a switch the template does not read")


def _byte_limit(resolved: Resolved, longest_token_bytes: int | None) -> int | None:
    return None if longest_token_bytes is None else resolved.window.total * longest_token_bytes


def _refuse_huge(layered: Layered, byte_limit: int | None) -> None:
    """Refuse required text that could not fit however it is encoded, before it is encoded (threats.md §2.4)."""
    if byte_limit is None:
        return
    for kind, items in (("policy", layered.policy), ("scope", layered.data_scope)):
        for item in items:
            if len(item.text.encode("utf-8", "surrogatepass")) > byte_limit:
                raise RefusalSignal("input_too_large", f"{kind}/{item.id}")
    for message in layered.open_turn.messages:
        words = message.words().strip()
        if "<" not in words and len(words.encode("utf-8", "surrogatepass")) > byte_limit:
            raise RefusalSignal("input_too_large", f"turn {layered.open_turn.id}")


def _gone(layered: Layered, passages: tuple[Passage, ...]) -> tuple[Removal, ...]:
    kept = {passage.citation_id for passage in passages}
    return tuple(
        Removal(f"passage/{passage.citation_id}", "too_large")
        for passage in layered.passages
        if passage.citation_id not in kept
    )


def _overflowed(
    job: Job, measurer: Measurer, last: Measured, resolved: Resolved, counters: Counters
) -> Refusal:
    found = overflow(measurer, last, resolved.window, job.encoder.bundle.manifest)
    figures = None
    if found.measured.encoding is not None and found.measured.encoding.assembled is not None:
        figures = account(found.measured.encoding.assembled, job.request, resolved.window)
    signal = RefusalSignal(found.reason, found.detail)
    return refuse(
        job.sealing, signal, counters, account=figures, missing=found.tokens_missing, advice=found.advice
    )


def _seal(
    job: Job, layered: Layered, steps: Ladder, fitted: Fitted, resolved: Resolved, counters: Counters
) -> Plan | Refusal:
    request, measured = job.request, fitted.measured
    if measured.problem is not None:
        problem = measured.problem
        raise RefusalSignal(problem.reason, problem.detail, concession=problem.concession)
    framed, encoding = measured.framed, measured.encoding
    if framed is None or encoding is None or encoding.assembled is None:
        raise AssertionError("a fitting rung without a prompt")
    if encoding.ambiguous:
        raise RefusalSignal("attribution_lost", encoding.ambiguous[0].item)
    if encoding.rendered is not None and request.options.mode == "text":
        refuse_control_text(encoding.rendered, job.encoder.guards)
    assembled = encoding.assembled
    figures = account(assembled, request, resolved.window)
    kept = kept_ids(layered, fitted, framed)
    removed, reduced = removals(layered, steps, fitted)
    receipt = plan_receipt(
        job.sealing, figures, framed, assembled, kept, removed,
        _extra(job, fitted, encoding, resolved, reduced),
    )  # fmt: skip
    room = resolved.window.budget - len(assembled.ids)
    return Plan(
        ids=assembled.ids,
        account=figures,
        receipt=receipt,
        kept=kept,
        removed=removed,
        max_output_tokens=resolved.window.reserved + max(0, room),
        prompt=encoding.rendered.text if encoding.rendered is not None else None,
        spans=tuple(assembled.spans),
        diagnostics=counters.as_dict(),
        file_items=file_items(fitted, framed, kept),
    )


def _kept_turns(fitted: Fitted) -> list[Turn]:
    return [entry for entry in fitted.measured.selection.history if isinstance(entry, Turn)]


def _extra(
    job: Job, fitted: Fitted, encoding: Encoding, resolved: Resolved, reduced: HistoryReduced | None
) -> dict[str, Any]:
    request = job.request
    assembled = encoding.assembled
    if assembled is None or fitted.measured.framed is None:
        raise AssertionError("a fitting rung without a prompt")
    turns = _kept_turns(fitted)
    flags = list(resolved.flags)
    shared = None
    fresh = len(assembled.ids)
    if request.previous is not None:
        shared = prefix(request.previous, assembled.ids, assembled, turns[0].id if turns else None)
        if shared is None:
            flags.append("no_previous_ids")
        else:
            fresh -= shared.common_tokens
        if request.previous.generated_ids is None:
            flags.append("generated_unknown")
    shown = [e for e in fitted.measured.selection.history if isinstance(e, SummaryRecord)]
    return {
        "flags": flags,
        "defaults": resolved.defaults,
        "prefix": shared,
        "fresh_tokens": fresh,
        "history_reduced": reduced,
        "neutralised": assembled.neutralised,
        "tool_detail_lost": tuple(leaf.path for leaf in encoding.detail_lost),
        "summary_versions": tuple(f"{entry.id}@{entry.summary_version}" for entry in shown),
        "slot": "user_message" if shown else None,
    }
