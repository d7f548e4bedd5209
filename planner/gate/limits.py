"""What a sample asks of one bundle and tier: its request, with the limit its boundary means there (R38, X3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from planner.values.gate import Boundary, Sample
from planner.values.plan import Plan, Refusal
from planner.values.reasons import CODES
from planner.values.request import PlanRequest

Planning = Callable[[PlanRequest], Plan | Refusal]
AS_ASKED = "as asked"
"""The tier of samples that name their own limit."""
_ENDLESS = 10**9
_FOR_ROOM = frozenset({"over_budget", "too_large", "beyond_too_large", "replaced_by_summary"})
"""Why something leaves because there is no room; what leaves for another reason leaves from any window."""


def has_own_limit(sample: Sample) -> bool:
    """Tell whether a sample names its limit and is therefore run once per bundle."""
    return sample.boundary is not None or sample.request.max_input_tokens is not None


def request_of(sample: Sample, tier: str, plan: Planning, **fields: Any) -> PlanRequest | Refusal | None:
    """Return the request of a sample, with these fields, for a tier of the bundle that `plan` plans for.

    None where the sample never fits whole into the bundle, the refusal where it is refused whatever the room.
    """
    asked = replace(sample.request, **fields)
    if sample.boundary is not None:
        limit = _limit(asked, sample.boundary, plan)
        return replace(asked, max_input_tokens=limit, tier_id=None) if isinstance(limit, int) else limit
    return asked if tier == AS_ASKED else replace(asked, tier_id=tier)


def _limit(request: PlanRequest, boundary: Boundary, plan: Planning) -> int | Refusal | None:
    answer = plan(replace(request, max_input_tokens=_ENDLESS, tier_id=None))
    if isinstance(answer, Refusal):
        return None if CODES[answer.reason.partition(":")[0]].outcome == "context_policy_overflow" else answer
    account = answer.account
    cut = {one.reason for one in answer.receipt.removed} & _FOR_ROOM
    if cut:
        return None
    beside = account.reserved_output_tokens + account.safety_margin_tokens
    tokens = {"exact": len(answer.ids), "one_over": len(answer.ids) - 1, "half": len(answer.ids) // 2}
    return tokens[boundary] + beside
