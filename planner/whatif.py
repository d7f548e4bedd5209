"""Ask for one request in several windows and bundles: would it fit, and what would go (R30).

Every cell is a plan of its own, by the same exact count; nothing of it is sent or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from planner.values.plan import Plan, Refusal
from planner.values.receipt import Removal
from planner.values.request import PlanRequest

Planning = Callable[[PlanRequest], Plan | Refusal]
AS_ASKED = ""
"""Stands for the limit that the request names itself."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The answer of one bundle and tier.

    tokens     of the prompt, or of what cannot move where it does not fit; None where nothing was measured.
    missing    tokens by which it does not fit.
    removed    what would not be in the prompt, turns as ranges.
    droppable  the fewest things the caller could leave out so that it fits.
    """

    bundle_id: str
    tier: str
    outcome: str
    reason: str | None
    input_limit: int | None
    tokens: int | None
    missing: int
    removed: tuple[Removal, ...] = field(repr=False)
    droppable: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """True where there is a plan."""
        return self.reason is None


def whatif(
    request: PlanRequest, bundles: Sequence[tuple[str, Planning]], tiers: Sequence[str] = (AS_ASKED,)
) -> list[Cell]:
    """Plan a request for each bundle and tier, bundle by bundle in the order given.

    bundles  id and planning function of each.
    tiers    ids of approved tiers, or whole numbers of tokens; AS_ASKED takes the request's own limit.
    Raises what planning raises: PlannerFault for a bundle that cannot be used.
    """
    return [_cell(_within(request, bundle_id, tier), plan, tier) for bundle_id, plan in bundles for tier in tiers]


def _within(request: PlanRequest, bundle_id: str, tier: str) -> PlanRequest:
    if tier == AS_ASKED:
        return replace(request, model_bundle_id=bundle_id)
    if tier.isdecimal() and tier.isascii():
        return replace(request, model_bundle_id=bundle_id, tier_id=None, max_input_tokens=int(tier))
    return replace(request, model_bundle_id=bundle_id, tier_id=tier, max_input_tokens=None)


def _cell(request: PlanRequest, plan: Planning, tier: str) -> Cell:
    answer = plan(request)
    account = answer.account
    limit, tokens = (None, None) if account is None else (account.input_limit, account.input_tokens)
    common = (request.model_bundle_id, tier, answer.receipt.outcome, answer.receipt.reason, limit, tokens)
    if isinstance(answer, Plan):
        return Cell(*common, missing=0, removed=answer.removed, droppable=())
    return Cell(*common, missing=answer.tokens_missing, removed=(), droppable=answer.advice.droppable)
