"""Resolve the limit of one plan: tier, context, reserve and margin, with every default named (design.md §2)."""

from __future__ import annotations

from dataclasses import dataclass

from planner.values.bundle import Manifest
from planner.values.reasons import RefusalSignal
from planner.values.request import PlanRequest
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

    Refuses invalid-input for an unknown tier, a limit that leaves nothing beside the reserve, or no limit
    at all where the bundle states none.
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
        limits.append(max(tier.max_input_tokens for tier in manifest.tiers))
    if manifest.context_tokens is not None:
        limits.append(manifest.context_tokens)
    if not limits:
        raise RefusalSignal("invalid-input", "$.maxInputTokens: absent, and the bundle states no context")
    total = min(limits)
    if not asked or total != request.max_input_tokens:
        defaults["maxInputTokens"] = total
    if total <= reserved:
        raise RefusalSignal("invalid-input", "$.maxInputTokens: not greater than the reserved output")
    flags = ["runtime_none"] if manifest.runtime is None else []
    if manifest.context_tokens is None:
        flags.append("context_unverified")
    return Resolved(Window(total, reserved, margin), defaults, tuple(flags))


def _tier(request: PlanRequest, manifest: Manifest) -> int | None:
    if request.tier_id is None:
        return None
    for tier in manifest.tiers:
        if tier.id == request.tier_id:
            return tier.max_input_tokens
    raise RefusalSignal("invalid-input", "$.tierId: not an approved tier of this bundle")
