"""Close the pipe: an accepted plan, or a refusal with what would help (design.md §2, Answers)."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from planner.encoding.control_text import touched_by_content
from planner.encoding.encoder import Encoding
from planner.encoding.guards import Guards
from planner.steps.account import account
from planner.steps.advise import advise
from planner.steps.fit import Fitted
from planner.steps.hidden import Found, found_in_blocks, judge_hidden
from planner.steps.measure import Measured, Measurer
from planner.steps.mode import Handover, check_covered, upstream_messages
from planner.steps.overflow import overflow
from planner.steps.parts import parts_used
from planner.steps.prefix import prefix
from planner.steps.removed import Removed, removed
from planner.steps.seal import Sealing, carriers, forms_used, listed, plan_receipt, refusal_receipt
from planner.steps.window import Resolved
from planner.values.account import Account
from planner.values.plan import Advice, Plan, Refusal
from planner.values.prompt import Counters
from planner.values.reasons import CODES, RefusalSignal, outcome_of
from planner.values.receipt import Dispute
from planner.values.rung import Ladder, Layered
from planner.values.summary import SummaryRecord
from planner.values.turn import Turn


@dataclass(frozen=True, slots=True)
class Answering:
    """Everything an accepted plan is made of."""

    sealing: Sealing
    layered: Layered = field(repr=False)
    steps: Ladder = field(repr=False)
    fitted: Fitted = field(repr=False)
    resolved: Resolved
    guards: Guards = field(repr=False)
    how: Handover
    stripped: tuple[Found, ...] = ()


def refused(
    sealing: Sealing,
    signal: RefusalSignal,
    counters: Counters | None = None,
    *,
    account: Account | None = None,
    missing: int = 0,
    resolved: Resolved | None = None,
    advice: Advice | None = None,
) -> Refusal:
    """Seal a refusal."""
    if advice is None:
        remedy = CODES[signal.reason.partition(":")[0]].remedy
        advice = Advice(concession=signal.concession, notes=(remedy,))
    return Refusal(
        outcome=outcome_of(signal.reason),
        reason=signal.reason,
        detail=signal.detail,
        receipt=refusal_receipt(sealing, signal.reason, account, resolved),
        account=account,
        tokens_missing=missing,
        advice=advice,
        diagnostics=counters.as_dict() if counters is not None else {},
        audit=sealing.admission.audit,
    )


def _compact_at(sealing: Sealing) -> float | None:
    return None if sealing.manifest is None else sealing.manifest.compact_at


def overflowed(sealing: Sealing, measurer: Measurer, last: Measured, resolved: Resolved) -> Refusal:
    """Refuse because what cannot move is too large, naming it and what would help (R29, R30)."""
    found = overflow(measurer, last, resolved.window, measurer.encoder.bundle.manifest)
    figures = None
    if found.measured.encoding is not None and found.measured.encoding.assembled is not None:
        figures = account(found.measured.encoding.assembled, sealing.request, resolved.window)
    signal = RefusalSignal(found.reason, found.detail)
    return refused(
        sealing, signal, measurer.counters, account=figures, missing=found.tokens_missing, advice=found.advice,
        resolved=resolved,
    )  # fmt: skip


def accepted(answering: Answering, counters: Counters) -> Plan:
    """Return the plan of the rung that was found.

    Refuses what its measuring said the template cannot carry, attribution_lost, unmeasured_part, and where the
    runtime reads text itself control_text_in_field and runtime_not_certified.
    """
    sealing, layered, fitted = answering.sealing, answering.layered, answering.fitted
    resolved = answering.resolved
    request, measured = sealing.request, fitted.measured
    if measured.problem is not None:
        problem = measured.problem
        raise RefusalSignal(problem.reason, problem.detail, concession=problem.concession)
    framed, encoding = measured.framed, measured.encoding
    if framed is None or encoding is None or encoding.assembled is None:
        raise AssertionError("a fitting rung without a prompt")
    if encoding.ambiguous:
        raise RefusalSignal("attribution_lost", encoding.ambiguous[0].item)
    assembled = encoding.assembled
    obeyed = assembled.obeyed
    how, rendered = answering.how, encoding.rendered
    if rendered is not None and how.mode != "ids":
        obeyed = touched_by_content(rendered, answering.guards)
        check_covered(how, framed.inputs, rendered.text)
    if obeyed is not None:
        raise RefusalSignal("control_text_in_field", obeyed)
    parts = parts_used(framed.noted, assembled.ids, answering.guards.by_text)
    if parts and how.certificate is not None:
        raise RefusalSignal("runtime_not_certified", f"mode {how.mode}: parts that are no text were not compared")
    figures = account(assembled, request, resolved.window, parts)
    items = listed(layered, measured.selection, framed)
    kept = tuple(map(itemgetter(0), items))
    gone = removed(layered, answering.steps, fitted)
    found = [*framed.hidden, *found_in_blocks(layered, measured.selection)]
    found += [one for one in answering.stripped if one.item in kept and one.form == _form_of(one.item, measured)]
    hidden, hidden_flags = judge_hidden(found, request.options)
    extra = {"kept": kept, "removed": gone.removals, **_extra(answering, encoding, gone)}
    if parts:
        extra |= {"parts": parts, "count_source": "declared"}
    extra |= {"hidden_characters": hidden, "flags": [*extra["flags"], *hidden_flags]}
    receipt = plan_receipt(sealing, figures, framed, assembled, extra)
    return Plan(
        ids=assembled.ids,
        account=figures,
        receipt=receipt,
        kept=kept,
        removed=gone.removals,
        max_output_tokens=resolved.window.most_output(len(assembled.ids)),
        advice=advise(request, layered, len(assembled.ids), resolved.window.budget, _compact_at(sealing)),
        prompt=rendered.text.removeprefix(how.begin) if rendered is not None else None,
        messages=upstream_messages(framed.inputs) if how.mode == "messages" else None,
        spans=tuple(assembled.spans),
        diagnostics=counters.as_dict(),
        file_items=items,
        constraint_ids=tuple(entry.id for entry in layered.constraints),
        carriers=carriers(layered, fitted),
        audit=sealing.admission.audit,
    )


def _form_of(item: str, measured: Measured) -> str:
    """Return the name of the shorter form a passage is shown in, "" where it is none or whole."""
    shown = measured.selection.forms.get(item, ()) if item.startswith("passage/") else ()
    return shown[0][1].name if shown else ""


def _first_kept(fitted: Fitted) -> str | None:
    return next((entry.id for entry in fitted.measured.selection.history if isinstance(entry, Turn)), None)


def _extra(answering: Answering, encoding: Encoding, gone: Removed) -> dict[str, Any]:
    request, fitted, resolved = answering.sealing.request, answering.fitted, answering.resolved
    assembled = encoding.assembled
    if assembled is None or fitted.measured.framed is None:
        raise AssertionError("a fitting rung without a prompt")
    shown: list[SummaryRecord] = []
    if answering.layered.summaries:
        shown = [entry for entry in fitted.measured.selection.history if isinstance(entry, SummaryRecord)]
    flags = list(resolved.flags)
    if answering.layered.summaries and not answering.steps.reach.has_slot:
        flags.append("summary_slot_missing")
    shared = None
    fresh = len(assembled.ids)
    if request.previous is not None:
        shared = prefix(request.previous, assembled.ids, assembled, _first_kept(fitted))
        if shared is None:
            flags.append("no_previous_ids")
        else:
            fresh -= shared.common_tokens
            if shared.broken_by == "template_rewrote":
                flags.append("template_unstable")
        if request.previous.generated_ids is None:
            flags.append("generated_unknown")
    told = {one.key for one in fitted.measured.selection.conflicts}
    disputes = tuple(
        [
            Dispute(one.summary_id, one.fact_id, one.fact_key, one.citation_id, one.key in told)
            for one in answering.layered.disputed
        ]
    )
    if not all(one.explained for one in disputes):
        flags.append("dispute_not_explained")
    return {
        "flags": flags,
        "count_source": answering.how.count_source,
        "defaults": resolved.defaults,
        "prefix": shared,
        "fresh_tokens": fresh,
        "history_reduced": gone.reduced,
        "forms": forms_used(answering.layered, fitted.measured.selection),
        "summaries": gone.summaries,
        "disputes": disputes,
        "neutralised": assembled.neutralised,
        "tool_detail_lost": tuple(leaf.path for leaf in encoding.detail_lost),
        "summary_versions": tuple(f"{entry.id}@{entry.summary_version}" for entry in shown),
        "slot": "user_message" if shown or fitted.measured.selection.has_head else None,
    }
