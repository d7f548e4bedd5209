"""Compare what a runtime reported with the plan (X60, peers.md T13, field-notes.md M5)."""

from __future__ import annotations

from planner.values.account import Account, wire_field
from planner.values.field_rules import invalid, is_whole
from planner.values.observation import Observation, Reported, Verdict
from planner.values.reasons import RefusalSignal
from planner.values.receipt import Receipt
from planner.values.runtime import Meaning, ValidWhen


def observe(receipt: Receipt, reported: Reported, meaning: Meaning, when: ValidWhen = "always") -> Observation:
    """Return what a report says about the plan of a receipt.

    meaning, when  what the runtime's count counts, and at which moment it does: the profile's, or learned.
    A count of a known meaning that lacks a figure beside it is not comparable, unless it is out of bounds even so.
    Raises RefusalSignal invalid-input for figures that are no counts and for the receipt of a refusal.
    """
    check_reported(reported)
    if receipt.account is None or receipt.final_input_digest is None or receipt.bundle_digest is None:
        raise RefusalSignal("invalid-input", "$.receipt: is of no plan")
    sent = receipt.account.input_tokens
    planned = sent + receipt.account.runtime_overhead_tokens
    prompt: int | None = None
    verdict: Verdict = "not_comparable"
    if when not in ("always", reported.moment):
        cause = "other_moment"
    elif (prompt := prompt_tokens(reported, meaning)) is None:
        verdict = _out_of_bounds(reported, meaning, receipt.account)
        cause = "meaning_unknown" if meaning == "unknown" else "figures_missing"
    elif receipt.count_source == "upper_bound" and prompt < planned:
        cause = "upper_bound"  # says nothing about a prompt below it
    else:
        verdict, cause = _verdict(sent, planned, prompt), ""
    return _made(receipt, reported, meaning, verdict, (planned, prompt, cause))


def prompt_tokens(reported: Reported, meaning: Meaning) -> int | None:
    """Return how long the prompt was by a report, None where the meaning or a figure beside it is not known.

    >>> prompt_tokens(Reported(40, output_tokens=8), "session_with_output"), prompt_tokens(Reported(40), "unknown")
    (32, None)
    """
    cached, output, thought = reported.cached_tokens, reported.output_tokens, reported.reasoning_tokens
    if meaning == "whole_prompt":
        return reported.tokens
    if meaning == "prefilled_now" and cached is not None:
        return reported.tokens + cached
    if meaning == "session_with_output" and output is not None:
        return reported.tokens - output
    if meaning == "session_with_reasoning" and output is not None and thought is not None:
        return reported.tokens - output - thought
    return None


def check_reported(reported: Reported) -> None:
    """Refuse figures that are no counts. Raises RefusalSignal invalid-input."""
    for name in ("tokens", "cached_tokens", "output_tokens", "reasoning_tokens"):
        value = getattr(reported, name)
        if not (is_whole(value) or (value is None and name != "tokens")):
            invalid(f"$.reported.{wire_field(name)}", "expected a whole number")


def _verdict(sent: int, planned: int, prompt: int) -> Verdict:
    if prompt == planned:
        return "exact"
    return "runtime_truncated" if prompt < sent else "drift"


def _out_of_bounds(reported: Reported, meaning: Meaning, account: Account) -> Verdict:
    """Judge a count whose other figures are missing: what is processed now is never more than the prompt, and a
    session never holds less."""
    if meaning == "prefilled_now" and reported.tokens > account.input_tokens + account.runtime_overhead_tokens:
        return "drift"
    if meaning in ("session_with_output", "session_with_reasoning") and reported.tokens < account.input_tokens:
        return "runtime_truncated"
    return "not_comparable"


def _made(
    receipt: Receipt, reported: Reported, meaning: Meaning, verdict: Verdict, figures: tuple[int, int | None, str]
) -> Observation:
    planned, prompt, cause = figures
    return Observation(
        plan_id=receipt.plan_id,
        verdict=verdict,
        planned_tokens=planned,
        reported_tokens=reported.tokens,
        prompt_tokens=prompt,
        meaning=meaning,
        model_bundle_id=receipt.model_bundle_id,
        bundle_digest=receipt.bundle_digest or "",
        runtime=receipt.runtime,
        runtime_version=receipt.runtime_version,
        generation=receipt.generation,
        conversation_id=receipt.conversation_id,
        candidate_id=receipt.candidate_id,
        cause=cause if verdict == "not_comparable" else "",
        reason="runtime_mismatch" if verdict in ("runtime_truncated", "drift") else None,
        evidence="simulated" if reported.simulated else "executed",
    )
