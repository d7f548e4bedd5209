"""A bar chart as SVG, written by hand so that a benchmark needs no drawing library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10

LEFT, WIDTH, ROW, TOP = 330, 520, 26, 46


@dataclass(frozen=True)
class Bar:
    """A measured ratio; `target` is drawn as a mark, `at_most` tells which side of it is good."""

    label: str
    value: float
    target: float | None = None
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is reached; true without one."""
        if self.target is None:
            return True
        return self.value <= self.target if self.at_most else self.value >= self.target


def svg(title: str, bars: Sequence[Bar]) -> str:
    """Return the chart: ratios on a logarithmic axis, green where the target is met.

    >>> svg("t", [Bar("a", 2.0)]).startswith("<svg")
    True
    """
    values = [value for bar in bars for value in (bar.value, bar.target) if value]
    low, high = min([1.0, *values]), max([10.0, *values])

    def place(value: float) -> float:
        return LEFT + WIDTH * (log10(value) - log10(low)) / (log10(high) - log10(low))

    height = TOP + ROW * len(bars) + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 110}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="10" y="24" font-size="16">{escape(title)}</text>',
    ]
    for row, bar in enumerate(bars):
        y = TOP + ROW * row
        colour = "#2e7d32" if bar.met else "#c62828"
        end = place(bar.value)
        out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>')
        out.append(
            f'<rect x="{min(place(1.0), end):.1f}" y="{y}" width="{max(1.0, abs(end - place(1.0))):.1f}" height="18" '
            f'fill="{colour}"/>'
        )
        if bar.target is not None:
            mark = place(bar.target)
            out.append(
                f'<line x1="{mark:.1f}" y1="{y - 3}" x2="{mark:.1f}" y2="{y + 21}" stroke="#000" stroke-width="2"/>'
            )
        out.append(f'<text x="{max(end, place(bar.target or bar.value)) + 6:.1f}" y="{y + 14}">{bar.value:.3g}x</text>')
    return "\n".join([*out, "</svg>", ""])
