"""Rules over measured budgets: the share of the window, and what grew since the last release (X15, M6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from planner.values.budget import BundleBudget
from planner.values.gate import Reason
from planner.values.policy_file import Caps


def over_share(budget: BundleBudget, share: float) -> list[Reason]:
    """Return the tiers of which the fixed part takes more than this share of the input limit (X15)."""
    return [
        Reason("fixed_share_over_cap", f"{budget.bundle_id}/{tier.id}")
        for tier in budget.tiers
        if tier.room_tokens is not None
        and budget.fixed.fixed_tokens > math.floor(Fraction(repr(share)) * tier.input_limit)
    ]


def sizes_of(budget: BundleBudget) -> dict[str, int]:
    """Return what every item, parameter and description costs, as growth is named: `tool/<id>/parameters/<name>`.

    An item has its line of the account, a part what a plan without it saves.
    """
    found: dict[str, int] = {}
    for item in budget.fixed.items:
        if item.id.startswith("request/"):
            continue
        found[item.id] = item.tokens
        found |= {f"{item.id}/{part.path}": part.saved_tokens or 0 for part in item.parts}
    return found


def growth(budget: BundleBudget, before: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return by how many tokens each item and part grew or shrank, the largest change first.

    before  the same bundle's entry of an exported budget; what is new or gone counts with all of its tokens.
    """
    old = old_sizes(before)
    now = {**sizes_of(budget), "framing": budget.fixed.framing_tokens, "constraints": budget.fixed.constraint_tokens}
    changes = ((name, now.get(name, 0) - old.get(name, 0)) for name in {**old, **now})
    return sorted(((name, by) for name, by in changes if by), key=lambda one: (-abs(one[1]), one[0]))


def old_sizes(before: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes of an exported entry under the names of `sizes_of`."""
    fixed = before["fixed"]
    found = {"framing": int(fixed["framingTokens"]), "constraints": int(fixed["constraintTokens"])}
    for item in fixed["items"]:
        if str(item["id"]).startswith("request/"):
            continue
        found[str(item["id"])] = int(item["tokens"])
        found |= {f"{item['id']}/{part['path']}": int(part["savedTokens"] or 0) for part in item["parts"]}
    return found


def over_growth(budget: BundleBudget, before: Mapping[str, Any], cap: int) -> list[Reason]:
    """Return what made the fixed part grow by more than `cap` tokens, each item that grew by name; none within it."""
    fixed = before["fixed"]
    was = int(fixed["inputTokens"]) - int(fixed["questionTokens"]) + int(fixed["constraintTokens"])
    if budget.fixed.fixed_tokens - was <= cap:
        return []
    grown = [(name, by) for name, by in growth(budget, before) if by > 0 and name.count("/") <= 1]
    return [Reason("growth_over_cap", f"{budget.bundle_id}/{name} +{by}") for name, by in grown]


def judge(budget: BundleBudget, caps: Caps, before: Mapping[str, Any] | None = None) -> list[Reason]:
    """Return every reason why a budget blocks a release under a candidate's caps."""
    found = over_share(budget, caps.fixed_share)
    if caps.policy is not None and budget.fixed.fixed_tokens > caps.policy:
        found.append(Reason("policy_over_cap", budget.bundle_id))
    if before is not None and caps.growth is not None:
        found += over_growth(budget, before, caps.growth)
    return found
