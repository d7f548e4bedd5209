"""Drawing budgets: one line per bundle and tier, then items, framing and growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from planner.cli.draw import rows

if TYPE_CHECKING:
    from planner.values.budget import BundleBudget


def draw_budget(budgets: Sequence[BundleBudget], grown: Mapping[str, Mapping[str, int]]) -> None:
    """Print the budgets as tables."""
    lines = [
        (one.bundle_id, tier.id, f"{one.fixed.fixed_tokens:,}", f"{tier.input_limit:,}",
         f"{tier.reserved_output_tokens:,}", _said(tier.room_tokens), _bound(one))
        for one in budgets for tier in one.tiers
    ]  # fmt: skip
    rows(("bundle", "tier", "fixed", "limit", "reserve", "room", "proven bound"), lines, right=(2, 3, 4, 5))
    for one in budgets:
        items = [(item.id, f"{item.tokens:,}", _said(item.saved_tokens)) for item in one.fixed.items]
        items += [
            (f"{item.id}/{part.path}", "", _said(part.saved_tokens)) for item in one.fixed.items for part in item.parts
        ]
        rows((f"fixed on {one.bundle_id}", "tokens", "saved without it"), items, right=(1, 2))
        around = [(row.kind, _said(row.measured_tokens), _said(row.proven_tokens)) for row in one.framing]
        rows(("framing", "measured", "proven"), around, right=(1, 2))
        if grown.get(one.bundle_id):
            rows((f"growth on {one.bundle_id}", "tokens"), [(name, f"{by:+,}") for name, by in
                 grown[one.bundle_id].items()], right=(1,))  # fmt: skip


def _bound(one: BundleBudget) -> str:
    if not one.proven.proven:
        return "none"
    form = "bytes" if one.proven.normaliser == "none" else f"bytes of the {one.proven.normaliser} text"
    return f"{form} + {one.proven.prefix_tokens}" if one.proven.prefix_tokens else form


def _said(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
