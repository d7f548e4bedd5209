"""What an image or a sound costs: hand-made examples, a plain oracle, and the form of bundle.json."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from planner.bundles.digest import bundle_digest
from planner.bundles.manifest import ManifestFile, dump_manifest, parse_manifest
from planner.values.bundle import ControlToken, FileEntry, Manifest
from planner.values.part_cost import (
    MAX_PART_TOKENS,
    CostRule,
    DurationRule,
    FlatRule,
    PartCost,
    PatchRule,
    TileRule,
    part_tokens,
)
from planner.values.reasons import PlannerFault
from planner.values.turn import Part

QWEN2_VL = PatchRule(28, min_pixels=56 * 56, max_pixels=14 * 14 * 4 * 1280)
TILES = TileRule(512, 170, 12, base_tokens=85)


def image(width: int, height: int) -> Part:
    """An image of a size."""
    return Part("image", id="p", width_px=width, height_px=height)


def sound(duration_ms: int) -> Part:
    """A sound of a length."""
    return Part("audio", id="p", duration_ms=duration_ms)


@pytest.mark.parametrize(("wanted", "part", "rule"), [
    (256, image(7, 9_000), FlatRule(256)),
    (256, Part("image", id="p"), FlatRule(256)),
    (37 * 27, image(1_024, 768), QWEN2_VL),
    (2 * 2, image(10, 10), QWEN2_VL),
    (41 * 30, image(4_000, 3_000), QWEN2_VL),
    (1, image(1, 1), PatchRule(28)),
    (3 + 2 * 2, image(42, 70), PatchRule(28, base_tokens=3)),
    (85 + 4 * 170, image(1_024, 1_000), TILES),
    (85 + 12 * 170, image(5_000, 5_000), TILES),
    (85 + 170, image(1, 1), TILES),
    (25, sound(1_000), DurationRule(1, 40)),
    (26, sound(1_001), DurationRule(1, 40)),
    (25, sound(1_039), DurationRule(1, 40, "down")),
    (26, sound(1_020), DurationRule(1, 40, "nearest")),
    (26, sound(1_021), DurationRule(1, 40, "nearest")),
    (26, sound(1_060), DurationRule(1, 40, "nearest")),
    (2 + 10, sound(1), DurationRule(1, 40, min_tokens=10, base_tokens=2)),
    (2 + 90, sound(1 << 40), DurationRule(1, 40, max_tokens=90, base_tokens=2)),
    (None, Part("image", id="p"), TILES),
    (None, Part("image", id="p"), QWEN2_VL),
    (None, Part("audio", id="p"), DurationRule(1, 40)),
    (None, image(1 << 20, 1 << 20), PatchRule(1)),
    (MAX_PART_TOKENS, image(1 << 10, 1 << 10), PatchRule(1)),
])  # fmt: skip
def test_the_cost_of_a_part_is_its_rules(wanted: int | None, part: Part, rule: CostRule) -> None:
    """Each worked out by hand."""
    assert wanted == part_tokens(part, rule)


def scaled(width: int, height: int, rule: PatchRule) -> int:
    """Oracle: nearest multiples, then a scale that keeps the shape, searched for over exact fractions."""
    step, least, most = rule.patch_px, rule.min_pixels or 0, rule.max_pixels or math.inf
    sides = [max(1, round(Fraction(side, step))) for side in (width, height)]
    area = sides[0] * sides[1] * step * step
    if area > most:
        # The largest whole n with n * step <= side * sqrt(most / (width * height)).
        return math.prod(
            max(1, next(n for n in range(9_999, -1, -1) if (n * step) ** 2 * width * height <= side**2 * most))
            for side in (width, height)
        )
    if area < least:
        return math.prod(
            next(n for n in range(1, least) if (n * step) ** 2 * width * height >= side**2 * least)
            for side in (width, height)
        )
    return sides[0] * sides[1]


def test_patches_equal_a_plain_search(seed: int) -> None:
    """Sizes around every bound, against a search that takes no root at all."""
    draw = random.Random(seed)
    for _ in range(400):
        step = draw.choice([1, 14, 16, 28, 32])
        least = draw.choice([None, step * step, 4 * step * step, 3_000])
        most = draw.choice([None, 100_000, 50 * step * step, 12_345])
        if least is not None and most is not None and least > most:
            continue
        rule = PatchRule(step, least, most)
        width, height = draw.randint(1, 1_200), draw.choice([draw.randint(1, 1_200), 1, 28, 56])
        assert scaled(width, height, rule) == part_tokens(image(width, height), rule), (width, height, rule)


COSTS = (
    PartCost("image", "<|pad|>", QWEN2_VL, "<|a|>\n", "<|b|>"),
    PartCost("audio", "<|a|>", DurationRule(25, 1_000, "nearest", 1, 750, 2)),
)
MANIFEST = Manifest(
    "m", "", "tokenizer_json", (FileEntry("tokenizer.json", 1, "0" * 64),), None,
    control_tokens=(ControlToken("<|pad|>", 1), ControlToken("<|a|>", 2), ControlToken("<|b|>", 3)),
)  # fmt: skip


@pytest.mark.parametrize("rule", [FlatRule(3), QWEN2_VL, PatchRule(14), TILES])
def test_declared_costs_come_back_and_change_the_identity(rule: CostRule) -> None:
    """bundle.json holds them; a bundle of other costs is another bundle, one of none keeps its digest."""
    costs = (replace(COSTS[0], rule=rule), COSTS[1])
    parsed = parse_manifest(dump_manifest(ManifestFile(replace(MANIFEST, parts=costs)))).manifest
    assert costs == parsed.parts
    assert parsed.digest == bundle_digest(parsed) != bundle_digest(replace(parsed, parts=()))
    assert bundle_digest(replace(parsed, parts=costs[:1])) != parsed.digest
    plain = parse_manifest(dump_manifest(ManifestFile(MANIFEST)))
    assert b'"parts"' not in dump_manifest(plain)


def entry(**changes: Any) -> dict[str, Any]:
    """An entry with fields changed; None takes one out."""
    whole = {"type": "image", "placeholder": "<|pad|>", "cost": {"rule": "flat", "tokens": 1}, **changes}
    return {name: value for name, value in whole.items() if value is not None}


@pytest.mark.parametrize(("rows", "path"), [
    ([entry(type="video")], "$.parts[0].type"),
    ([entry(placeholder="word")], "$.parts[0].placeholder"),
    ([entry(placeholder=7)], "$.parts[0].placeholder"),
    ([entry(before="x" * 2_000)], "$.parts[0].before"),
    ([entry(), entry()], "$.parts"),
    ([entry(extra=1)], "$.parts[0]"),
    ([entry(cost=None)], "$.parts[0].cost"),
    ([entry(cost={"rule": "duration", "tokens": 1, "perMs": 1})], "$.parts[0].cost.rule"),
    ([entry(type="audio", cost={"rule": "tiles", "tilePx": 1})], "$.parts[0].cost.rule"),
    ([entry(cost={"rule": "flat", "tokens": (1 << 20) + 1})], "$.parts[0].cost.tokens"),
    ([entry(cost={"rule": "flat", "tokens": -1})], "$.parts[0].cost.tokens"),
    ([entry(cost={"rule": "patches", "patchPx": 0})], "$.parts[0].cost.patchPx"),
    ([entry(cost={"rule": "patches", "patchPx": 1, "minPixels": 9, "maxPixels": 8})], "$.parts[0].cost.minPixels"),
    ([entry(cost={"rule": "tiles", "tilePx": 9, "tileTokens": 1})], "$.parts[0].cost.maxTiles"),
    ([entry(type="audio", cost={"rule": "duration", "tokens": 1, "perMs": 1, "rounding": "odd"})],
     "$.parts[0].cost.rounding"),
    ([entry(type="audio", cost={"rule": "duration", "tokens": 1, "perMs": 1, "minTokens": 9, "maxTokens": 8})],
     "$.parts[0].cost.minTokens"),
])  # fmt: skip
def test_a_broken_entry_is_named_by_its_path(rows: list[Any], path: str) -> None:
    """The fault says where, never what stood there."""
    tree = json.loads(dump_manifest(ManifestFile(MANIFEST))) | {"parts": rows}
    with pytest.raises(PlannerFault) as caught:
        parse_manifest(json.dumps(tree).encode())
    assert "manifest_invalid" == caught.value.code
    assert caught.value.detail.startswith(f"{path}: ")
