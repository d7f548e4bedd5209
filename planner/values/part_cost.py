"""What a part that is no text costs, by a function that a bundle declares as data (peers.md, feature 10).

Pixels and samples are never read: the caller states a part's size, the bundle how its model's processor turns a
size into placeholder tokens. All arithmetic is in whole numbers, so every machine has the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Literal

from planner.values.turn import Part

PartType = Literal["image", "audio"]
Rounding = Literal["up", "down", "nearest"]
MAX_PART_TOKENS = 1 << 20
"""A part beyond this is refused: no window holds it, and its placeholders would only fill memory."""


@dataclass(frozen=True, slots=True)
class FlatRule:
    """Every part costs the same; its size need not be known."""

    tokens: int


@dataclass(frozen=True, slots=True)
class PatchRule:
    """An image is resized to multiples of `patch_px`, one token for each square; `base_tokens` once.

    With `min_pixels` and `max_pixels` it is first scaled to that area, its shape kept, as such processors do.
    """

    patch_px: int
    min_pixels: int | None = None
    max_pixels: int | None = None
    base_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TileRule:
    """An image is cut into tiles of `tile_px`, `tile_tokens` for each; `base_tokens` once, for its small copy."""

    tile_px: int
    tile_tokens: int
    max_tiles: int
    base_tokens: int = 0


@dataclass(frozen=True, slots=True)
class DurationRule:
    """Sound costs `tokens` for every `per_ms` milliseconds, rounded, within bounds; `base_tokens` once."""

    tokens: int
    per_ms: int
    rounding: Rounding = "up"
    min_tokens: int = 0
    max_tokens: int = MAX_PART_TOKENS
    base_tokens: int = 0


CostRule = FlatRule | PatchRule | TileRule | DurationRule


@dataclass(frozen=True, slots=True)
class PartCost:
    """A kind of part: the control token that stands for one token of it, what stands around, and the rule."""

    type: PartType
    placeholder: str
    rule: CostRule
    before: str = ""
    after: str = ""

    def text(self, tokens: int) -> str:
        """Return what the prompt holds for a part of so many tokens.

        >>> PartCost("image", "<i>", FlatRule(2), before="<b>").text(2)
        '<b><i><i>'
        """
        return f"{self.before}{self.placeholder * tokens}{self.after}"


def part_tokens(part: Part, rule: CostRule) -> int | None:
    """Return how many placeholders a part needs, None where it does not state the size that the rule reads.

    None too beyond MAX_PART_TOKENS: such a part is not measured.

    >>> part_tokens(Part("image", id="p", width_px=100, height_px=56), PatchRule(28))
    8
    >>> part_tokens(Part("audio", id="p", duration_ms=1001), DurationRule(1, 40))
    26
    """
    found: int | None
    if isinstance(rule, FlatRule):
        found = rule.tokens
    elif isinstance(rule, DurationRule):
        found = None if part.duration_ms is None else _lasting(part.duration_ms, rule)
    elif part.width_px is None or part.height_px is None:
        found = None
    elif isinstance(rule, PatchRule):
        found = _patches(part.width_px, part.height_px, rule)
    else:
        tiles = _up(part.width_px, rule.tile_px) * _up(part.height_px, rule.tile_px)
        found = rule.base_tokens + min(tiles, rule.max_tiles) * rule.tile_tokens
    return None if found is None or found > MAX_PART_TOKENS else found


def _up(size: int, step: int) -> int:
    return -(-size // step)


def _nearest(size: int, step: int) -> int:
    """Divide to the nearest whole number, halves to the even one."""
    whole, rest = divmod(size, step)
    return whole + (2 * rest > step or (2 * rest == step and whole % 2))


def _lasting(duration_ms: int, rule: DurationRule) -> int:
    divide = {"up": _up, "down": int.__floordiv__, "nearest": _nearest}[rule.rounding]
    tokens = divide(duration_ms * rule.tokens, rule.per_ms)
    return rule.base_tokens + min(max(tokens, rule.min_tokens), rule.max_tokens)


def _patches(width: int, height: int, rule: PatchRule) -> int:
    step = rule.patch_px
    across, down = max(1, _nearest(width, step)), max(1, _nearest(height, step))
    area = across * down * step * step
    if rule.max_pixels is not None and area > rule.max_pixels:
        # side / sqrt(width * height / max) / step, rounded down, without a root that rounds on its own
        across = max(1, isqrt(width * rule.max_pixels // (height * step * step)))
        down = max(1, isqrt(height * rule.max_pixels // (width * step * step)))
    elif rule.min_pixels is not None and area < rule.min_pixels:
        across = _root_up(width * rule.min_pixels, height * step * step)
        down = _root_up(height * rule.min_pixels, width * step * step)
    return rule.base_tokens + across * down


def _root_up(over: int, under: int) -> int:
    """Return the smallest whole number whose square is at least over / under."""
    wanted = _up(over, under)
    return isqrt(wanted - 1) + 1
