"""Benchmarks as tables, and as a bar chart written by hand so that no drawing library is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from planner.cli.draw import rows

if TYPE_CHECKING:
    from planner.cli.benching import BundleBench

_FIGURES = {
    "loadMs": "load ms", "firstPlanMs": "first plan ms", "append.p50Ms": "append p50 ms",
    "append.p99Ms": "append p99 ms", "cutMoving.p50Ms": "cut moves p50 ms", "cutMoving.p99Ms": "cut moves p99 ms",
    "rendersPerPlan": "renders a plan", "charactersRenderedPerPlan": "characters rendered a plan",
    "charactersEncodedPerPlan": "characters encoded a plan", "promptTokens": "prompt tokens",
    "utilisation": "of the whole-turn optimum", "prefixReuse": "prefix reuse",
}  # fmt: skip
LEFT, WIDTH, BAR, TOP = 190, 520, 16, 64


def figures(tree: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the figures of one exported benchmark by name, in the order they are shown."""
    found: dict[str, float | None] = {}
    for name in _FIGURES:
        head, _, inner = name.partition(".")
        found[name] = tree[head][inner] if inner else tree[head]
    return found


def draw_bench(found: Sequence[Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]) -> None:
    """Print one table: a line per figure, a column per bundle, and behind it how it was before."""
    heads: list[str] = [""]
    for one in found:
        heads += [one["bundleId"], "before"] if one["bundleId"] in before else [one["bundleId"]]
    lines = []
    for name, shown in _FIGURES.items():
        line = [shown]
        for one in found:
            line.append(_said(figures(one)[name]))
            if one["bundleId"] in before:
                line.append(_said(figures(before[one["bundleId"]])[name]))
        lines.append(line)
    rows(heads, lines, right=range(1, len(heads)))


def _said(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def svg(found: Sequence[BundleBench]) -> str:
    """Return bars of the two kinds of plans per bundle, in milliseconds, with the counts beside them."""
    bars = [
        (one, kind, times.p50_ms)
        for one in found
        for kind, times in (("append", one.append), ("cut moves", one.cut_moving))
        if times.p50_ms is not None
    ]
    most = max((spent for _, _, spent in bars), default=1.0) or 1.0
    height = TOP + (BAR + 8) * len(bars) + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 260}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<text x="10" y="24" font-size="16">CPU milliseconds of a plan, median</text>',
        f'<text x="10" y="44">{escape(_under(found))}</text>',
    ]
    for row, (one, kind, spent) in enumerate(bars):
        y = TOP + (BAR + 8) * row
        colour = "#1565c0" if kind == "append" else "#ef6c00"
        length = max(1.0, WIDTH * spent / most)
        out += [
            f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(one.bundle_id)} {kind}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}">{spent:.3g} ms, prefix reuse {one.prefix_reuse:.0%}, '
            f"{one.characters_encoded_per_plan:,.0f} characters encoded</text>",
        ]
    return "\n".join([*out, "</svg>", ""])


def _under(found: Sequence[BundleBench]) -> str:
    first = found[0]
    return f"{first.turns} plans of a growing chat in a window of {first.window_tokens:,} tokens"
