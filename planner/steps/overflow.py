"""Name what cannot move when nothing fits, and what would help (R29, R30, X31, X33)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.steps.drop import smallest_drop
from planner.steps.forms import result_name
from planner.steps.ladder import carried
from planner.steps.measure import Measured, Measurer
from planner.steps.window import ceiling, is_valid
from planner.values.bundle import Manifest
from planner.values.plan import Advice
from planner.values.window import Window


@dataclass(frozen=True, slots=True)
class Overflow:
    """The finer code, its text-free detail, tokens missing, and the measured rung that says so."""

    reason: str
    detail: str
    tokens_missing: int
    measured: Measured
    advice: Advice


def overflow(measurer: Measurer, last: Measured, window: Window, manifest: Manifest) -> Overflow:
    """Tell which part alone is too large: first disputes and pinned evidence, without which the rest would fit.

    Policy with carried constraints, tools and request; the open turn; protected turns; or raw history that nothing
    may stand for: a named tail, eviction forbidden, constraints without a text, open items no summary echoes.
    """
    room, layered = window.budget, measurer.layered
    blamed = _pinned_evidence(measurer, last, room)
    if blamed is not None:
        missing = last.tokens - room
        advice = Advice(tiers=_tiers(last, window, manifest, measurer.framer.now), notes=_NOTES[blamed[0]])
        return Overflow(blamed[0], f"{blamed[1]}: {missing} tokens are missing", missing, last, advice)
    alone = replace(last.selection, history=(), passages=(), conflicts=())
    request_only = measurer.first_message_only().measure(replace(alone, forms={}))
    open_turn = measurer.measure(alone)
    if request_only.tokens > room:
        reason, found = "context_policy_overflow", request_only
    elif open_turn.tokens > room:
        reason, found = "open_turn_overflow", open_turn
    else:
        protected = tuple(layered.history.turns[index] for index in layered.history.pinned)
        reason, found = "protected_history_overflow", last
        if len(protected) < len(last.selection.history):
            kept = replace(alone, history=protected, constraints=carried(layered, protected))
            only_protected = measurer.measure(kept)
            if only_protected.tokens <= room:
                reason = "raw_history_overflow"
            else:
                found = only_protected
    missing = found.tokens - room
    # All that cannot move must fit, not only the part that is named.
    tiers = _tiers(last, window, manifest, measurer.framer.now)
    detail = f"what cannot move needs {found.tokens} tokens, the budget is {room}, {missing} are missing"
    if reason == "open_turn_overflow":
        detail += _largest_result(measurer, last)
    droppable = smallest_drop(measurer, last, room)
    return Overflow(reason, detail, missing, found, Advice(tiers=tiers, droppable=droppable, notes=_NOTES[reason]))


def _pinned_evidence(measurer: Measurer, last: Measured, room: int) -> tuple[str, str] | None:
    """Return code and ids where the last rung would fit without explained disputes, or without pinned passages.

    Only ids of the caller's own groups are named, or none.
    """
    layered, selection = measurer.layered, last.selection
    if selection.conflicts:
        supported = tuple(one for one in selection.passages if one.citation_id in layered.required)
        if measurer.measure(replace(selection, conflicts=(), passages=supported)).tokens <= room:
            one = selection.conflicts[0]
            return "conflict_unexplained", f"fact {one.fact_key} of summary {one.summary_id}"
    if selection.passages and measurer.measure(replace(selection, conflicts=(), passages=())).tokens <= room:
        named = {name for group in layered.request.evidence_groups for name in group}
        return "insufficient_evidence", ", ".join(sorted(layered.required & named)) or "the required citation"
    return None


def _tiers(last: Measured, window: Window, manifest: Manifest, now: str | None) -> tuple[str, ...]:
    need = last.tokens + window.total - window.budget
    context, most = manifest.context_tokens, ceiling(manifest)
    return tuple(
        tier.id
        for tier in manifest.tiers
        if tier.max_input_tokens >= need
        and (context is None or tier.max_input_tokens <= context)
        and (most is None or most >= need)
        and is_valid(tier, now)
    )


def _largest_result(measurer: Measurer, last: Measured) -> str:
    """Name the largest result of the open turn as it stands in its smallest forms, with its tokens alone."""
    best, most = "", 0
    for message in last.selection.shown(measurer.layered.open_turn).messages:
        tokens = 0
        if message.tool_result is not None and message.accepted:
            tokens = measurer.encoder.alone(message.words(), measurer.counters)
        if tokens > most:
            best, most = result_name(message), tokens
    return f"; its largest result is {best} with {most}" if best else ""


_NOTES = {
    "insufficient_evidence": ("retrieve again", "narrow the question", "use a larger approved tier"),
    "conflict_unexplained": ("resolve the disputed fact", "narrow the question", "use a larger approved tier"),
    "context_policy_overflow": ("narrow the task", "use a larger approved tier"),
    "open_turn_overflow": ("close the turn at a safe point", "page or shorten tool results"),
    "protected_history_overflow": ("resolve pending items",),
    "raw_history_overflow": (
        "pause the call until open items are resolved",
        "narrow the task, or lower the tail by hand",
        "compact again, more conservatively",
    ),
}
