"""Resolve the limit of one plan: tier, context, reserve and margin, with every default named (design.md §2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from planner.values.bundle import Manifest, Tier
from planner.values.reasons import RefusalSignal
from planner.values.request import PlanRequest
from planner.values.runtime import Runtime
from planner.values.window import Window

DEFAULT_RESERVED_TOKENS = 512
DEFAULT_MARGIN_TOKENS = 1


@dataclass(frozen=True, slots=True)
class Resolved:
    """The window, the defaults that were taken (wire names to values), and flags for the receipt."""

    window: Window
    defaults: dict[str, int]
    flags: tuple[str, ...]


def resolve_window(request: PlanRequest, manifest: Manifest) -> Resolved:
    """Return the smallest of request, tier and context (R46: never a larger one).

    Refuses invalid-input for a tier of another bundle, a limit that leaves nothing beside the reserve, or no limit
    at all where the bundle states none; tier_not_valid for a tier whose validity has ended, and where no limit is
    asked for and no approved tier is valid: the context behind the tiers was never approved; runtime_limit where
    the runtime's own rules leave no room.
    """
    defaults: dict[str, int] = {}
    reserved = request.reserved_output_tokens
    if reserved is None:
        reserved = manifest.reserved_output_tokens
        reserved = DEFAULT_RESERVED_TOKENS if reserved is None else reserved
        defaults["reservedOutputTokens"] = reserved
    margin = request.safety_margin_tokens
    if margin is None:
        margin = max(1, manifest.safety_margin_tokens or DEFAULT_MARGIN_TOKENS)
        defaults["safetyMarginTokens"] = margin
    limits = [limit for limit in (request.max_input_tokens, _tier(request, manifest)) if limit is not None]
    asked = bool(limits)
    if not asked and manifest.tiers:
        valid = [tier.max_input_tokens for tier in manifest.tiers if is_valid(tier, request.now)]
        if not valid:
            raise RefusalSignal("tier_not_valid", "$.tierId: absent, and no approved tier is valid")
        limits.append(max(valid))
    most = ceiling(manifest)
    if most is not None:
        limits.append(most)
    if not limits:
        raise RefusalSignal("invalid-input", "$.maxInputTokens: absent, and the bundle states no context")
    total = min(limits)
    if not asked or total != request.max_input_tokens:
        defaults["maxInputTokens"] = total
    if total <= reserved:
        if total == most and manifest.runtime is not None:
            raise RefusalSignal("runtime_limit", f"the runtime's window of {total} is not greater than the reserve")
        raise RefusalSignal("invalid-input", "$.maxInputTokens: not greater than the reserved output")
    window = Window(total, reserved, margin)
    if manifest.runtime is not None:
        window = _in_runtime(window, manifest.runtime, known=most is not None)
    return Resolved(window, defaults, _flags(manifest))


def ceiling(manifest: Manifest) -> int | None:
    """Return the most tokens prompt and output may have together: the context, or what its runtime gives of it.

    None where nobody states a window. Another runtime's figures are never looked at (R173).
    """
    runtime = manifest.runtime
    if runtime is None:
        return manifest.context_tokens
    slot = runtime.slot_tokens(manifest.context_tokens)
    given = [] if slot is None else [slot - runtime.profile.kept_back_tokens]
    if runtime.profile.total_limit is not None:
        given.append(runtime.profile.total_limit)
    return min(given, default=None)


def _in_runtime(window: Window, runtime: Runtime, *, known: bool) -> Window:
    """Return the window with the runtime's own rules in it.

    known  whether a window of the runtime is; without it the request's own limit is taken for the runtime's.
    Refuses runtime_limit where its least prefill or its most output cannot be met (peers.md T20).
    """
    profile = runtime.profile
    if profile.output_limit is not None and window.reserved > profile.output_limit:
        raise RefusalSignal(
            "runtime_limit", f"{window.reserved} tokens are reserved, the runtime writes {profile.output_limit} at most"
        )
    total = window.total if known else window.total - profile.kept_back_tokens
    window = replace(
        window,
        total=total,
        overhead=runtime.overhead_tokens,
        output_limit=profile.output_limit,
        min_prefill=profile.min_prefill_tokens,
        multiple=profile.prefill_multiple,
    )
    room = window.budget
    if profile.min_prefill_tokens and room < profile.min_prefill_tokens:
        raise RefusalSignal(
            "runtime_limit", f"a prompt takes {profile.min_prefill_tokens} tokens at least, the room is {room}"
        )
    # A prompt as long as the window is refused by some, even where nothing is reserved.
    most = total + profile.kept_back_tokens - window.overhead - (1 if profile.limit_compare == "ge" else 0)
    usable = min(room, most)
    usable -= usable % profile.prefill_multiple
    return replace(window, kept=room - usable)


def _flags(manifest: Manifest) -> tuple[str, ...]:
    runtime = manifest.runtime
    flags = ["runtime_none"] if runtime is None else [] if runtime.reviewed else ["runtime_unverified"]
    if ceiling(manifest) is None:
        flags.append("context_unverified")
    return tuple(flags)


def is_valid(tier: Tier, now: str | None) -> bool:
    """Tell whether a tier is approved at an instant: to the end of its last day, UTC (X57).

    Without `now` only a tier without an end is.

    >>> is_valid(Tier("8k", 8192, "2026-11-30"), "2026-12-01T00:30:00+01:00"), is_valid(Tier("8k", 8192, "x"), None)
    (True, False)
    """
    if tier.valid_to is None:
        return True
    if now is None:
        return False
    try:
        today = datetime.fromisoformat(now).astimezone(UTC).date().isoformat()
    except OverflowError:  # the first or last day a calendar knows, in another zone
        return False
    return today <= tier.valid_to


def _tier(request: PlanRequest, manifest: Manifest) -> int | None:
    if request.tier_id is None:
        return None
    for tier in manifest.tiers:
        if tier.id == request.tier_id:
            if not is_valid(tier, request.now):
                raise RefusalSignal("tier_not_valid", "$.tierId: its validity has ended, or $.now is absent")
            return tier.max_input_tokens
    raise RefusalSignal("invalid-input", "$.tierId: not an approved tier of this bundle")
