"""`parts` of bundle.json <-> cost functions: what an image or a sound costs, as data (docs/accounting.md)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any, get_args

from planner.bundles.fields import Fields, invalid, one_of, read_count, read_positive
from planner.values.account import wire_field
from planner.values.part_cost import (
    MAX_PART_TOKENS,
    CostRule,
    DurationRule,
    FlatRule,
    PartCost,
    PartType,
    PatchRule,
    Rounding,
    TileRule,
)

_RULES = {"flat": FlatRule, "patches": PatchRule, "tiles": TileRule, "duration": DurationRule}
_NAMES = {rule: name for name, rule in _RULES.items()}
_MAX_AROUND = 1_024
_READS = {"image": ("flat", "patches", "tiles"), "audio": ("flat", "duration")}


def part_cost_from_json(value: Any, path: str) -> PartCost:
    """Read one entry. Raises manifest_invalid with the JSON path of what is wrong."""
    row = Fields(value, path)
    kind: PartType = row.take("type", one_of(get_args(PartType)))
    cost = PartCost(
        type=kind,
        placeholder=row.take("placeholder", _words),
        rule=row.take("cost", lambda inner, at: _rule(inner, at, kind)),
        before=row.take("before", _words, ""),
        after=row.take("after", _words, ""),
    )
    row.close()
    return cost


def check_part_costs(costs: Collection[PartCost], controls: Collection[str], path: str) -> None:
    """Refuse two entries of a type, and a placeholder that is no control token: content could then be one.

    controls  the texts of the manifest's control tokens. Raises manifest_invalid.
    """
    if len({cost.type for cost in costs}) != len(costs):
        raise invalid(path, "holds one type twice")
    for position, cost in enumerate(costs):
        if cost.placeholder not in controls:
            raise invalid(f"{path}[{position}].placeholder", "is not among $.controlTokens")


def part_cost_to_json(cost: PartCost) -> dict[str, Any]:
    """Return an entry as bundle.json has it; `part_cost_from_json` gives the same value back."""
    rule = {wire_field(name): inner for name, inner in asdict(cost.rule).items() if inner is not None}
    return {
        "type": cost.type,
        "placeholder": cost.placeholder,
        "before": cost.before,
        "after": cost.after,
        "cost": {"rule": _NAMES[type(cost.rule)], **rule},
    }


def _words(value: Any, path: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_AROUND:
        raise invalid(path, f"must be a text of at most {_MAX_AROUND} characters")
    return value


def _tokens(value: Any, path: str) -> int:
    if read_count(value, path) > MAX_PART_TOKENS:
        raise invalid(path, f"must be at most {MAX_PART_TOKENS}")
    return int(value)


def _rule(value: Any, path: str, kind: PartType) -> CostRule:
    row = Fields(value, path)
    name = row.take("rule", one_of(_READS[kind]))
    rule: CostRule
    if name == "flat":
        rule = FlatRule(row.take("tokens", _tokens))
    elif name == "patches":
        rule = PatchRule(
            row.take("patchPx", read_positive),
            row.take("minPixels", read_positive, None),
            row.take("maxPixels", read_positive, None),
            row.take("baseTokens", _tokens, 0),
        )
        if rule.min_pixels is not None and rule.max_pixels is not None and rule.min_pixels > rule.max_pixels:
            raise invalid(f"{path}.minPixels", "is above maxPixels")
    elif name == "tiles":
        rule = TileRule(
            row.take("tilePx", read_positive),
            row.take("tileTokens", _tokens),
            row.take("maxTiles", read_positive),
            row.take("baseTokens", _tokens, 0),
        )
    else:
        rule = DurationRule(
            row.take("tokens", read_positive),
            row.take("perMs", read_positive),
            row.take("rounding", one_of(get_args(Rounding)), "up"),
            row.take("minTokens", _tokens, 0),
            row.take("maxTokens", _tokens, MAX_PART_TOKENS),
            row.take("baseTokens", _tokens, 0),
        )
        if rule.min_tokens > rule.max_tokens:
            raise invalid(f"{path}.minTokens", "is above maxTokens")
    row.close()
    return rule
